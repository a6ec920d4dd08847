#include "constraint/constraint_cache.h"

#include <algorithm>

namespace kimi {
namespace {

constexpr std::size_t kMaxRecent = 16;

}  // namespace

std::shared_ptr<const ReplyConstraint> ConstraintCache::get(ConstraintKind kind,
                                                            std::string_view text) {
    const std::lock_guard lock(mutex_);
    auto at = std::find_if(recent_.begin(), recent_.end(), [&](const auto &constraint) {
        return constraint->kind() == kind && constraint->text() == text;
    });
    if (at == recent_.end()) {
        if (trie_ == nullptr) trie_ = std::make_shared<const VocabTrie>(*tokenizer_);
        auto made = std::make_shared<const ReplyConstraint>(kind, text, *tokenizer_, trie_);
        if (recent_.size() == kMaxRecent) recent_.pop_back();
        at = recent_.insert(recent_.end(), std::move(made));
    }
    std::rotate(recent_.begin(), at, at + 1);
    return recent_.front();
}

}  // namespace kimi
