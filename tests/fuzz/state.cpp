// A saved session whose checksums are right: what they do not protect from. After a byte of flags
// the input is the header behind the origin, then the rules and the tokens; the pages are zero.
#include <algorithm>
#include <cstring>

#include "base/checksum.h"
#include "fuzz/engine.h"

using namespace kimi;

namespace {

constexpr std::size_t kHeader = 256, kOrigin = 16, kFields = 80, kChecksum = 248;
constexpr std::size_t kRulesBytes = 176, kNextRulesBytes = 184, kTokens = 192, kCached = 200;
constexpr std::size_t kDrafts = 216;
constexpr std::size_t kPageBytes = 64, kRingBytes = 72;  // all: offsets in the header
enum { kRecompute = 1, kOwnOrigin = 2, kTrueSizes = 4 };

template <typename T>
T get(const std::string &bytes, std::size_t at) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}
template <typename T>
void set(std::string &bytes, std::size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
}
void overlay(std::string &bytes, std::size_t at, std::string_view part) {
    std::copy(part.begin(), part.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
}
void add_checked(std::string &out, std::string_view part) {
    const std::uint64_t sum = checksum(part.data(), part.size());
    out.append(part);
    out.append(reinterpret_cast<const char *>(&sum), sizeof sum);
}

const std::string &empty_session() {
    static const std::string saved = [] {
        kimi_session *session = nullptr;
        fuzz::checked(kimi_session_create(fuzz::tiny_engine(), nullptr, &session, nullptr));
        std::size_t size = 0;
        kimi_session_save_buffer(session, nullptr, 0, &size, nullptr);
        std::string bytes(size, '\0');
        fuzz::checked(kimi_session_save_buffer(session, bytes.data(), size, &size, nullptr));
        kimi_session_destroy(session);
        return bytes;
    }();
    return saved;
}

std::string saved_session(fuzz::Bytes in, std::uint8_t flags) {
    std::string header = empty_session().substr(0, kHeader);
    const std::uint64_t page = get<std::uint64_t>(header, kPageBytes);
    const std::uint64_t ring = get<std::uint64_t>(header, kRingBytes);
    if ((flags & kOwnOrigin) != 0) overlay(header, kOrigin, in.take(kFields - kOrigin));
    overlay(header, kFields, in.take(kChecksum - kFields));
    const auto size = [&](std::size_t at) {
        return std::min<std::uint64_t>(get<std::uint64_t>(header, at), 4096);
    };
    const std::string_view rules = in.take(size(kRulesBytes));
    const std::string_view next_rules = in.take(size(kNextRulesBytes));
    const std::string_view tokens = in.take(size(kTokens) * 4);
    if ((flags & kTrueSizes) != 0) {
        set<std::uint64_t>(header, kRulesBytes, rules.size());
        set<std::uint64_t>(header, kNextRulesBytes, next_rules.size());
        set<std::uint64_t>(header, kTokens, tokens.size() / 4);
    }
    set(header, kChecksum, checksum(header.data(), kChecksum));
    std::string out = header;
    add_checked(out, rules);
    add_checked(out, next_rules);
    add_checked(out, tokens);
    for (std::uint64_t i = 0; i < size(kCached) && i < 512; i += 64)
        add_checked(out, std::string(page, '\0'));
    if (get<std::uint32_t>(header, kDrafts) != 0) add_checked(out, std::string(ring, '\0'));
    return out;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    fuzz::Bytes in(data, size);
    const std::uint8_t flags = in.byte();
    const std::string saved = saved_session(in, flags);
    kimi_session *session = nullptr;
    if (fuzz::checked(kimi_session_restore_buffer(fuzz::tiny_engine(), saved.data(), saved.size(),
                                                  flags & kRecompute, &session, nullptr)) !=
        KIMI_OK)
        return 0;
    for (int i = 0; i < 3; ++i) fuzz::step(session);
    const std::int32_t token = 'x';
    fuzz::checked(kimi_session_append(session, &token, 1, nullptr));
    for (int i = 0; i < 3; ++i) fuzz::step(session);
    kimi_session_destroy(session);
    return 0;
}
