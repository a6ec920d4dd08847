// Where things lie in a page of the latent KV cache: 64 tokens of one layer, each 512 latents
// (after the norm) and 64 rope values (after the rotation). The layers' pages follow each other,
// [layers, pages].
//
// bf16: [64, 576]. fp8: three planes, [64, 512] e4m3, [64, 4] fp32 scales of 128 latents each, [64,
// 64] bf16.
#pragma once

#include <cstdint>

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

}  // namespace kimi
