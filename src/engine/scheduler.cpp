#include "engine/scheduler.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace kimi {
namespace {

// How many passes without decode rows stay short for sessions that decoded before.
constexpr std::uint32_t kAwaitedPasses = 4;

// The session's next step is a decode step: its only row is the root.
bool decodes(const Session &session) {
    return session.result().phase == KIMI_PHASE_DECODE && session.pending().size() == 1;
}

}  // namespace

Scheduler::Scheduler(Runner &runner, KvSpace &kv, std::uint32_t prefill_chunk,
                     std::uint32_t max_nodes, const Log &log)
    : runner_(runner),
      kv_(kv),
      prefill_chunk_(prefill_chunk),
      max_nodes_(max_nodes),
      log_(log),
      plan_(runner.max_rows()),
      chooser_(runner.config().vocab) {
    const std::uint32_t rows = runner.max_rows();
    work_.reserve(rows);
    drafting_.reserve(rows);
    requests_.reserve(rows);
    extensions_.reserve(rows);
    context_rows_.reserve(rows);
    step_sequences_.reserve(rows);
}

void Scheduler::pass(std::vector<Session *> &waiting, bool concurrent) {
    const auto start = std::chrono::steady_clock::now();
    collect(waiting, concurrent);
    if (work_.empty()) return;
    const auto seconds = [start] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    runner_.begin_step();
    try {
        run();
        observe(seconds(), concurrent);
    } catch (...) {
        broken_ = true;
        const Error error = current_error();
        log_.error("the engine failed and does no further work: ", error.text);
        // Its record stays open: a rank that is stuck may still write to it.
        for (const Work &work : work_) {
            if (work.served) count(work, seconds());
            work.session->fail(error);
        }
    }
}

void Scheduler::collect(std::vector<Session *> &waiting, bool concurrent) {
    work_.clear();
    n_rows_ = 0;
    std::erase_if(waiting, [&](Session *session) {
        if (!decodes(*session) || n_rows_ == runner_.max_rows()) return false;
        if (session->begin_step()) admit(*session, 1);
        return true;
    });
    n_decoding_ = static_cast<std::uint32_t>(work_.size());
    std::uint32_t room = prompt_room(concurrent);
    std::erase_if(waiting, [&](Session *session) {
        if (decodes(*session)) return false;
        if (!session->begin_step()) return true;
        // Beside decode rows a prompt may get no row at all; its caller is not held up for that.
        if (room == 0) return n_decoding_ > 0;
        room -= admit(*session, room);
        return true;
    });
}

// Rows for prompts in a pass that holds the decode rows.
std::uint32_t Scheduler::prompt_room(bool concurrent) {
    const std::uint32_t free = runner_.max_rows() - n_rows_;
    if (n_decoding_ > 0) return std::min(free, prompt_budget_.rows(n_decoding_));
    if (awaited_passes_ == 0 || !concurrent) return free;
    return std::clamp(prompt_budget_.rows(n_awaited_), 1U, free);
}

// Makes the session a part of the pass, with at most `room` rows; returns how many.
std::uint32_t Scheduler::admit(Session &session, std::uint32_t room) {
    try {
        if (broken_) fail(KIMI_DEVICE_LOST, "the engine failed earlier and does no further work");
        if (session.result().phase == KIMI_PHASE_PREFILL) {
            const std::uint32_t own = session.kv().n_tokens;
            kv_.reuse(session.kv(), session.tokens());
            session.reused(session.kv().n_tokens - own);
        }
        const auto rows = static_cast<std::uint32_t>(
            std::min<std::size_t>({session.pending().size(), prefill_chunk_, room}));
        const std::uint32_t first = session.kv().n_tokens;
        kv_.reserve(session.kv(), first + rows, session.tokens().size());
        work_.push_back({&session, decodes(session), rows, first});
        n_rows_ += rows;
        return rows;
    } catch (...) {
        session.fail(current_error());
        return 0;
    }
}

// Counts the pass and learns from the time that it took.
void Scheduler::observe(double seconds, bool concurrent) {
    const std::uint32_t prompt_rows = n_rows_ - n_decoding_;
    const std::uint32_t decode_rows = plan_.n_rows() - prompt_rows;
    runner_.end_step(prompt_rows, decode_rows);
    ++stats_.passes;
    stats_.prompt_rows += prompt_rows;
    stats_.decode_rows += decode_rows;
    for (const Work &work : work_) count(work, seconds);
    if (n_decoding_ > 0)
        prompt_budget_.observe(n_decoding_, prompt_rows, seconds);
    else if (awaited_passes_ > 0 && concurrent)
        prompt_budget_.observe_delay(seconds);

    const auto n = std::count_if(work_.begin(), work_.end(), [](const Work &work) {
        return work.session->result().phase == KIMI_PHASE_DECODE;
    });
    if (n_decoding_ > 0 || n > 0) {
        n_awaited_ = static_cast<std::uint32_t>(n);
        awaited_passes_ = n > 0 ? kAwaitedPasses : 0;
    } else if (awaited_passes_ > 0) {
        --awaited_passes_;
    }
}

