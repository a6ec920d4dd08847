// A safetensors file: every tensor that is read lies in it.
#include "model/safetensors.h"
#include "fuzz/fuzz.h"

using namespace kimi;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static const fuzz::InputFile input;
    input.write({reinterpret_cast<const char *>(data), size});
    fuzz::accepts([] {
        const MappedFile file(input.path());
        for (const Tensor &tensor : read_safetensors(file)) {
            const std::byte *begin = file.bytes().data(), *end = begin + file.bytes().size();
            fuzz::expect(
                tensor.data >= begin && tensor.bytes <= static_cast<std::size_t>(end - tensor.data),
                "a tensor lies outside its file");
        }
    });
    return 0;
}
