// A tiktoken.model and texts. The first byte says whether the 256 bytes that every table must have
// stand before the rest; up to an empty line the rest is the table, behind it a text. What is
// encoded decodes to itself.
#include <vector>

#include "fuzz/fuzz.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

using namespace kimi;

namespace {

void check_text(const Tokenizer &tokenizer, std::string_view text) {
    for (const bool specials : {false, true}) {
        std::vector<std::int32_t> tokens;
        const bool accepted = fuzz::accepts([&] { tokens = tokenizer.encode(text, specials); });
        fuzz::expect(accepted == (find_invalid_utf8(text) == std::string::npos),
                     "what is UTF-8 is encoded, and nothing else");
        if (accepted) fuzz::expect(tokenizer.decode(tokens) == text, "a text changed");
    }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static const std::string folder = fuzz::make_folder();
    static const std::string bytes = read_file(fuzz::tiny_model() + "/tiktoken.model", 1 << 20);
    fuzz::Bytes in(data, size);
    const bool with_bytes = in.byte() % 2 == 0;
    const std::string_view rest = in.rest();
    const std::size_t end = std::min(rest.find("\n\n"), rest.size());
    const std::string_view table = rest.substr(0, end),
                           text = rest.substr(std::min(end + 2, rest.size()));
    synth::write_text(folder + "/tiktoken.model",
                      (with_bytes ? bytes : std::string()) + std::string(table));
    fuzz::accepts([&] {
        const Tokenizer tokenizer(folder);
        check_text(tokenizer, text);
        std::vector<std::int32_t> ids;
        for (const char c : text) ids.push_back(c * 37);
        fuzz::accepts([&] { tokenizer.decode(ids); });
    });
    return 0;
}
