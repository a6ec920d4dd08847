#include "kv/defrag.h"

#include <algorithm>

namespace kimi {

DefragPlan::DefragPlan(std::uint32_t n_pages) : page_at_(n_pages), target_of_(n_pages) {}

void DefragPlan::place(std::uint32_t page, std::uint32_t target) {
    page_at_[target] = page;
    target_of_[page] = target;
}

std::uint32_t DefragPlan::make(const PagePool &pool, std::span<BlockTable *const> tables,
                               std::span<const std::uint32_t> cached) {
    std::fill(page_at_.begin(), page_at_.end(), kNowhere);
    std::fill(target_of_.begin(), target_of_.end(), kNowhere);
    order_.assign(tables.begin(), tables.end());
    std::erase_if(order_, [](const BlockTable *table) { return table->empty(); });
    std::sort(order_.begin(), order_.end(),
              [](const BlockTable *a, const BlockTable *b) { return a->front() < b->front(); });
    const std::uint32_t gap =
        order_.empty() ? 0
                       : std::min(PagePool::kReserve,
                                  pool.n_free() / static_cast<std::uint32_t>(order_.size()));
    std::uint32_t target = 0;
    for (const BlockTable *table : order_) {
        for (const std::uint32_t page : *table)
            if (target_of_[page] == kNowhere) place(page, target++);
        target += gap;
    }
    for (const std::uint32_t page : cached)
        if (target_of_[page] == kNowhere) place(page, target++);
    next_target_ = 0;
    std::uint32_t n_wrong = 0;
    for (std::uint32_t page = 0; page < target_of_.size(); ++page)
        n_wrong += target_of_[page] != kNowhere && target_of_[page] != page;
    return n_wrong;
}

bool DefragPlan::next(const PagePool &pool, Move &move) {
    while (next_target_ < page_at_.size() &&
           (page_at_[next_target_] == kNowhere || page_at_[next_target_] == next_target_))
        ++next_target_;
    if (next_target_ == page_at_.size()) return false;
    if (pool.is_free(next_target_)) {
        move = {page_at_[next_target_], next_target_};
        return true;
    }
    // Out of the way: to its own place if that is free, else to the last free page.
    std::uint32_t to = target_of_[next_target_];
    if (!pool.is_free(to)) {
        to = pool.n_pages();
        while (to > 0 && !pool.is_free(to - 1)) --to;
        if (to == 0) return false;
        --to;
    }
    move = {next_target_, to};
    return true;
}

void DefragPlan::moved(const Move &move) {
    const std::uint32_t target = target_of_[move.from];
    target_of_[move.from] = kNowhere;
    target_of_[move.to] = target;
    if (target != kNowhere) page_at_[target] = move.to;
}

}  // namespace kimi
