// One growing sequence of tokens and the state of its current reply.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/reply_events.h"
#include "engine/reply_rules.h"
#include "engine/session_stats.h"
#include "kimi/kimi.h"
#include "kv/kv_space.h"
#include "spec/budget.h"
#include "spec/sampler.h"
#include "text/stop_strings.h"
#include "text/utf8.h"

namespace kimi {

class Engine;

struct SessionOptions {
    SamplingOptions sampling;
    std::uint32_t max_tokens = 0;  // 0: up to the context limit
    std::uint32_t draft_budget = KIMI_AUTO;
    bool draft_chain = false;
    bool ignore_stop = false;
    std::uint32_t deadline_ms = 0;  // from the append on; 0: none
    std::uint32_t logprobs = 0;     // of the likeliest tokens, with each token; 0: off
};

// What a step did.
struct StepResult {
    kimi_status status = KIMI_OK;
    std::string error;  // of a status that is not KIMI_OK
    std::uint32_t phase = KIMI_PHASE_FINISHED;
    std::uint32_t finish_reason = KIMI_FINISH_NONE;
    std::uint64_t prompt_done = 0, prompt_total = 0, prompt_reused = 0;
    std::uint32_t draft_nodes = 0, draft_accepted = 0;
};

// Everything of a session but its KV.
struct SessionState {
    SessionOptions options, next_options;
    ReplyRules rules, next_rules;
    std::vector<std::int32_t> tokens;
    std::uint64_t reply_begin = 0;  // tokens before the reply: its prompt
    std::uint32_t phase = KIMI_PHASE_FINISHED, finish_reason = KIMI_FINISH_NONE;
    Error failure = {};              // that ended the reply
    std::uint64_t events_taken = 0;  // of the reply, see ReplyEvents
};

// The caller serialises all calls but cancel().
class Session {
  public:
    Session(std::shared_ptr<Engine> engine, const SessionOptions &options);
    // With a state and no KV: what the state has is computed again. Throws KIMI_INVALID_ARGUMENT or
    // KIMI_TOO_LONG.
    Session(std::shared_ptr<Engine> engine, SessionState state);
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;
    ~Session();

    Engine &engine() const { return *engine_; }
    // From the next reply on.
    void set_options(const SessionOptions &options) { next_options_ = options; }
    // The same of the rules.
    ReplyRules &next_rules() { return next_rules_; }
    // These change nothing where they throw.

    // Throws KIMI_INVALID_ARGUMENT or KIMI_TOO_LONG.
    void append(std::span<const std::int32_t> tokens);
    // Replaces the sequence, keeping what was processed of the longest common prefix. tools: the
    // names of the functions that it declares.
    void replace(std::span<const std::int32_t> tokens, std::vector<std::string> tools);
    // Drops the tokens from n on and ends the reply. Throws KIMI_INVALID_ARGUMENT.
    void truncate(std::uint64_t n);
    // A session in the same state, its reply included. Throws KIMI_BUSY.
    std::unique_ptr<Session> fork() const;
    // The same with other options, which hold for a reply in progress too.
    std::unique_ptr<Session> fork(const SessionOptions &options) const;
    void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

    std::uint64_t n_tokens() const { return tokens_.size(); }
    std::span<const std::int32_t> committed() const {
        return std::span(tokens_).subspan(tokens_.size() - n_committed_);
    }
    const std::string &text() const { return text_; }
    // Of every committed token, options().logprobs + 1 of them.
    std::span<const kimi_logprob> logprobs() const { return logprobs_; }
    const StepResult &result() const { return result_; }
    const SessionStats &stats() const { return stats_; }
    SessionState state() const;

    // Takes the reply's next event: KIMI_EVENT_*, KIMI_EVENT_NONE where the steps so far give none.
    // The events are those of the whole reply, whenever the first is taken.
    std::uint32_t take_event();
    // What take_event() took; after its first call.
    const ReplyEvents &events() const { return *events_; }
    std::uint64_t reply_begin() const { return reply_begin_; }
    // What ended the reply with KIMI_FINISH_ERROR.
    const Error &failure() const { return failure_; }
    const KvSequence &kv() const { return kv_; }

    // --- For the scheduler ---

    // Starts a step; false where there is nothing to compute.
    bool begin_step();
    // Ends a step that a pass computed.
    void end_step();
    const SessionOptions &options() const { return options_; }
    std::span<const std::int32_t> tokens() const { return tokens_; }
    const ReplyRules &rules() const { return rules_; }
    // Where the reply stands in its constraint.
    const ReplyState &reply_state() const { return reply_state_; }
    // Tokens that have no KV yet.
    std::span<const std::int32_t> pending() const { return tokens().subspan(kv_.n_tokens); }
    // Tokens that may still be committed to this reply, at least 1 while it goes on.
    std::uint64_t tokens_left() const;
    KvSequence &kv() { return kv_; }
    BudgetPolicy &budget_policy() { return budget_policy_; }
    SessionStats &stats() { return stats_; }

    // The KV grew by tokens that were computed, or by such that others had computed.
    void update_progress();
    void reused(std::uint64_t n_tokens);
    // Where the log probabilities of the next token go, if they are wanted.
    std::vector<kimi_logprob> &logprobs_to_add() { return logprobs_; }
    // False when this token ended the reply.
    bool commit(std::int32_t token);
    // The constraint allows no token more.
    void dead_end() { finish(KIMI_FINISH_CONSTRAINT); }
    // A decode step verified this tree.
    void drafted(const DraftTree &tree, std::uint32_t n_accepted);
    // Ends the step with an error. KIMI_BUSY leaves the reply as it is, everything else ends it.
    void fail(const Error &error) noexcept;

  private:
    using Clock = std::chrono::steady_clock;
    // What a reply begins with.
    struct Beginning {
        ReplyRules rules;
        StopStrings stop_strings;
        ReplyState state;
    };

    Beginning beginning(const ReplyRules &rules, std::span<const std::int32_t> prompt) const;
    // Replaces the tokens from `keep` on and starts a reply with these rules.
    void splice(std::size_t keep, std::span<const std::int32_t> tokens, const ReplyRules &rules);
    void drop(std::size_t n);
    void reset_reply(Beginning &&beginning);
    // True where the reply was cancelled, or its time is over: it ends then.
    bool interrupted();
    // Takes a token into the reply's text and constraint. True where a stop string ended.
    bool take(std::int32_t token, bool with_text);
    // The token is no stop token that ends the reply.
    bool has_text(std::int32_t token) const;
    void finish(std::uint32_t reason);
    void check_tokens(std::span<const std::int32_t> tokens) const;

    std::shared_ptr<Engine> engine_;
    SessionOptions options_, next_options_;
    std::vector<std::int32_t> tokens_;
    KvSequence kv_;
    std::uint64_t reply_begin_ = 0;
    std::size_t n_committed_ = 0;  // by the last step
    ReplyRules rules_, next_rules_;
    ReplyState reply_state_;
    Utf8Stream utf8_;
    StopStrings stop_strings_;
    std::string characters_;  // of one token
    std::string text_;
    std::vector<kimi_logprob> logprobs_;
    StepResult result_;
    Error failure_{};
    std::optional<ReplyEvents> events_;  // made when they are asked for
    std::uint64_t events_taken_ = 0;
    BudgetPolicy budget_policy_;
    SessionStats stats_;
    Clock::time_point reply_start_ = Clock::now();
    std::atomic<bool> cancelled_{false};
};

}  // namespace kimi
