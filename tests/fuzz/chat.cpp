// Chat JSON, rendered and encoded.
#include "fuzz/fuzz.h"
#include "text/chat_request.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

using namespace kimi;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static const Tokenizer tokenizer(fuzz::tiny_model());
    const std::string_view json(reinterpret_cast<const char *>(data), size);
    fuzz::accepts([&] {
        fuzz::expect(find_invalid_utf8(render_chat_request(tokenizer, json)) == std::string::npos,
                     "the prompt is not UTF-8");
    });
    fuzz::accepts([&] { tokenizer.decode(encode_chat_request(tokenizer, json).tokens); });
    return 0;
}
