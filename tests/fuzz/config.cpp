// A target's and a drafter's config.json.
#include "model/config.h"
#include "fuzz/fuzz.h"
#include "model/drafter_weights.h"

using namespace kimi;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static const fuzz::InputFile input;
    static const ModelConfig target = test::drafted_shape();
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    input.write(text);
    fuzz::accepts([&] { parse_model_config(text, "config.json"); });
    fuzz::accepts([&] { read_drafter_config(input.path(), target); });
    return 0;
}
