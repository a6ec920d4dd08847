#include "text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace kimi {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Length and second-byte range of the characters with a lead byte; length 0 if it leads none.
struct Lead {
    std::size_t size;
    unsigned char low = 0x80, high = 0xBF;
};
Lead lead_of(unsigned char byte) {
    if (byte < 0x80) return {1};
    if (byte < 0xC2) return {0};
    if (byte < 0xE0) return {2};
    if (byte == 0xE0) return {3, 0xA0, 0xBF};
    if (byte == 0xED) return {3, 0x80, 0x9F};
    if (byte < 0xF0) return {3};
    if (byte == 0xF0) return {4, 0x90, 0xBF};
    if (byte < 0xF4) return {4};
    if (byte == 0xF4) return {4, 0x80, 0x8F};
    return {0};
}

bool next_eight_are_ascii(std::string_view bytes, std::size_t at) {
    std::uint64_t word;
    if (bytes.size() - at < sizeof word) return false;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    return (word & 0x8080808080808080) == 0;
}

}  // namespace

Utf8Unit first_utf8_unit(std::string_view bytes) {
    using Kind = Utf8Unit::Kind;
    const Lead lead = lead_of(static_cast<unsigned char>(bytes[0]));
    if (lead.size == 0) return {Kind::invalid, 1};
    unsigned char low = lead.low, high = lead.high;
    for (std::size_t i = 1; i < lead.size; ++i) {
        if (i == bytes.size()) return {Kind::partial, i};
        const auto byte = static_cast<unsigned char>(bytes[i]);
        if (byte < low || byte > high) return {Kind::invalid, i};
        low = 0x80, high = 0xBF;
    }
    return {Kind::valid, lead.size};
}

std::size_t find_invalid_utf8(std::string_view bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
        if (next_eight_are_ascii(bytes, at)) {
            at += 8;
            continue;
        }
        const Utf8Unit unit = first_utf8_unit(bytes.substr(at));
        if (unit.kind != Utf8Unit::Kind::valid) return at;
        at += unit.size;
    }
    return std::string_view::npos;
}

void Utf8Stream::push(std::string_view bytes, std::string &out) {
    for (const char byte : bytes) {
        held_ += byte;
        while (!held_.empty()) {
            const Utf8Unit unit = first_utf8_unit(held_);
            if (unit.kind == Utf8Unit::Kind::partial) break;
            if (unit.kind == Utf8Unit::Kind::valid) {
                out.append(held_, 0, unit.size);
            } else {
                out.append(kReplacement);
            }
            held_.erase(0, unit.size);
        }
    }
}

void Utf8Stream::flush(std::string &out) {
    if (!held_.empty()) out.append(kReplacement);
    held_.clear();
}

}  // namespace kimi
