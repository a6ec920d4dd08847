#include "spec/budget.h"

#include <cmath>

#include "check.h"

using namespace kimi;

namespace {

// n nodes whose paths have the given probabilities.
DraftTree tree_of(std::initializer_list<double> probabilities) {
    DraftTree tree;
    for (const double p : probabilities) tree.log_probability[tree.n++] = std::log(p);
    return tree;
}

PassCost line(double fixed, double per_row) {
    PassCost cost;
    for (const double rows : {1.0, 9.0, 4.0, 17.0, 1.0, 9.0})
        cost.observe(rows, fixed + per_row * rows);
    return cost;
}

}  // namespace

TEST_CASE("budget: the cost of a pass is the line through what was measured") {
    const PassCost cost = line(10, 0.5);
    CHECK(cost.estimate(1) == doctest::Approx(10.5));
    CHECK(cost.estimate(33) == doctest::Approx(26.5));
    // A change is followed within some dozen passes.
    PassCost moving = line(10, 0.5);
    for (int i = 0; i < 100; ++i) moving.observe(1 + i % 16, 20 + 1.0 * (1 + i % 16));
    CHECK(moving.estimate(9) == doctest::Approx(29).epsilon(0.01));
}

TEST_CASE("budget: a node is taken while it adds more than it costs") {
    // Plain: 1 token per 11. With n nodes (1 + sum p) / (2 + 10 + 1 + n).
    const PassCost pass = line(10, 1);
    DraftCost draft;
    draft.observe(2);
    const DraftTree tree = tree_of({0.9, 0.8, 0.5, 0.3, 0.1, 0.05, 0.01});
    double best = 0, value = 1;
    std::uint32_t expected = 0;
    for (std::uint32_t n = 1; n <= tree.n; ++n) {
        value += std::exp(tree.log_probability[n - 1]);
        if (value / (13 + n) > best) best = value / (13 + n), expected = n;
    }
    BudgetPolicy policy;
    CHECK(policy.wants_draft());
    CHECK(policy.choose(tree, pass, draft, 0) == expected);
    CHECK(expected == 4);
}

TEST_CASE(
    "budget: acceptance below the drafter's word lowers the budget to nothing, with longer and "
    "longer pauses") {
    const PassCost pass = line(10, 1);
    DraftCost draft;
    draft.observe(2);
    const DraftTree tree = tree_of({0.9, 0.8, 0.7});
    BudgetPolicy policy;
    for (int i = 0; i < 60; ++i) policy.observe(tree, 0);
    int steps = 0, drafts = 0, longest = 0, since = 0;
    for (; steps < 1000; ++steps, ++since) {
        if (!policy.wants_draft()) continue;
        longest = std::max(longest, since);
        since = 0;
        ++drafts;
        CHECK(policy.choose(tree, pass, draft, 0) == 0);
    }
    CHECK(drafts < 25);  // 1 + 2 + 4 + ... + 64 + 64 ...
    CHECK(longest <= 65);
    // When drafts are accepted again, the next trial finds out.
    for (int i = 0; i < 100; ++i) policy.observe(tree, 3);
    while (!policy.wants_draft()) {
    }
    CHECK(policy.choose(tree, pass, draft, 0) == 3);
    CHECK(policy.wants_draft());
}

TEST_CASE(
    "budget: ahead of a tree, the last one stands for it; none is known at first or after a "
    "pause") {
    const PassCost pass = line(10, 1);
    DraftCost draft;
    draft.observe(2);
    DraftTree tree = tree_of({0.9, 0.8, 0.5, 0.3, 0.1, 0.05, 0.01});
    BudgetPolicy policy;
    CHECK(policy.choose_ahead(pass, draft, 0) == 8);
    policy.remember(tree, 2);  // the others have no probability
    CHECK(policy.choose_ahead(pass, draft, 0) == 2);
    policy.remember(tree, tree.n);
    CHECK(policy.choose_ahead(pass, draft, 0) == 4);
    for (int i = 0; i < 60; ++i) policy.observe(tree, 0);
    CHECK(policy.choose_ahead(pass, draft, 0) == 0);
    CHECK_FALSE(policy.wants_draft());
    CHECK(policy.wants_draft());
    CHECK(policy.choose_ahead(pass, draft, 0) == 8);
}