void Scheduler::count(const Work &work, double seconds) {
    SessionStats &session = work.session->stats();
    ++stats_.steps;
    (work.decode ? session.decode : session.prefill) += seconds;
    if (!work.decode) session.prompt_tokens += work.n_rows;
    const StepResult &result = work.session->result();
    stats_.committed += work.session->committed().size();
    stats_.drafted += result.draft_nodes;
    stats_.accepted += result.draft_accepted;
}

void Scheduler::run() {
    if (plan_whole_step()) return run_whole_step();
    draft();
    plan_work();
    double seconds = 0;
    {
        const ScopedTimer timer(seconds);
        runner_.forward(plan_.plan());
    }
    pass_cost_.observe(plan_.n_rows(), seconds);
    for (Work &work : work_) {
        try {
            if (work.decode) {
                work.session->stats().verify += seconds;
                accept(work);
            } else {
                finish_prompt(work);
            }
        } catch (...) {
            const Error error = current_error();
            if (error.status == KIMI_DEVICE_LOST) throw;  // to all sessions
            work.session->fail(error);
        }
        work.session->end_step();
        work.served = true;
    }
    extend_contexts();
    keep_and_defragment(seconds);
}

bool Scheduler::can_draft(const Work &work) const {
    const Session &session = *work.session;
    return runner_.drafter() != nullptr && max_nodes_ > 0 && work.decode && session.kv().drafts &&
           session.options().draft_budget > 0 && session.tokens_left() > 1;
}

DraftRequest Scheduler::draft_request(const Work &work) const {
    const KvSequence &kv = work.session->kv();
    return {work.session->pending()[0],
            {0, 0, work.root_slot, kv.pages, kv.ring, kv.full_begin, kv.ring_begin}};
}

// Slots for nodes that the session's pages and the free ones hold.
std::uint64_t Scheduler::slots_behind_root(const Work &work) const {
    const std::uint64_t n_pages = work.session->kv().pages.size() + kv_.n_free();
    return n_pages * kPageTokens - work.root_slot - 1;
}

// Proposes trees for the sessions that want them.
void Scheduler::draft() {
    const Drafter *drafter = runner_.drafter();
    drafting_.clear();
    requests_.clear();
    std::uint32_t k = 0;
    for (Work &work : work_) {
        if (!can_draft(work) || drafting_.size() == drafter->max_blocks()) continue;
        Session &session = *work.session;
        const std::uint32_t budget = session.options().draft_budget;
        if (budget == KIMI_AUTO && !session.budget_policy().wants_draft()) continue;
        // A constraint may leave out the best.
        k = std::max(k, session.rules().constraint ? kMaxTreeNodes : std::min(budget, max_nodes_));
        requests_.push_back(draft_request(work));
        drafting_.push_back(&work);
    }
    if (drafting_.empty()) return;
    k = std::min(k, runner_.config().vocab);
    double draft_seconds = 0, tree_seconds = 0;
    {
        const ScopedTimer timer(draft_seconds);
        runner_.draft(requests_, k);
    }
    {
        const ScopedTimer timer(tree_seconds);
        for (std::uint32_t i = 0; i < drafting_.size(); ++i) build_tree(*drafting_[i], i, k);
    }
    draft_cost_.observe(draft_seconds + tree_seconds);
    for (const Work *work : drafting_) {
        work->session->stats().draft += draft_seconds;
        work->session->stats().tree += tree_seconds;
    }
}

void Scheduler::build_tree(Work &work, std::uint32_t index, std::uint32_t k) {
    const SessionOptions &options = work.session->options();
    const Drafter &drafter = *runner_.drafter();
    const std::uint32_t offsets = drafter.block_size() - 1;
    // The token behind the last accepted one needs a place too.
    const auto depth = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(offsets, work.session->tokens_left() - 1));
    const std::size_t first = std::size_t{index} * offsets * k, n = std::size_t{depth} * k;
    const DraftLists lists{depth, k, drafter.top_tokens().subspan(first, n),
                           drafter.top_log_probability().subspan(first, n)};
    const std::uint32_t budget = std::min(options.draft_budget, max_nodes_);
    DraftFilter *filter = filter_.begin(*work.session);
    options.draft_chain ? build_draft_chain(lists, budget, work.tree, filter)
                        : build_draft_tree(lists, budget, work.tree, filter);
}

void Scheduler::plan_work() {
    plan_.clear();
    std::uint32_t spare_rows = runner_.max_rows() - n_rows_;
    std::uint32_t n_trees = static_cast<std::uint32_t>(drafting_.size());
    for (Work &work : work_) {
        Session &session = *work.session;
        work.first_row = plan_.n_rows();
        if (work.decode) {
            if (work.tree.n > 0) limit_tree(work, spare_rows / n_trees--);
            spare_rows -= work.tree.n;
            kv_.reserve(session.kv(), work.root_slot + 1 + work.tree.n);
            work.logits =
                plan_.add_tree(session.kv().pages, session.pending()[0], work.root_slot, work.tree);
        } else {
            work.logits = plan_.add_prompt(session.kv().pages, session.pending().first(work.n_rows),
                                           work.root_slot, work.n_rows == session.pending().size());
        }
    }
}

