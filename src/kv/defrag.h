// Which page moves make sequences contiguous.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_pool.h"

namespace kimi {

// Lays sequences out from the first page on, each contiguous and followed by a part of the free
// pages, in the order in which they begin now, so that work done once is not undone. A page that
// several sequences share belongs to the first of them. Cached pages that no sequence uses come
// last.
class DefragPlan {
  public:
    explicit DefragPlan(std::uint32_t n_pages);

    // Makes room for so many tables: below that, nothing is allocated.
    void reserve(std::size_t n_tables) { order_.reserve(n_tables); }

    // Computes the layout. Returns the number of pages that are not where they should be.
    std::uint32_t make(const PagePool &pool, std::span<BlockTable *const> tables,
                       std::span<const std::uint32_t> cached);

    struct Move {
        std::uint32_t from, to;
    };
    // The next move into place, or out of the way of one; `moved` must be called with it before the
    // next. False at the end, or where a page is in the way and none is free.
    bool next(const PagePool &pool, Move &move);
    void moved(const Move &move);

  private:
    static constexpr std::uint32_t kNowhere = UINT32_MAX;

    void place(std::uint32_t page, std::uint32_t target);

    std::vector<std::uint32_t>
        page_at_;  // [targets] the page that belongs there, by where it lies now
    std::vector<std::uint32_t> target_of_;  // [pages]
    std::vector<BlockTable *> order_;
    std::uint32_t next_target_ = 0;
};

}  // namespace kimi
