#include "constraint/token_mask.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace kimi {
namespace {

constexpr std::size_t kCacheSlots = 256;
constexpr std::size_t kCheap = 2000;  // walks over fewer nodes are not remembered

using Kind = PushdownDfa::Move::Kind;

// A place in the trie at which the innermost frame of the state has ended.
struct Exit {
    std::uint32_t node, links;
};

// Walks subtrees of the trie, with the automaton's configuration at each depth.
class Walker {
  public:
    Walker(const PushdownDfa &dfa, const VocabTrie &trie, std::span<std::uint64_t> mask)
        : dfa_(dfa), trie_(trie), mask_(mask) {}

    // In the state's innermost frame, exits are noted.
    void walk_frame(const ConstraintState &state, std::vector<Exit> &exits) {
        at_[0] = {state.state, state.counter, 0, state.depth};
        exits_ = &exits;
        walk(0, static_cast<std::uint32_t>(trie_.nodes.size()));
    }

    // From exits on, in the frames around.
    void walk_exits(const ConstraintState &state, std::span<const Exit> exits) {
        if (state.depth == 0) return;
        exits_ = nullptr;
        for (std::uint32_t i = 0; i < state.depth; ++i)
            frames_[i + 1] = {state.frames[i].back, state.frames[i].counter, i};
        const Frame outer = frames_[state.depth];
        for (const Exit &exit : exits) {
            const VocabTrie::Node &node = trie_.nodes[exit.node];
            at_[node.depth] = {dfa_.resume(outer.back, exit.links), outer.counter, outer.below,
                               state.depth - 1};
            if (at_[node.depth].state == 0) continue;
            allow(node);
            walk(exit.node + 1, node.end);
        }
    }

    std::size_t n_visited() const { return n_visited_; }

  private:
    struct Configuration {
        std::uint32_t state, counter;
        std::uint32_t frame;  // in frames_, that follows when the innermost one ends; 0: none
        std::uint32_t depth;
    };
    struct Frame {
        std::uint32_t back, counter, below;
    };

    void allow(const VocabTrie::Node &node) {
        mask_[node.token / 64] |= std::uint64_t{node.is_token} << node.token % 64;
    }

    void walk(std::uint32_t begin, std::uint32_t end) {
        for (std::uint32_t i = begin; i < end;) {
            const VocabTrie::Node &node = trie_.nodes[i];
            ++n_visited_;
            if (step(node, i)) {
                allow(node);
                ++i;
            } else {
                i = node.end;
            }
        }
    }

    bool step(const VocabTrie::Node &node, std::uint32_t index) {
        const Configuration &from = at_[node.depth - 1u];
        Configuration &to = at_[node.depth];
        const PushdownDfa::Move move = dfa_.move(from.state, from.counter, node.byte);
        switch (move.kind) {
            case Kind::none:
                return false;
            case Kind::step:
                to = {move.to, move.counter, from.frame, from.depth};
                return true;
            case Kind::push: {
                if (from.depth + move.depth > kMaxNesting) return false;
                const std::uint32_t frame = kMaxNesting + node.depth;
                frames_[frame] = {move.back, move.counter, from.frame};
                to = {move.to, 0, frame, from.depth + 1};
                return true;
            }
            case Kind::pop: {
                if (from.frame == 0) {
                    if (exits_ != nullptr) exits_->push_back({index, move.to});
                    return false;
                }
                const Frame &frame = frames_[from.frame];
                to = {dfa_.resume(frame.back, move.to), frame.counter, frame.below, from.depth - 1};
                return to.state != 0;
            }
        }
        return false;
    }

    const PushdownDfa &dfa_;
    const VocabTrie &trie_;
    std::span<std::uint64_t> mask_;
    std::vector<Exit> *exits_ = nullptr;
    std::size_t n_visited_ = 0;
    std::array<Configuration, VocabTrie::kMaxBytes + 1> at_;
    // First those of the state, outermost first, from 1 on; then one for each depth of the trie.
    std::array<Frame, kMaxNesting + VocabTrie::kMaxBytes + 1> frames_;
};

}  // namespace

// The tokens that stay in a state's innermost frame, and where others leave it. The frames around
// do not matter, only their number.
struct TokenMask::Entry {
    std::uint32_t state, counter, depth;
    std::vector<std::uint64_t> mask;
    std::vector<Exit> exits;
};

TokenMask::TokenMask(std::shared_ptr<const Constraint> constraint, const Tokenizer &tokenizer,
                     std::shared_ptr<const VocabTrie> trie,
                     std::span<const std::int32_t> end_tokens)
    : constraint_(std::move(constraint)),
      tokenizer_(&tokenizer),
      trie_(std::move(trie)),
      end_tokens_(end_tokens.begin(), end_tokens.end()),
      n_words_((static_cast<std::size_t>(tokenizer.vocab_size()) + 63) / 64),
      cache_(kCacheSlots) {}

std::shared_ptr<const TokenMask::Entry> &TokenMask::slot(const ConstraintState &state,
                                                         std::uint32_t counter) const {
    const std::uint64_t key = (std::uint64_t{state.state} << 32 | counter) + state.depth;
    return cache_[key * 0x9E3779B97F4A7C15 >> 32 & (kCacheSlots - 1)];
}

void TokenMask::fill(const ConstraintState &state, std::span<std::uint64_t> mask) const {
    KIMI_CHECK(mask.size() >= n_words_);
    std::fill(mask.begin() + static_cast<std::ptrdiff_t>(n_words_), mask.end(), 0);
    mask = mask.first(n_words_);
    const PushdownDfa &dfa = constraint_->automaton();
    const std::uint32_t counter = dfa.equivalent(state.state, state.counter, trie_->max_depth);
    std::shared_ptr<const Entry> known;
    {
        const std::lock_guard lock(mutex_);
        known = slot(state, counter);
    }
    Walker walker(dfa, *trie_, mask);
    if (known != nullptr && known->state == state.state && known->counter == counter &&
        known->depth == state.depth) {
        std::copy(known->mask.begin(), known->mask.end(), mask.begin());
        walker.walk_exits(state, known->exits);
    } else {
        std::vector<Exit> exits;
        std::fill(mask.begin(), mask.end(), 0);
        walker.walk_frame(state, exits);
        if (walker.n_visited() > kCheap) {
            auto entry = std::make_shared<const Entry>(
                Entry{state.state, counter, state.depth, {mask.begin(), mask.end()}, exits});
            const std::lock_guard lock(mutex_);
            slot(state, counter).swap(entry);
        }
        walker.walk_exits(state, exits);
    }
    if (!constraint_->accepting(state)) return;
    for (const std::int32_t token : end_tokens_)
        mask[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << token % 64;
}

bool TokenMask::is_end(std::int32_t token) const {
    return std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end();
}

bool TokenMask::allows(const ConstraintState &state, std::int32_t token) const {
    ConstraintState next = state;
    return advance(next, token);
}

bool TokenMask::advance(ConstraintState &state, std::int32_t token) const {
    if (token < 0 || token >= tokenizer_->vocab_size()) return false;
    if (is_end(token)) {
        if (!constraint_->accepting(state)) return false;
        state = {};
        return true;
    }
    const std::string_view bytes = VocabTrie::spelling(*tokenizer_, token);
    ConstraintState next = state;
    if (bytes.empty() || !constraint_->advance(next, bytes)) return false;
    state = next;
    return true;
}

}  // namespace kimi
