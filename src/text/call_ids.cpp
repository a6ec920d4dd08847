#include "text/call_ids.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"

namespace kimi {
namespace {

constexpr std::string_view kPrefix = "functions.";

// N, where the call's id is functions.NAME:N. Numbers beyond 64 bits are all the same to us.
std::optional<std::uint64_t> canonical_number(const ToolCall &call) {
    const std::string_view id = call.id;
    const std::size_t colon = id.rfind(':');
    if (colon == std::string_view::npos || !id.starts_with(kPrefix)) return std::nullopt;
    const std::string_view name = id.substr(0, colon).substr(kPrefix.size());
    if (name.empty() || (!call.name.empty() && name != call.name)) return std::nullopt;
    std::uint64_t number = UINT64_MAX;
    const char *end = id.data() + id.size();
    if (colon + 1 == id.size() || std::from_chars(id.data() + colon + 1, end, number).ptr != end)
        return std::nullopt;
    return number;
}

class Renamer {
  public:
    void rename_calls(std::size_t message_index, std::vector<ToolCall> &calls) {
        for (const ToolCall &call : calls) {
            if (const auto number = canonical_number(call)) used_.insert(*number);
            results_.erase(call.id);
        }
        for (std::size_t i = 0; i < calls.size(); ++i, ++n_calls_) {
            ToolCall &call = calls[i];
            const std::string old = call.id;
            if (!canonical_number(call)) {
                if (call.name.empty())
                    fail(KIMI_INVALID_ARGUMENT, "messages[", message_index, "].tool_calls[", i,
                         "].function.name: expected a string, found nothing");
                call.id = cat(kPrefix, call.name, ":", next_number());
            }
            results_[old].ids.push_back(call.id);
        }
    }

    void rename_result(std::string &id) {
        const auto at = results_.find(id);
        if (at == results_.end()) return;
        Results &results = at->second;
        id = results.ids[std::min(results.n_seen++, results.ids.size() - 1)];
    }

  private:
    std::uint64_t next_number() {
        next_ = std::max(next_, n_calls_);
        while (used_.contains(next_)) ++next_;
        return next_++;
    }

    // What the results for an id are to be called, in the order of the calls.
    struct Results {
        std::vector<std::string> ids;
        std::size_t n_seen = 0;
    };
    std::unordered_map<std::string, Results> results_;
    std::unordered_set<std::uint64_t> used_;
    std::uint64_t n_calls_ = 0;
    std::uint64_t next_ = 0;
};

}  // namespace

void canonicalize_call_ids(Chat &chat) {
    Renamer renamer;
    for (std::size_t i = 0; i < chat.messages.size(); ++i) {
        Message &message = chat.messages[i];
        renamer.rename_calls(i, message.tool_calls);
        if (message.role == "tool") renamer.rename_result(message.tool_call_id);
    }
}

}  // namespace kimi
