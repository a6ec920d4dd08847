// The pages of the KV cache: which are free, and how often each of the others is used.
//
// Growing a sequence takes the page behind its last one where that is free, so that sequences stay
// contiguous. To keep it free, a few pages behind every sequence are left to it while others can be
// had. New runs are placed in the smallest gap that also holds such a reserve, in address order on
// ties.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/step_plan.h"
#include "kv/page_set.h"

namespace kimi {

constexpr std::uint64_t pages_for(std::uint64_t n_tokens) {
    return (n_tokens + kPageTokens - 1) / kPageTokens;
}

// The pages of one sequence, in order of its tokens.
using BlockTable = std::vector<std::uint32_t>;

// How a block table lies in memory: the number of contiguous runs it consists of.
std::uint32_t count_runs(std::span<const std::uint32_t> pages);

class PagePool {
  public:
    static constexpr std::uint32_t kReserve = 8;  // pages left to a sequence behind its last one

    explicit PagePool(std::uint32_t n_pages);

    std::uint32_t n_pages() const { return static_cast<std::uint32_t>(uses_.size()); }
    std::uint32_t n_free() const { return n_free_; }
    bool is_free(std::uint32_t page) const { return uses_[page] == 0; }
    std::uint32_t uses(std::uint32_t page) const { return uses_[page]; }

    // Appends n pages of one use each; a new run begins where `room` pages fit, if there is such a
    // place. Requires n <= n_free(). The table's capacity must suffice.
    void grow(BlockTable &table, std::uint32_t n, std::uint32_t room = 0);
    // Removes the pages from index n on and gives up their use.
    void shrink(BlockTable &table, std::size_t n);
    // Appends pages that exist, with one more use.
    void share(BlockTable &table, std::span<const std::uint32_t> pages);
    // Puts a page with one use where the table has a shared one, whose use it gives up. Requires a
    // free page. Returns the new page.
    std::uint32_t replace(BlockTable &table, std::size_t index);

    // Puts another page, with one more use, in the place of a table's page, whose use it gives up.
    void substitute(BlockTable &table, std::size_t index, std::uint32_t page);

    // Uses by others than block tables.
    void retain(std::uint32_t page) { ++uses_[page]; }
    void release(std::uint32_t page);

    // `to`, which is free, takes the place of `from` in these tables, and its other uses.
    void relocate(std::uint32_t from, std::uint32_t to, std::span<BlockTable *const> tables);

    // Recounts all uses from the tables and the other uses given. Throws KIMI_INTERNAL.
    void check(std::span<const BlockTable *const> tables,
               std::span<const std::uint32_t> others) const;

  private:
    void set_uses(std::uint32_t page, std::uint32_t uses);
    std::uint32_t find_run(std::uint32_t n) const;
    std::uint32_t find_run(const PageSet &pages, std::uint32_t n) const;
    void reserve_behind(const BlockTable &table, int change);

    std::vector<std::uint32_t> uses_;      // [pages]
    std::vector<std::uint32_t> reserved_;  // [pages] by how many sequences
    PageSet free_, open_;                  // free; free and not reserved
    std::uint32_t n_free_;
};

}  // namespace kimi
