#include "capi/boundary.h"

namespace kimi::capi {
namespace {

// The longest beginning of text that ends at a character border and has at most max bytes.
std::size_t cut(std::string_view text, std::size_t max) {
    if (text.size() <= max) return text.size();
    while (max > 0 && (static_cast<unsigned char>(text[max]) & 0xC0) == 0x80) --max;
    return max;
}

}  // namespace

kimi_status report(kimi_error *error, kimi_status status, std::string_view text) noexcept {
    constexpr std::size_t kText = offsetof(kimi_error, message);
    if (error == nullptr || error->struct_size < kText) return status;
    error->status = status;
    const std::size_t room = std::min(error->struct_size - kText, sizeof error->message);
    if (room == 0) return status;
    error->message[text.copy(error->message, cut(text, room - 1))] = '\0';
    return status;
}

}  // namespace kimi::capi
