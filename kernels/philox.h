// Philox4x32-10 and the noise of spec/sampler.h on the device.
#pragma once

#include "kernels/simt/simt.h"

namespace kimi {

// Word token % 4 of the block with counter (token / 4, position, 0) and the seed as key.
__device__ __forceinline__ std::uint32_t philox_word(std::uint64_t seed, std::uint64_t position,
                                                     std::uint32_t token) {
    std::uint32_t c[4] = {token / 4, static_cast<std::uint32_t>(position),
                          static_cast<std::uint32_t>(position >> 32), 0};
    std::uint32_t key[2] = {static_cast<std::uint32_t>(seed),
                            static_cast<std::uint32_t>(seed >> 32)};
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0],
                            b = std::uint64_t{0xCD9E8D57} * c[2];
        c[0] = static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key[0];
        c[1] = static_cast<std::uint32_t>(b);
        c[2] = static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key[1];
        c[3] = static_cast<std::uint32_t>(a);
        key[0] += 0x9E3779B9U;
        key[1] += 0xBB67AE85U;
    }
    const std::uint32_t word = token % 4;
    return word == 0 ? c[0] : word == 1 ? c[1] : word == 2 ? c[2] : c[3];
}

// Standard Gumbel noise of a word: -log(-log((word + 0.5) / 2^32)).
__device__ __forceinline__ double gumbel(std::uint32_t word) {
    return -log(-log((word + 0.5) * 0x1p-32));
}
// The same, within 1e-5.
__device__ __forceinline__ float gumbel_approx(std::uint32_t word) {
    const float u = (static_cast<float>(word) + 0.5F) * 0x1p-32F;
    const float rest = (static_cast<float>(~word) + 0.5F) * 0x1p-32F;  // 1 - u
    return -logf(word >> 31 ? -log1pf(-rest) : -logf(u));
}

}  // namespace kimi