// Cuts the tree to what pays, what fits the pass and what the page pool holds.
void Scheduler::limit_tree(Work &work, std::uint32_t spare_rows) {
    Session &session = *work.session;
    std::uint32_t n = work.tree.n;
    if (n > 0 && session.options().draft_budget == KIMI_AUTO)
        n = session.budget_policy().choose(work.tree, pass_cost_, draft_cost_, n_rows_ - 1);
    work.tree.n = static_cast<std::uint32_t>(
        std::min<std::uint64_t>({n, spare_rows, slots_behind_root(work)}));
}

// A chunk of the prompt; the last one is followed by the reply's first token.
void Scheduler::finish_prompt(Work &work) {
    Session &session = *work.session;
    const bool complete = work.n_rows == session.pending().size();
    kv_.written(session.kv(), work.n_rows);
    session.update_progress();
    if (complete) commit_next(session, work.logits);
}

bool Scheduler::commit_next(Session &session, std::uint32_t logits) {
    const std::span<const float> row = runner_.logits(logits);
    const auto token = chooser_.choose(row, session);
    if (!token) {
        session.dead_end();
        return false;
    }
    if (const std::uint32_t n = session.options().logprobs; n > 0)
        add_logprobs(row, *token, n, session.logprobs_to_add());
    return session.commit(*token);
}

void Scheduler::accept(Work &work) {
    Session &session = *work.session;
    SessionStats &stats = session.stats();
    const std::uint64_t before = session.n_tokens();
    {
        const ScopedTimer timer(stats.accept);
        walk(work);
    }
    {
        const ScopedTimer timer(stats.compact);
        compact(work);
    }
    const std::uint32_t n_accepted = work.n_path - 1;
    kv_.written(session.kv(), work.n_path);
    verified(session, work.tree, n_accepted, session.n_tokens() - before);
}

// A tree was verified, and tokens committed by that.
void Scheduler::verified(Session &session, const DraftTree &tree, std::uint32_t n_accepted,
                         std::uint64_t n_committed) {
    session.drafted(tree, n_accepted);
    session.stats().committed += n_committed;
    if (tree.n > 0) session.budget_policy().observe(tree, n_accepted);
}

// From the root on: the target's own token is committed, and while it is a child, its row is next.
void Scheduler::walk(Work &work) {
    Session &session = *work.session;
    work.path[work.n_path++] = 0;
    for (std::uint32_t row = 0;;) {
        const std::uint64_t before = session.n_tokens();
        const bool goes_on = commit_next(session, work.logits + row);
        if (session.n_tokens() == before) return;
        row = work.tree.child(row, session.tokens().back());
        if (row > 0) work.path[work.n_path++] = row;
        if (row == 0 || !goes_on) return;
    }
}

// Moves the KV of the accepted rows to the slots behind the root.
void Scheduler::compact(const Work &work) {
    std::uint32_t from[kMaxTreeNodes], to[kMaxTreeNodes], n = 0;
    for (std::uint32_t i = 1; i < work.n_path; ++i) {
        if (work.path[i] == i) continue;
        from[n] = work.root_slot + work.path[i];
        to[n++] = work.root_slot + i;
    }
    if (n > 0) runner_.memory().move_slots(work.session->kv().pages, {from, n}, {to, n});
}

// The drafter's context grows by the rows that were committed.
void Scheduler::extend_contexts() {
    if (runner_.drafter() == nullptr) return;
    extensions_.clear();
    context_rows_.clear();
    for (const Work &work : work_) {
        const KvSequence &kv = work.session->kv();
        const std::uint32_t n = kv.n_tokens - work.root_slot;
        if (!kv.drafts || n == 0) continue;
        const std::size_t first = context_rows_.size();
        for (std::uint32_t i = 0; i < n; ++i)
            context_rows_.push_back(work.first_row + (work.decode ? work.path[i] : i));
        extensions_.push_back(
            {std::span(context_rows_).subspan(first), {0, 0, work.root_slot, kv.pages, kv.ring}});
    }
    if (!extensions_.empty()) runner_.extend(extensions_);
}

// Between steps: whole prompts and replies become prefixes for others, and scattered pages are
// brought together, a little in every step and more when a reply has ended.
void Scheduler::keep_and_defragment(double pass_seconds) {
    double budget = 0.05 * pass_seconds;
    for (const Work &work : work_) {
        Session &session = *work.session;
        const bool ended = session.result().phase == KIMI_PHASE_FINISHED;
        const bool began = !work.decode && session.pending().size() <= 1;
        if (ended || began) kv_.keep(session.kv(), session.tokens());
        if (ended) budget += 0.005;
    }
    if (kv_.is_fragmented()) kv_.defragment(budget);
}

}  // namespace kimi
