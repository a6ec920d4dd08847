#include "kv/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace kimi {
namespace {

// FNV-1a over token values, continued from the parent's hash, then mixed for the low bits.
std::uint64_t extend_hash(std::uint64_t hash, const std::int32_t *tokens) {
    for (std::uint32_t i = 0; i < kPageTokens; ++i) {
        hash ^= static_cast<std::uint32_t>(tokens[i]);
        hash *= 0x100000001b3;
    }
    return hash ^ (hash >> 32);
}

constexpr std::uint64_t kEmptyHash = 0xcbf29ce484222325;

}  // namespace

PrefixCache::PrefixCache(PagePool &pool)
    : pool_(pool), nodes_(pool.n_pages()), holds_child_(pool.n_pages()) {
    table_.assign(std::bit_ceil(2 * std::size_t{pool.n_pages()} + 1), kNone);
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) nodes_[i].newer = i + 1;
}

std::uint32_t PrefixCache::child(std::uint32_t parent, std::uint64_t hash,
                                 const std::int32_t *tokens) const {
    for (std::size_t at = bucket(hash); table_[at] != kNone; at = (at + 1) & (table_.size() - 1)) {
        const Node &node = nodes_[table_[at]];
        if (node.hash == hash && node.parent == parent &&
            std::memcmp(node.tokens, tokens, sizeof node.tokens) == 0)
            return table_[at];
    }
    return kNone;
}

PrefixCache::Match PrefixCache::find(std::span<const std::int32_t> tokens) {
    Match match;
    std::uint64_t hash = kEmptyHash;
    for (; tokens.size() >= kPageTokens; tokens = tokens.subspan(kPageTokens)) {
        hash = extend_hash(hash, tokens.data());
        const std::uint32_t node = child(match.node, hash, tokens.data());
        if (node == kNone) break;
        match = {node, match.n_pages + 1};
    }
    // From the leaf up, so that a child is never more recent than its parent.
    for (std::uint32_t node = match.node; node != kNone; node = nodes_[node].parent) touch(node);
    return match;
}

std::uint32_t PrefixCache::ancestor(std::uint32_t node, std::uint32_t n) const {
    for (; n > 0; --n) node = nodes_[node].parent;
    return node;
}

std::uint32_t PrefixCache::insert(std::span<const std::int32_t> tokens, BlockTable &table,
                                  std::uint32_t draft_begin) {
    std::uint32_t parent = kNone;
    std::uint64_t hash = kEmptyHash;
    for (std::uint32_t i = 0; (i + 1) * kPageTokens <= tokens.size(); ++i) {
        const std::int32_t *run = tokens.data() + std::size_t{i} * kPageTokens;
        const bool has_draft = i * kPageTokens >= draft_begin;
        hash = extend_hash(hash, run);
        std::uint32_t node = child(parent, hash, run);
        if (node == kNone) {
            node = add(parent, hash, run, table[i]);
            nodes_[node].has_draft = has_draft;
        } else if (has_draft && !nodes_[node].has_draft) {
            pool_.retain(table[i]);
            pool_.release(nodes_[node].page);
            nodes_[node].page = table[i];
            nodes_[node].has_draft = true;
        } else if (nodes_[node].page != table[i] && has_draft == nodes_[node].has_draft) {
            pool_.substitute(table, i, nodes_[node].page);
        }
        parent = node;
    }
    for (std::uint32_t node = parent; node != kNone; node = nodes_[node].parent) touch(node);
    return parent;
}

std::uint32_t PrefixCache::add(std::uint32_t parent, std::uint64_t hash, const std::int32_t *tokens,
                               std::uint32_t page) {
    const std::uint32_t index = free_node_;
    Node &node = nodes_[index];
    free_node_ = node.newer;
    node.page = page;
    node.parent = parent;
    node.n_children = 0;
    node.hash = hash;
    node.older = newest_;
    node.newer = kNone;
    std::memcpy(node.tokens, tokens, sizeof node.tokens);
    (newest_ == kNone ? oldest_ : nodes_[newest_].newer) = index;
    newest_ = index;
    if (parent != kNone) ++nodes_[parent].n_children;
    std::size_t at = bucket(hash);
    while (table_[at] != kNone) at = (at + 1) & (table_.size() - 1);
    table_[at] = index;
    pool_.retain(page);
    ++n_nodes_;
    return index;
}

void PrefixCache::remove(std::uint32_t index) {
    Node &node = nodes_[index];
    // Close the gap in the probe sequence.
    std::size_t hole = bucket(node.hash);
    while (table_[hole] != index) hole = (hole + 1) & (table_.size() - 1);
    table_[hole] = kNone;
    for (std::size_t at = (hole + 1) & (table_.size() - 1); table_[at] != kNone;
         at = (at + 1) & (table_.size() - 1)) {
        const std::size_t home = bucket(nodes_[table_[at]].hash);
        // An entry may move to the hole unless its home lies behind the hole, cyclically.
        if (((at - home) & (table_.size() - 1)) < ((at - hole) & (table_.size() - 1))) continue;
        table_[hole] = table_[at];
        table_[at] = kNone;
        hole = at;
    }
    unlink(index);
    if (node.parent != kNone) --nodes_[node.parent].n_children;
    pool_.release(node.page);
    node.newer = free_node_;
    free_node_ = index;
    --n_nodes_;
}

void PrefixCache::unlink(std::uint32_t index) {
    const Node &node = nodes_[index];
    (node.older == kNone ? oldest_ : nodes_[node.older].newer) = node.newer;
    (node.newer == kNone ? newest_ : nodes_[node.newer].older) = node.older;
}

void PrefixCache::touch(std::uint32_t index) {
    if (index == newest_) return;
    unlink(index);
    nodes_[index].older = newest_;
    nodes_[index].newer = kNone;
    nodes_[newest_].newer = index;
    newest_ = index;
}

// Children come before their parents here too. A page that nobody uses may have a child that is
// used: by a sequence with a copy of its own of the parent.
std::uint32_t PrefixCache::n_evictable() const {
    std::uint32_t n = 0;
    for (std::uint32_t node = oldest_; node != kNone; node = nodes_[node].newer) {
        const std::uint32_t parent = nodes_[node].parent;
        const bool held = holds_child_[node] || pool_.uses(nodes_[node].page) > 1;
        holds_child_[node] = false;
        if (!held) ++n;
        if (held && parent != kNone) holds_child_[parent] = true;
    }
    return n;
}

void PrefixCache::relocate(std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t node = oldest_; node != kNone; node = nodes_[node].newer)
        if (nodes_[node].page == from) nodes_[node].page = to;
}

void PrefixCache::collect_pages(std::vector<std::uint32_t> &out) const {
    for (std::uint32_t node = newest_; node != kNone; node = nodes_[node].older)
        out.push_back(nodes_[node].page);
}

}  // namespace kimi
