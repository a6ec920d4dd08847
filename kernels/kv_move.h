// Copies whole pages, or rings, in all layers: page to[i] becomes page from[i]. No page is both a
// source and a target. Bytes that must move: those of each page, in and out.
#pragma once

#include "kernels/simt/types.h"

namespace kimi {

struct KvMoveParams {
    simt::Global<std::uint8_t> pages;            // [layers, pages], aligned to 16 bytes
    std::int64_t layer_bytes;                    // from layer to layer
    std::uint32_t n_layers, page_bytes;          // page_bytes a multiple of 16
    simt::Global<const std::uint32_t> from, to;  // [n_moves]
    std::uint32_t n_moves;
};

void kv_move(const KvMoveParams &params, simt::Stream stream);

}  // namespace kimi
