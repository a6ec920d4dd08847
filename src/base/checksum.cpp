#include "base/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kimi {

std::uint64_t checksum(const void *data, std::size_t bytes) {
    return XXH3_64bits(data, bytes);
}

struct Digester::State {
    XXH3_state_t xxh;
};

Digester::Digester() : state_(std::make_unique<State>()) {
    XXH3_128bits_reset(&state_->xxh);
}
Digester::~Digester() = default;

void Digester::add(const void *data, std::size_t bytes) {
    XXH3_128bits_update(&state_->xxh, data, bytes);
}

std::array<std::uint64_t, 2> Digester::value() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
    return {hash.low64, hash.high64};
}

}  // namespace kimi
