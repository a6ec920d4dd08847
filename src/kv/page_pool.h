// The pages of the KV cache that are free.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/step_plan.h"

namespace kimi {

class PagePool {
  public:
    explicit PagePool(std::uint32_t n_pages);

    std::uint32_t n_pages() const { return n_pages_; }
    std::uint32_t n_free() const { return static_cast<std::uint32_t>(free_.size()); }

    // Appends pages to a block table until it covers n_tokens. All or nothing: throws KIMI_BUSY
    // with what is needed and what is free.
    void grow(std::vector<std::uint32_t> &pages, std::uint64_t n_tokens);
    // Gives back the pages of a block table that lie wholly behind n_tokens.
    void shrink(std::vector<std::uint32_t> &pages, std::uint64_t n_tokens);

  private:
    std::uint32_t n_pages_;
    std::vector<std::uint32_t> free_;
};

inline std::uint64_t pages_for(std::uint64_t n_tokens) {
    return (n_tokens + kPageTokens - 1) / kPageTokens;
}

}  // namespace kimi
