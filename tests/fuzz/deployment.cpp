// A deployment, as JSON and as a binary.
#include "deploy/deployment.h"
#include "fuzz/fuzz.h"

using namespace kimi;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static const fuzz::InputFile input;
    input.write({reinterpret_cast<const char *>(data), size});
    fuzz::accepts([] { read_deployment(input.path()); });
    return 0;
}
