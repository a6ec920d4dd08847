#include "kv/page_pool.h"

#include "base/error.h"

namespace kimi {

PagePool::PagePool(std::uint32_t n_pages) : n_pages_(n_pages) {
    for (std::uint32_t page = n_pages; page-- > 0;) free_.push_back(page);
}

void PagePool::grow(std::vector<std::uint32_t> &pages, std::uint64_t n_tokens) {
    const std::uint64_t wanted = pages_for(n_tokens);
    if (wanted <= pages.size()) return;
    if (wanted - pages.size() > free_.size())
        fail(KIMI_BUSY, "the KV cache has ", free_.size(), " free pages of ", n_pages_, ", ",
             wanted - pages.size(), " more are needed for ", n_tokens, " tokens");
    for (; pages.size() < wanted; free_.pop_back()) pages.push_back(free_.back());
}

void PagePool::shrink(std::vector<std::uint32_t> &pages, std::uint64_t n_tokens) {
    const std::uint64_t wanted = pages_for(n_tokens);
    for (; pages.size() > wanted; pages.pop_back()) free_.push_back(pages.back());
}

}  // namespace kimi
