// Pages of earlier sequences, found again by their tokens.
//
// A radix tree whose edges are page-sized runs of tokens: a node is a full page and is reached by
// the tokens of all pages before it. The cache belongs to one engine, so its checkpoint, KV type
// and numeric options are the same for all entries. Every node holds one use of its page; pages
// that nobody else uses are given up in order of their last use, leaves first. Nothing is allocated
// after construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_pool.h"

namespace kimi {

class PrefixCache {
  public:
    static constexpr std::uint32_t kNone = UINT32_MAX;

    struct Match {
        std::uint32_t node = kNone;  // of the last page; kNone where nothing matches
        std::uint32_t n_pages = 0;
    };

    explicit PrefixCache(PagePool &pool);

    // The longest cached prefix, in whole pages. Marks it as used.
    Match find(std::span<const std::int32_t> tokens);
    // The node `n` levels above.
    std::uint32_t ancestor(std::uint32_t node, std::uint32_t n) const;
    // The page of a node, and whether the drafter's twin of it is written.
    std::uint32_t page(std::uint32_t node) const { return nodes_[node].page; }
    bool has_draft(std::uint32_t node) const { return nodes_[node].has_draft; }

    // Adds the full pages of these tokens, the first of the table. Where an equal page is cached
    // already, the table takes that one instead of its own, so that the copy becomes free. Tokens
    // before draft_begin have no drafter KV. Returns the last page's node, kNone for none.
    std::uint32_t insert(std::span<const std::int32_t> tokens, BlockTable &table,
                         std::uint32_t draft_begin);

    // Gives up pages that only the cache uses, least recently used first, until n pages are free in
    // the pool or nothing is left. `on_evict` is called with every node that goes.
    template <typename F>
    void evict(std::uint32_t n_free, const F &on_evict) {
        // A parent is more recent than its children, so one walk meets every node after its
        // children.
        for (std::uint32_t node = oldest_, newer; node != kNone && pool_.n_free() < n_free;
             node = newer) {
            newer = nodes_[node].newer;
            if (nodes_[node].n_children > 0 || pool_.uses(nodes_[node].page) > 1) continue;
            on_evict(node);
            remove(node);
        }
    }
    // Pages that evict could give up.
    std::uint32_t n_evictable() const;
    std::uint32_t n_nodes() const { return n_nodes_; }

    void relocate(std::uint32_t from, std::uint32_t to);
    // All cached pages; parents before children.
    void collect_pages(std::vector<std::uint32_t> &out) const;

  private:
    struct Node {
        std::uint32_t page = 0, parent = kNone;
        std::uint32_t n_children = 0;
        std::uint32_t older = kNone,
                      newer = kNone;  // in order of last use; `newer` also links free nodes
        std::uint64_t hash = 0;       // of the tokens from the root on
        bool has_draft = false;
        std::int32_t tokens[kPageTokens];
    };

    std::uint32_t child(std::uint32_t parent, std::uint64_t hash, const std::int32_t *tokens) const;
    std::uint32_t add(std::uint32_t parent, std::uint64_t hash, const std::int32_t *tokens,
                      std::uint32_t page);
    void remove(std::uint32_t node);
    void touch(std::uint32_t node);
    void unlink(std::uint32_t node);
    std::size_t bucket(std::uint64_t hash) const { return hash & (table_.size() - 1); }

    PagePool &pool_;
    std::vector<Node> nodes_;                // [pages]: each cached page has a node
    std::vector<std::uint32_t> table_;       // open addressing by hash
    mutable std::vector<char> holds_child_;  // of n_evictable; all false between calls
    std::uint32_t free_node_ = 0, oldest_ = kNone, newest_ = kNone, n_nodes_ = 0;
};

}  // namespace kimi
