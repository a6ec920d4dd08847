// A set of pages as bits, walked over run by run.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace kimi {

class PageSet {
  public:
    explicit PageSet(std::uint32_t n_pages) : n_pages_(n_pages), words_(n_pages / 64 + 1) {}

    bool contains(std::uint32_t page) const { return words_[page / 64] >> page % 64 & 1; }
    void set(std::uint32_t page, bool in) {
        const std::uint64_t bit = std::uint64_t{1} << page % 64;
        words_[page / 64] = in ? words_[page / 64] | bit : words_[page / 64] & ~bit;
    }
    // The first page from `page` on that is in the set, or not in it; n_pages at the end.
    std::uint32_t next(std::uint32_t page, bool in) const {
        while (page < n_pages_) {
            const std::uint64_t word = (in ? words_[page / 64] : ~words_[page / 64]) >> page % 64;
            if (word != 0)
                return std::min(page + static_cast<std::uint32_t>(std::countr_zero(word)),
                                n_pages_);
            page += 64 - page % 64;
        }
        return n_pages_;
    }

  private:
    std::uint32_t n_pages_;
    std::vector<std::uint64_t> words_;
};

}  // namespace kimi
