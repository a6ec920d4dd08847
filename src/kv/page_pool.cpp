#include "kv/page_pool.h"

#include <algorithm>

#include "base/error.h"

namespace kimi {

std::uint32_t count_runs(std::span<const std::uint32_t> pages) {
    std::uint32_t runs = pages.empty() ? 0 : 1;
    for (std::size_t i = 1; i < pages.size(); ++i) runs += pages[i] != pages[i - 1] + 1;
    return runs;
}

PagePool::PagePool(std::uint32_t n_pages)
    : uses_(n_pages), reserved_(n_pages), free_(n_pages), open_(n_pages), n_free_(n_pages) {
    for (std::uint32_t page = 0; page < n_pages; ++page)
        free_.set(page, true), open_.set(page, true);
}

void PagePool::set_uses(std::uint32_t page, std::uint32_t uses) {
    if ((uses == 0) != (uses_[page] == 0)) {
        n_free_ += uses == 0 ? 1 : -1U;
        free_.set(page, uses == 0);
        open_.set(page, uses == 0 && reserved_[page] == 0);
    }
    uses_[page] = uses;
}

void PagePool::reserve_behind(const BlockTable &table, int change) {
    if (table.empty()) return;
    const std::uint32_t begin = table.back() + 1, end = std::min(begin + kReserve, n_pages());
    for (std::uint32_t page = begin; page < end; ++page) {
        reserved_[page] += static_cast<unsigned>(change);
        open_.set(page, uses_[page] == 0 && reserved_[page] == 0);
    }
}

void PagePool::grow(BlockTable &table, std::uint32_t n, std::uint32_t room) {
    KIMI_CHECK(n <= n_free_ && n <= table.capacity() - table.size());
    reserve_behind(table, -1);
    for (; n > 0; --n) {
        std::uint32_t page = table.empty() ? n_pages() : table.back() + 1;
        if (page == n_pages() || !is_free(page)) page = find_run(std::max(n, room) + kReserve);
        set_uses(page, 1);
        table.push_back(page);
    }
    reserve_behind(table, 1);
}

// The first page of the smallest free run of at least n pages, or of the longest; reserved pages
// only where nothing else is free.
std::uint32_t PagePool::find_run(std::uint32_t n) const {
    const std::uint32_t page = find_run(open_, n);
    return page < n_pages() ? page : find_run(free_, n);
}

std::uint32_t PagePool::find_run(const PageSet &pages, std::uint32_t n) const {
    std::uint32_t best = n_pages(), best_length = 0;
    for (std::uint32_t begin = pages.next(0, true), end; begin < n_pages();
         begin = pages.next(end, true)) {
        end = pages.next(begin, false);
        const std::uint32_t length = end - begin;
        const bool fits = length >= n, best_fits = best_length >= n;
        if (fits && best_fits ? length < best_length : length > best_length)
            best = begin, best_length = length;
    }
    return best;
}

void PagePool::shrink(BlockTable &table, std::size_t n) {
    if (table.size() <= n) return;
    reserve_behind(table, -1);
    for (; table.size() > n; table.pop_back()) release(table.back());
    reserve_behind(table, 1);
}

void PagePool::share(BlockTable &table, std::span<const std::uint32_t> pages) {
    if (pages.empty()) return;
    reserve_behind(table, -1);
    for (const std::uint32_t page : pages) {
        KIMI_CHECK(uses_[page] > 0 && table.size() < table.capacity());
        ++uses_[page];
        table.push_back(page);
    }
    reserve_behind(table, 1);
}

std::uint32_t PagePool::replace(BlockTable &table, std::size_t index) {
    KIMI_CHECK(n_free_ > 0);
    reserve_behind(table, -1);
    std::uint32_t page = index > 0 ? table[index - 1] + 1 : n_pages();
    if (page == n_pages() || !is_free(page)) page = find_run(1 + kReserve);
    set_uses(page, 1);
    release(table[index]);
    table[index] = page;
    reserve_behind(table, 1);
    return page;
}

void PagePool::substitute(BlockTable &table, std::size_t index, std::uint32_t page) {
    reserve_behind(table, -1);
    retain(page);
    release(table[index]);
    table[index] = page;
    reserve_behind(table, 1);
}

void PagePool::release(std::uint32_t page) {
    KIMI_CHECK(uses_[page] > 0);
    set_uses(page, uses_[page] - 1);
}

void PagePool::relocate(std::uint32_t from, std::uint32_t to, std::span<BlockTable *const> tables) {
    KIMI_CHECK(uses_[to] == 0 && uses_[from] > 0);
    set_uses(to, uses_[from]);
    set_uses(from, 0);
    for (BlockTable *table : tables) {
        const auto at = std::find(table->begin(), table->end(), from);
        if (at == table->end()) continue;
        reserve_behind(*table, -1);
        *at = to;
        reserve_behind(*table, 1);
    }
}

void PagePool::check(std::span<const BlockTable *const> tables,
                     std::span<const std::uint32_t> others) const {
    std::vector<std::uint32_t> uses(n_pages()), reserved(n_pages());
    for (const BlockTable *table : tables) {
        for (const std::uint32_t page : *table) ++uses.at(page);
        if (table->empty()) continue;
        for (std::uint32_t i = 1; i <= kReserve && table->back() + i < n_pages(); ++i)
            ++reserved[table->back() + i];
    }
    for (const std::uint32_t page : others) ++uses.at(page);
    KIMI_CHECK(uses == uses_);
    KIMI_CHECK(reserved == reserved_);
    KIMI_CHECK(n_free_ == std::count(uses.begin(), uses.end(), 0U));
    for (std::uint32_t page = 0; page < n_pages(); ++page) {
        KIMI_CHECK(free_.contains(page) == (uses[page] == 0));
        KIMI_CHECK(open_.contains(page) == (uses[page] == 0 && reserved[page] == 0));
    }
}

}  // namespace kimi
