// Where things lie in a page of the latent KV cache: 64 tokens of one layer, each 512 latents
// (after the norm) and 64 rope values (after the rotation). The layers' pages follow each other,
// [layers, pages].
//
// bf16: [64, 576]. fp8: three planes, [64, 512] e4m3, [64, 4] fp32 scales of 128 latents each, [64,
// 64] bf16.
//
// Where attention is split over the context, a page of a rank has the same consecutive part of the
// 64 tokens in every page (KvShard), laid out as above with fewer tokens.
#pragma once

#include <cstdint>

#include "kernels/simt/types.h"

namespace kimi {

inline constexpr int kMlaLatent = 512, kMlaRope = 64, kMlaDim = kMlaLatent + kMlaRope;
inline constexpr int kMlaPageTokens = 64;
inline constexpr int kMlaFp8Groups = 4;  // scales of a token

struct MlaBf16Page {
    static constexpr int kTokenBytes = 2 * kMlaDim;
    static constexpr int kBytes = kMlaPageTokens * kTokenBytes;
};

struct MlaFp8Page {
    static constexpr int kLatentBytes = kMlaLatent, kScaleBytes = 4 * kMlaFp8Groups,
                         kRopeBytes = 2 * kMlaRope;
    static constexpr int kTokenBytes = kLatentBytes + kScaleBytes + kRopeBytes;
    static constexpr int kScales = kMlaPageTokens * kLatentBytes;  // offset of the plane
    static constexpr int kRope = kScales + kMlaPageTokens * kScaleBytes;
    static constexpr int kBytes = kMlaPageTokens * kTokenBytes;
};

// The shard-th part of each page's tokens, which a rank holds, in the order of their positions.
struct KvShard {
    std::uint32_t log2_tokens = 6;  // of a part: at most kMlaPageTokens
    std::uint32_t shard = 0;

    KIMI_HOST_DEVICE constexpr std::uint32_t tokens() const { return 1U << log2_tokens; }
    KIMI_HOST_DEVICE constexpr bool holds(std::uint32_t position) const {
        return position % kMlaPageTokens >> log2_tokens == shard;
    }
    // How many of the first n positions of a sequence the rank holds.
    KIMI_HOST_DEVICE constexpr std::uint32_t held(std::uint32_t n) const {
        const std::uint32_t in_page = n % kMlaPageTokens, begin = shard << log2_tokens;
        const std::uint32_t behind = in_page > begin ? in_page - begin : 0;
        return (n / kMlaPageTokens << log2_tokens) + (behind < tokens() ? behind : tokens());
    }
    // The position of the i-th held one.
    KIMI_HOST_DEVICE constexpr std::uint32_t position(std::uint32_t i) const {
        return (i >> log2_tokens) * kMlaPageTokens + (shard << log2_tokens) + i % tokens();
    }
};

}  // namespace kimi
