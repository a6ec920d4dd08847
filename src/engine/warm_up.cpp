#include "engine/warm_up.h"

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

}  // namespace

void warm_up(Runner &runner) {
    const GraphBuckets &graphs = runner.limits().graphs;
    for (const std::uint32_t n_sessions : graphs.sessions) {
        for (const std::uint32_t width : graphs.widths) {
            if (width < n_sessions || width > runner.max_rows()) continue;
            verify(runner, n_sessions, width);
            if (runner.drafter() != nullptr) extend(runner, n_sessions, width);
        }
        if (runner.drafter() != nullptr) draft(runner, n_sessions);
    }
}

}  // namespace kimi
