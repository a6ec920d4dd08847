#include "engine/warm_up.h"

#include <algorithm>
#include <numeric>

#include "engine/plan_builder.h"

namespace kimi {
namespace {

constexpr std::uint32_t kPage = 0;
constexpr std::span<const std::uint32_t> kPages{&kPage, 1};

// Rows of session i of n, if they are `width` in all: one, but the last has the rest.
std::uint32_t rows_of(std::uint32_t i, std::uint32_t n, std::uint32_t width) {
    return i + 1 < n ? 1 : width - n + 1;
}

DraftSequence sequence(std::uint32_t first_position) {
    DraftSequence out;
    out.first_position = first_position;
    out.pages = kPages;
    return out;
}

void verify(Runner &runner, std::uint32_t n_sessions, std::uint32_t width) {
    PlanBuilder plan(width);
    for (std::uint32_t i = 0; i < n_sessions; ++i) {
        DraftTree tree = {};
        tree.n = rows_of(i, n_sessions, width) - 1;
        plan.add_tree(kPages, 0, i, tree);
    }
    runner.forward(plan.plan());
}

// The context of the last pass's rows.
void extend(Runner &runner, std::uint32_t n_sessions, std::uint32_t width) {
    std::vector<std::uint32_t> rows(width);
    std::iota(rows.begin(), rows.end(), 0U);
    std::vector<DraftExtension> extensions;
    for (std::uint32_t i = 0; i < n_sessions; ++i)
        extensions.push_back(
            {std::span(rows).subspan(i, rows_of(i, n_sessions, width)), sequence(i)});
    runner.extend(extensions);
}

void draft(Runner &runner, std::uint32_t n_sessions) {
    if (n_sessions > runner.drafter()->max_blocks()) return;
    runner.draft(std::vector<DraftRequest>(n_sessions, {0, sequence(1)}), 1);
}

void whole_step(Runner &runner, std::uint32_t n_sessions, std::uint32_t width, bool drafts) {
    PlanBuilder plan(width);
    std::vector<DraftRequest> requests;
    for (std::uint32_t i = 0; i < n_sessions; ++i) {
        DraftTree tree = {};
        tree.n = rows_of(i, n_sessions, width) - 1;
        plan.add_tree(kPages, 0, i, tree);
        if (drafts) requests.push_back({0, sequence(i)});
    }
    const std::vector<WholeStepSequence> sequences(n_sessions);
    runner.whole_step({requests, plan.plan(), sequences});
}

// A bucket of up to `largest` rows, the smallest of whose passes has `width`.
void warm_up(Runner &runner, std::uint32_t n_sessions, std::uint32_t width, std::uint32_t largest) {
    const bool drafts = runner.drafter() != nullptr;
    verify(runner, n_sessions, width);
    if (drafts) extend(runner, n_sessions, width);
    const std::uint32_t most = std::min(largest, runner.max_step_rows(n_sessions));
    if (most < width) return;
    whole_step(runner, n_sessions, width, false);
    const std::uint32_t drafted = std::max(width, n_sessions + 1);  // roots and a node
    if (drafts && drafted <= most) whole_step(runner, n_sessions, drafted, true);
}

}  // namespace

// Each bucket by the smallest pass that it is for.
void warm_up(Runner &runner) {
    const GraphBuckets &graphs = runner.limits().graphs;
    std::uint32_t n_sessions = 1;
    for (const std::uint32_t most_sessions : graphs.sessions) {
        std::uint32_t smallest = 1;
        for (const std::uint32_t largest : graphs.widths) {
            const std::uint32_t width = std::max(smallest, n_sessions);
            smallest = largest + 1;
            if (width <= largest && width <= runner.max_rows())
                warm_up(runner, n_sessions, width, largest);
        }
        if (runner.drafter() != nullptr) draft(runner, n_sessions);
        n_sessions = most_sessions + 1;
    }
}

}  // namespace kimi
