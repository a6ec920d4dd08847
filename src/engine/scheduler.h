// Turns what sessions want next into passes over the model: prompt chunks, and decode steps with
// drafting, verification and acceptance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan_builder.h"
#include "engine/prompt_budget.h"
#include "engine/runner.h"
#include "engine/session.h"
#include "engine/token_chooser.h"
#include "kv/kv_space.h"
#include "spec/budget.h"
#include "spec/draft_tree.h"

namespace kimi {

struct SchedulerStats {
    std::uint64_t passes = 0;
    std::uint64_t steps = 0;        // of sessions, served by them
    std::uint64_t prompt_rows = 0;  // of the passes; the others are roots and tree nodes
    std::uint64_t decode_rows = 0;
    std::uint64_t committed = 0, drafted = 0, accepted = 0;  // tokens
};

class Scheduler {
  public:
    Scheduler(Runner &runner, KvSpace &kv, std::uint32_t prefill_chunk, std::uint32_t max_nodes,
              const Log &log);

    // One pass: a step for as many of the sessions as it holds, in order, but those that decode
    // before prompts. They are taken off the list; the results are in the sessions. concurrent:
    // sessions that decoded last and are not on the list may be waiting before the pass ends.
    void pass(std::vector<Session *> &waiting, bool concurrent);

    const SchedulerStats &stats() const { return stats_; }

  private:
    // A session's part of a pass.
    struct Work {
        Session *session;
        bool decode;           // a reply goes on: the only row is its root
        std::uint32_t n_rows;  // without tree nodes
        std::uint32_t root_slot = 0, first_row = 0, logits = 0;
        bool served = false;  // the session has had its step, even if the rest of the pass fails
        DraftTree tree;
        // Rows of the tree that were accepted, root first.
        std::uint32_t n_path = 0;
        std::uint32_t path[kMaxTreeNodes + 1];
    };

    void collect(std::vector<Session *> &waiting, bool concurrent);
    std::uint32_t prompt_room(bool concurrent);
    std::uint32_t admit(Session &session, std::uint32_t room);
    void run();
    void observe(double seconds, bool concurrent);
    void count(const Work &work, double seconds);

    void draft();
    bool can_draft(const Work &work) const;
    DraftRequest draft_request(const Work &work) const;
    std::uint64_t slots_behind_root(const Work &work) const;
    void build_tree(Work &work, std::uint32_t index, std::uint32_t k);
    void plan_work();
    void limit_tree(Work &work, std::uint32_t spare_rows);

    // A step that the device does by itself, where it can: whole_step.cpp.
    bool plan_whole_step();
    bool is_plain(const Work &work) const;
    std::uint32_t nodes_ahead(const Work &work, std::uint32_t room);
    void plan_ahead(Work &work, std::uint32_t n_nodes);
    void run_whole_step();
    void take(Work &work, const WholeStepResult &result);

    void finish_prompt(Work &work);
    // False where the reply ended.
    bool commit_next(Session &session, std::uint32_t logits);
    void accept(Work &work);
    static void verified(Session &session, const DraftTree &tree, std::uint32_t n_accepted,
                         std::uint64_t n_committed);
    void walk(Work &work);
    void compact(const Work &work);
    void extend_contexts();
    void keep_and_defragment(double pass_seconds);

    Runner &runner_;
    KvSpace &kv_;
    std::uint32_t prefill_chunk_, max_nodes_;
    Log log_;
    PlanBuilder plan_;
    TokenChooser chooser_;
    ConstraintFilter filter_;
    PassCost pass_cost_;
    DraftCost draft_cost_;
    PromptBudget prompt_budget_;
    // Sessions that decoded may be back while a pass runs: passes for which they are remembered,
    // and how many they are.
    std::uint32_t awaited_passes_ = 0, n_awaited_ = 0;
    bool broken_ = false;  // a pass failed: no further work
    SchedulerStats stats_;

    std::vector<Work> work_;
    std::uint32_t n_decoding_ = 0;  // of work_, at its beginning
    std::uint32_t n_rows_ = 0;      // of work_, without tree nodes
    std::vector<Work *> drafting_;
    std::vector<DraftRequest> requests_;
    std::vector<DraftExtension> extensions_;
    std::vector<WholeStepSequence> step_sequences_;
    std::vector<std::uint32_t> context_rows_;
};

}  // namespace kimi
