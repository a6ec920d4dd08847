// Moves the KV of accepted nodes to where their path would have put them, in all layers.
//
// A cell is page * 64 + place in the page. The targets ascend, and no token moves to a later place
// of its sequence than it has; so all of them can be read before any is written. Also for the
// drafter's pages, as planes. Bytes that must move: those of each token, in and out.
#pragma once

#include "kernels/kv_layout.h"
#include "kernels/simt/types.h"

namespace kimi {

inline constexpr std::uint32_t kMaxKvPlanes = 3;

// A part of a page, [64, token_bytes] from offset on.
struct KvPlane {
    std::uint32_t offset, token_bytes;  // multiples of 16
};
struct KvPlanes {
    KvPlane plane[kMaxKvPlanes];  // those that are not needed have no bytes
    std::uint32_t page_bytes;

    KIMI_HOST_DEVICE constexpr std::uint32_t token_bytes() const {
        return plane[0].token_bytes + plane[1].token_bytes + plane[2].token_bytes;
    }
};
// Of pages with so many tokens.
KIMI_HOST_DEVICE constexpr KvPlanes mla_planes(bool fp8, std::uint32_t tokens = kMlaPageTokens) {
    using Page = MlaFp8Page;
    if (!fp8) return {{{0, MlaBf16Page::kTokenBytes}}, tokens * MlaBf16Page::kTokenBytes};
    return {{{0, Page::kLatentBytes},
             {tokens * Page::kLatentBytes, Page::kScaleBytes},
             {tokens * (Page::kLatentBytes + Page::kScaleBytes), Page::kRopeBytes}},
            tokens * Page::kTokenBytes};
}

struct KvCompactParams {
    simt::Global<std::uint8_t> pages;  // [layers, pages], aligned to 16 bytes
    std::int64_t layer_bytes;          // from layer to layer
    std::uint32_t n_layers;
    KvPlanes planes;
    simt::Global<const std::uint32_t> from, to;  // [max_moves] cells
    simt::Global<const std::uint32_t> n_moves;   // on the device, at most max_moves
    std::uint32_t max_moves;
};

void kv_compact(const KvCompactParams &params, simt::Stream stream);

}  // namespace kimi
