// The scheduler's steps that the device does by itself: those in which all sessions decode and
// leave the choice of their tokens to it.
#include <algorithm>

#include "engine/scheduler.h"

namespace kimi {

bool Scheduler::is_plain(const Work &work) const {
    const Session &session = *work.session;
    const SessionOptions &options = session.options();
    return !session.rules().constraint && session.rules().biases.empty() && options.logprobs == 0 &&
           !options.draft_chain && (runner_.drafter() == nullptr || session.kv().drafts);
}

// Nodes that are verified behind the work's root, at most `room`. One token of a reply is never
// drafted: the one behind the last accepted.
std::uint32_t Scheduler::nodes_ahead(const Work &work, std::uint32_t room) {
    if (!can_draft(work)) return 0;
    Session &session = *work.session;
    std::uint32_t n = session.options().draft_budget;
    if (n == KIMI_AUTO) {
        BudgetPolicy &policy = session.budget_policy();
        n = policy.wants_draft() ? policy.choose_ahead(pass_cost_, draft_cost_, n_rows_ - 1) : 0;
    }
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(
        {n, max_nodes_, room, session.tokens_left() - 1, slots_behind_root(work)}));
}

void Scheduler::plan_ahead(Work &work, std::uint32_t n_nodes) {
    Session &session = *work.session;
    KvSequence &kv = session.kv();
    kv_.reserve(kv, work.root_slot + 1 + n_nodes);
    work.tree = {};
    work.tree.n = n_nodes;  // places; the device fills them
    work.first_row = plan_.n_rows();
    plan_.add_tree(kv.pages, session.pending()[0], work.root_slot, work.tree);
    const bool chooses = session.options().draft_budget == KIMI_AUTO && n_nodes > 0;
    step_sequences_.push_back(
        {chooses ? max_nodes_ : n_nodes, kv.ring, session.options().sampling});
    requests_.push_back(draft_request(work));
}

bool Scheduler::plan_whole_step() {
    if (n_decoding_ == 0 || n_decoding_ < work_.size()) return false;
    const std::uint32_t max_rows = runner_.max_step_rows(n_decoding_);
    const auto plain = [this](const Work &work) { return is_plain(work); };
    if (max_rows < n_decoding_ || !std::all_of(work_.begin(), work_.end(), plain)) return false;
    plan_.clear();
    step_sequences_.clear();
    requests_.clear();
    std::uint32_t spare_rows = max_rows - n_decoding_, n_left = n_decoding_;
    for (Work &work : work_) {
        const std::uint32_t n_nodes = nodes_ahead(work, spare_rows / n_left--);
        spare_rows -= n_nodes;
        plan_ahead(work, n_nodes);
    }
    if (plan_.n_rows() == n_decoding_) requests_.clear();  // nothing to verify: nothing to draft
    return true;
}

void Scheduler::run_whole_step() {
    runner_.whole_step({requests_, plan_.plan(), step_sequences_});
    const WholeSteps &steps = *runner_.device().whole_steps();
    const WholeStepTimes &times = steps.times();
    pass_cost_.observe(plan_.n_rows(), times.verify);
    if (!requests_.empty()) draft_cost_.observe(times.draft + times.tree);
    for (std::uint32_t i = 0; i < work_.size(); ++i) {
        Session &session = *work_[i].session;
        session.stats().add(times);
        try {
            take(work_[i], steps.result(i));
        } catch (...) {
            session.fail(current_error());
        }
        session.end_step();
        work_[i].served = true;
    }
    keep_and_defragment(times.verify);
}

// Commits what the device chose, up to where the reply ends.
void Scheduler::take(Work &work, const WholeStepResult &result) {
    Session &session = *work.session;
    const std::uint64_t before = session.n_tokens();
    for (std::uint32_t i = 0; i <= result.n_accepted; ++i) {
        if (result.token[i] < 0) fail(KIMI_NUMERIC, "a logit of the model is NaN or infinite");
        if (!session.commit(result.token[i])) break;
    }
    const std::uint64_t n_committed = session.n_tokens() - before;
    const auto n_accepted =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(n_committed, result.n_accepted));
    kv_.written(session.kv(), n_accepted + 1, result.n_accepted + 1);
    verified(session, result.tree, n_accepted, n_committed);
    if (result.tree.n > 0) session.budget_policy().remember(result.tree, result.n_nodes);
}

}  // namespace kimi
