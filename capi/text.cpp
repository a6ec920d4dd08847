#include "capi/boundary.h"
#include "capi/handles.h"
#include "text/chat_request.h"

using namespace kimi;
using namespace kimi::capi;

kimi_status kimi_tokenizer_create(const char *checkpoint_dir, kimi_tokenizer **out,
                                  kimi_error *error) noexcept {
    return guarded(error, [&] {
        not_null(out, "out") = nullptr;
        const std::string dir(&not_null(checkpoint_dir, "checkpoint_dir"));
        *out = new kimi_tokenizer{std::make_shared<const Tokenizer>(dir)};
    });
}

void kimi_tokenizer_destroy(kimi_tokenizer *tokenizer) noexcept {
    delete tokenizer;
}

kimi_status kimi_tokenize(const kimi_tokenizer *tokenizer, const char *text, size_t len,
                          uint32_t flags, int32_t *tokens, size_t cap, size_t *n,
                          kimi_error *error) noexcept {
    return guarded(error, [&] {
        const Tokenizer &t = *not_null(tokenizer, "tokenizer").tokenizer;
        if ((flags & ~std::uint32_t{KIMI_SPECIALS}) != 0)
            fail(KIMI_INVALID_ARGUMENT, "flags is ", flags, ", must be 0 or KIMI_SPECIALS");
        const std::vector<std::int32_t> ids =
            t.encode(capi::text(text, len, "text"), (flags & KIMI_SPECIALS) != 0);
        copy_out(ids.data(), ids.size(), tokens, cap, n, "tokens", "n");
    });
}

kimi_status kimi_detokenize(const kimi_tokenizer *tokenizer, const int32_t *tokens, size_t n,
                            char *text, size_t cap, size_t *len, kimi_error *error) noexcept {
    return guarded(error, [&] {
        const Tokenizer &t = *not_null(tokenizer, "tokenizer").tokenizer;
        const std::string bytes = t.decode(array(tokens, n, "tokens"));
        copy_out(bytes.data(), bytes.size(), text, cap, len, "text", "len");
    });
}

kimi_status kimi_chat_render(const kimi_tokenizer *tokenizer, const char *json, size_t json_len,
                             char *text, size_t cap, size_t *len, kimi_error *error) noexcept {
    return guarded(error, [&] {
        const Tokenizer &t = *not_null(tokenizer, "tokenizer").tokenizer;
        const std::string rendered = render_chat_request(t, capi::text(json, json_len, "json"));
        copy_out(rendered.data(), rendered.size(), text, cap, len, "text", "len");
    });
}
