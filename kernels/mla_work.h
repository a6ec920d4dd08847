// What a block of mla_verify_paged does, and how its tokens come into shared memory.
#pragma once

#include "kernels/mla_verify_paged.h"
#include "kernels/simt/simt.h"

namespace kimi::mla {

using namespace simt;

constexpr int kThreads = 256, kWarps = 8;
constexpr int kTile = 32;  // tokens
constexpr int kTilesPerPage = kMlaPageTokens / kTile;
constexpr int kRow = kMlaDim + 8;  // elements from token to token
constexpr int kTileBytes = kTile * kRow * 2;
constexpr int kProbRow = kTile + 8;
constexpr int kMaxQueries = 64;
constexpr int kMaxTail = 2 * kMlaPageTokens;

// A raw stage of fp8: the planes of 32 tokens.
constexpr int kRawScales = kTile * MlaFp8Page::kLatentBytes;
constexpr int kRawRope = kRawScales + kTile * MlaFp8Page::kScaleBytes;
constexpr int kRawBytes = kTile * MlaFp8Page::kTokenBytes;

// What a block does; in shared memory, because registers are scarce.
constexpr int kFirstPage = 0, kRunPages = 1;             // of the sequence
constexpr int kFirstQuery = 2, kQueries = 3;             // of all rows: row * heads + head
constexpr int kSplit = 4, kEndSplit = 5;                 // the tail: -1 and 0
constexpr int kLength = 6, kShortest = 7, kLongest = 8;  // pages per split, of the block's rows
constexpr int kPages = 9;                                // shared ones, of the longest context
constexpr int kTokens = 10;                              // of this split or the tail
constexpr int kParity = 11;                              // of the barriers of the stages
constexpr int kFields = 12;
using Work = Shared<int>;

constexpr int kStages = 2;
template <bool Fp8>
struct Layout {  // of shared memory, in bytes
    static constexpr int kStageBytes = Fp8 ? kRawBytes : kTileBytes;
    static constexpr int kTileAt = kStages * kStageBytes;  // fp8: converted
    static constexpr int kExchange = kTileAt + (Fp8 ? kTileBytes : 0);
    static constexpr int kExchangeBytes = kWarps * kTile * 8 * 4;
    static constexpr int kProb = kExchange + kExchangeBytes;
    static constexpr int kFactor = kProb + kMaxQueries * kProbRow * 2;
    static constexpr int kLimit = kFactor + kMaxQueries * 4;
    static constexpr int kTop = kLimit + kMaxQueries * 4;
    static constexpr int kSum = kTop + kMaxQueries * 4;
    static constexpr int kSlots = kSum + kMaxQueries * 4;
    static constexpr int kFull = kSlots + kMaxTail * 4;
    static constexpr int kWork = kFull + kStages * 8;
    static constexpr int kBytes = kWork + kFields * 4;
};
static_assert(Layout<false>::kBytes <= 101376 && Layout<true>::kBytes <= 101376);

// How many positions the row attends to.
template <bool Sharded>
__device__ __forceinline__ int context_of(const MlaVerifyParams &p, int row) {
    const std::uint64_t word = p.step.word[row];
    const std::uint32_t base = p.step.base[row];
    const int context = static_cast<int>(base) + __popcll(word);
    if constexpr (Sharded) return static_cast<int>(p.shard.held(static_cast<unsigned>(context)));
    return context;
}

// How many of the block's tokens a query sees.
template <bool Sharded>
__device__ __forceinline__ int limit_of(const MlaVerifyParams &p, Work w, int query) {
    if (query >= w[kQueries]) return 0;
    if (w[kSplit] < 0) return w[kTokens];
    const int n_pages =
        mla_shared_pages(context_of<Sharded>(p, (w[kFirstQuery] + query) / p.n_heads));
    if (mla_pages_per_split(n_pages, p.grid.splits) != w[kLength]) return 0;
    return (n_pages - w[kSplit] * w[kLength]) * kMlaPageTokens;
}

// The slot of each position of a row's tail; behind its end that of the last.
__device__ __forceinline__ void find_slots(const MlaVerifyParams &p, int row,
                                           Shared<std::uint32_t> slots) {
    const int i = static_cast<int>(threadIdx.x);
    const std::uint32_t base = p.step.base[row];
    const std::uint64_t word = p.step.word[row];
    const int context = context_of<false>(p, row),
              begin = mla_shared_pages(context) * kMlaPageTokens;
    const int n_prefix = static_cast<int>(base) - begin;
    if (i < kMaxTail) {
        const std::uint32_t last =
            base + 63 - static_cast<std::uint32_t>(__clzll(static_cast<long long>(word)));
        if (i < n_prefix) {
            slots[i] = static_cast<std::uint32_t>(begin + i);
        } else if (i >= context - begin) {
            slots[i] = word == 0 ? base - 1 : last;
        }
    } else if (i < kMaxTail + 64) {
        const int bit = i - kMaxTail;
        if (word >> bit & 1) {
            const int rank = __popcll(word & ((std::uint64_t{1} << bit) - 1));
            slots[n_prefix + rank] = base + static_cast<std::uint32_t>(bit);
        }
    }
}

// The same in a shard, where slots count the positions that the rank holds: those of a tree are
// rows of the pass's own page, and so is what lies behind the end.
constexpr std::uint32_t kFresh = 1U << 31;

__device__ __forceinline__ void find_held(const MlaVerifyParams &p, const StepSequence &sequence,
                                          int row, Shared<std::uint32_t> slots) {
    const int i = static_cast<int>(threadIdx.x);
    const std::uint32_t base = p.step.base[row];
    const std::uint64_t word = p.step.word[row];
    const int context = context_of<true>(p, row),
              begin = mla_shared_pages(context) * kMlaPageTokens;
    const int n_prefix = static_cast<int>(p.shard.held(base)) - begin;
    if (i < kMaxTail) {
        if (i < n_prefix) {
            slots[i] = static_cast<std::uint32_t>(begin + i);
        } else if (i >= context - begin) {
            slots[i] = kFresh | static_cast<std::uint32_t>(row);
        }
    } else if (i < kMaxTail + 64) {
        const auto bit = static_cast<std::uint32_t>(i - kMaxTail);
        const int rank = __popcll(word & ((std::uint64_t{1} << bit) - 1));
        const std::uint32_t position = base + static_cast<std::uint32_t>(rank);
        if ((word >> bit & 1) && p.shard.holds(position)) {
            slots[static_cast<int>(p.shard.held(position)) - begin] =
                kFresh | (sequence.first_row + bit);
        }
    }
}

__device__ __forceinline__ std::uint32_t page_of(const MlaVerifyParams &p, Work w,
                                                 std::uint32_t page) {
    if (page < static_cast<unsigned>(w[kRunPages]))
        return static_cast<unsigned>(w[kFirstPage]) + page;
    return p.step.pages[std::int64_t{blockIdx.y} * p.step.pages_stride + page];
}

// Where a token lies: its page, how many tokens that has, and which of them it is.
struct TokenPlace {
    Global<const std::uint8_t> page;
    std::uint32_t tokens, offset;
};

template <bool Fp8, bool Sharded>
__device__ __forceinline__ TokenPlace place_of(const MlaVerifyParams &p, Work w,
                                               std::uint32_t slot) {
    constexpr int kTokenBytes = Fp8 ? MlaFp8Page::kTokenBytes : MlaBf16Page::kTokenBytes;
    if constexpr (!Sharded) {
        const std::uint32_t page = page_of(p, w, slot / kMlaPageTokens);
        return {p.kv + std::int64_t{page} * (kMlaPageTokens * kTokenBytes), kMlaPageTokens,
                slot % kMlaPageTokens};
    } else {
        if (slot & kFresh) return {p.fresh, kMlaPageTokens, slot & ~kFresh};
        const std::uint32_t page = page_of(p, w, slot >> p.shard.log2_tokens),
                            tokens = p.shard.tokens();
        return {p.kv + std::int64_t{page} * (tokens * kTokenBytes), tokens, slot % tokens};
    }
}

// The lanes of one warp start the copies of tile i into a stage.
template <bool Fp8, bool Sharded>
__device__ __forceinline__ void load_tile(const MlaVerifyParams &p, Work w,
                                          Shared<const std::uint32_t> slots, int i,
                                          Shared<std::uint8_t> stage, Shared<std::uint64_t> full) {
    using Page = MlaFp8Page;
    const int lane = opaque(static_cast<int>(threadIdx.x)) % 32;
    const bool shared = w[kSplit] >= 0;
    const auto slot =
        shared
            ? static_cast<std::uint32_t>(w[kSplit] * w[kLength] * kMlaPageTokens + i * kTile + lane)
            : slots[i * kTile + lane];
    const auto [page, tokens, offset] = place_of<Fp8, Sharded>(p, w, slot);
    if (lane == 0)
        mbarrier_arrive_expect_tx(full,
                                  kTile * (Fp8 ? Page::kTokenBytes : MlaBf16Page::kTokenBytes));
    __syncwarp();
    if constexpr (!Fp8) {
        cp_async_bulk(stage + lane * kRow * 2, page + offset * MlaBf16Page::kTokenBytes,
                      MlaBf16Page::kTokenBytes, full);
    } else {
        // Tokens of a tile that share a page are contiguous in each plane, outside of tails: one
        // copy by the first of their lanes.
        const std::uint32_t n = shared ? min(tokens, static_cast<std::uint32_t>(kTile)) : 1;
        if (static_cast<unsigned>(lane) % n > 0) return;
        const std::uint32_t scales = tokens * Page::kLatentBytes,
                            rope = scales + tokens * Page::kScaleBytes;
        cp_async_bulk(stage + lane * Page::kLatentBytes, page + offset * Page::kLatentBytes,
                      n * Page::kLatentBytes, full);
        cp_async_bulk(stage + (kRawScales + lane * Page::kScaleBytes),
                      page + (scales + offset * Page::kScaleBytes), n * Page::kScaleBytes, full);
        cp_async_bulk(stage + (kRawRope + lane * Page::kRopeBytes),
                      page + (rope + offset * Page::kRopeBytes), n * Page::kRopeBytes, full);
    }
}

// fp8: a raw stage becomes a tile of bf16.
__device__ __forceinline__ void convert_tile(Shared<const std::uint8_t> raw, Shared<bf16> tile) {
    const Shared<const float> scales = reinterpret<const float>(raw + kRawScales);
    constexpr int kChunks = kMlaLatent / 8;
    const int thread = opaque(static_cast<int>(threadIdx.x));
#pragma unroll 1
    for (int i = thread; i < kTile * kChunks; i += kThreads) {
        const int token = i / kChunks, column = i % kChunks * 8;
        const uint2 codes = load<uint2>(raw + i * 8);
        const float scale = scales[token * kMlaFp8Groups + column / (kMlaLatent / kMlaFp8Groups)];
        const auto pair = [scale](std::uint32_t two) {
            const float2 v = unpack_e4m3(static_cast<std::uint16_t>(two));
            return pack_bf16(v.x * scale, v.y * scale);
        };
        store(tile + token * kRow + column,
              uint4{pair(codes.x), pair(codes.x >> 16), pair(codes.y), pair(codes.y >> 16)});
    }
    const int token = thread / 8, column = thread % 8 * 8;
    store(tile + token * kRow + kMlaLatent + column, load<uint4>(raw + kRawRope + thread * 16));
}

// The next split, or, where the length of splits differs between the contexts of the block's rows,
// the same one of the next length.
__device__ __forceinline__ void advance(Work w) {
    const int tokens = w[kTokens], pages = w[kPages], longest = w[kLongest],
              shortest = w[kShortest];
    w[kParity] += max(tokens, 0) / kMlaPageTokens;
    int split = w[kSplit], length = w[kLength];
    if (++length > longest) {
        length = shortest;
        ++split;
    }
    w[kSplit] = split;
    w[kLength] = length;
    w[kTokens] = (min((split + 1) * length, pages) - split * length) * kMlaPageTokens;
}

// The work of a block that attends to a row's tail; whether there is any.
template <bool Fp8, bool Sharded>
__device__ __forceinline__ bool begin_tail(const MlaVerifyParams &p, const StepSequence &sequence,
                                           int block, Work w) {
    const int capacity = p.grid.queries_per_block, groups = (p.n_heads + capacity - 1) / capacity;
    if (block / groups >= static_cast<int>(sequence.n_rows)) return false;
    const int row = static_cast<int>(sequence.first_row) + block / groups,
              head = block % groups * capacity;
    const int context = context_of<Sharded>(p, row), n_pages = mla_shared_pages(context);
    const auto slots = dynamic_shared<std::uint32_t>(Layout<Fp8>::kSlots, kMaxTail);
    if constexpr (Sharded) {
        find_held(p, sequence, row, slots);
    } else {
        find_slots(p, row, slots);
    }
    if (threadIdx.x > 0) return true;
    w[kFirstQuery] = row * p.n_heads + head;
    w[kQueries] = min(capacity, p.n_heads - head);
    w[kSplit] = -1;
    w[kEndSplit] = 0;
    w[kLength] = 1;
    w[kShortest] = 1;
    w[kLongest] = 1;
    w[kPages] = 0;
    w[kTokens] = context - n_pages * kMlaPageTokens;
    if (head == 0) {
        const int length = mla_pages_per_split(n_pages, p.grid.splits);
        p.n_parts[row] = static_cast<unsigned>(1 + (n_pages + length - 1) / length);
    }
    return true;
}

// The same for splits of the shared pages. Groups that read the same pages run side by side.
template <bool Sharded>
__device__ __forceinline__ bool begin_splits(const MlaVerifyParams &p, const StepSequence &sequence,
                                             int block, Work w) {
    const int capacity = p.grid.queries_per_block, begin = block % p.grid.groups * capacity;
    const int all = static_cast<int>(sequence.n_rows) * p.n_heads;
    if (begin >= all) return false;
    const int n_queries = min(capacity, all - begin);
    const int first_row = static_cast<int>(sequence.first_row),
              lane = static_cast<int>(threadIdx.x) % 32;
    int least = 1 << 30, most = 0;  // shared pages of the block's rows
    for (int row = begin / p.n_heads + lane; row <= (begin + n_queries - 1) / p.n_heads;
         row += 32) {
        const int n = mla_shared_pages(context_of<Sharded>(p, first_row + row));
        least = min(least, n);
        most = max(most, n);
    }
    for (int mask = 1; mask < 32; mask *= 2) {
        least = min(least, __shfl_xor_sync(~0U, least, mask));
        most = max(most, __shfl_xor_sync(~0U, most, mask));
    }
    if (threadIdx.x > 0) return true;
    const int split = block / p.grid.groups * p.grid.splits_per_block;
    const int length = mla_pages_per_split(least, p.grid.splits);
    w[kFirstQuery] = first_row * p.n_heads + begin;
    w[kQueries] = n_queries;
    w[kSplit] = split;
    w[kEndSplit] = min(split + p.grid.splits_per_block, p.grid.launched_splits);
    w[kLength] = length;
    w[kShortest] = length;
    w[kLongest] = mla_pages_per_split(most, p.grid.splits);
    w[kPages] = most;
    w[kTokens] = (min((split + 1) * length, most) - split * length) * kMlaPageTokens;
    return true;
}

}  // namespace kimi::mla
