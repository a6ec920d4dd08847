#include "engine/prompt_budget.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace kimi;

namespace {

// Passes of a machine with known costs and interruptions, driven by a budget.
struct Machine {
    double alone, row;  // seconds
    double jitter = 0.2;
    PromptBudget budget{};
    std::uint32_t seed = 1;
    double seconds = 0;
    std::uint64_t passes = 0, rows = 0;

    double noise() {  // from -1 to 1
        seed = seed * 1664525 + 1013904223;
        return static_cast<double>(seed >> 8) / (1 << 23) - 1;
    }
    void pass(std::uint32_t n_decoding = 1) {
        const std::uint32_t p = budget.rows(n_decoding);
        const double took = (alone + p * row) * (1 + jitter * noise());
        budget.observe(n_decoding, p, took);
        seconds += took;
        rows += p;
        ++passes;
    }
    // Mean time of n passes over the time without prompts.
    double mean_over_alone(int n) {
        seconds = 0;
        passes = rows = 0;
        for (int i = 0; i < n; ++i) pass();
        return seconds / static_cast<double>(passes) / alone;
    }
};

}  // namespace

TEST_CASE("prompt budget: the mean pass is longer by the share, and prompts use most of it") {
    // A row costs from a thousandth of a pass to a hundred passes.
    for (const double row : {1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 1e-2, 1e-1}) {
        CAPTURE(row);
        Machine machine{1e-3, row};
        machine.mean_over_alone(300);
        const double mean = machine.mean_over_alone(6000);
        CHECK(mean <= 1.05 + PromptBudget::kShare);
        CHECK(static_cast<double>(machine.rows) * row >= 0.3 * 1e-3 * 6000);
    }
}

TEST_CASE("prompt budget: single passes stay within twice the time where rows are cheap") {
    Machine machine{1e-3, 2e-5, 0.1};
    machine.mean_over_alone(100);
    for (int i = 0; i < 2000; ++i) {
        machine.seconds = 0;
        machine.pass();
        CHECK(machine.seconds < 2e-3);
    }
}

TEST_CASE("prompt budget: it follows rows that become dearer as the prompt grows") {
    Machine machine{1e-3, 1e-5};
    machine.mean_over_alone(100);
    for (int i = 0; i < 40; ++i) {
        machine.row *= 1.2;  // up to 1000 times
        CHECK(machine.mean_over_alone(200) <= 1.2 + PromptBudget::kShare);
    }
}

TEST_CASE("prompt budget: it follows the number of sessions that decode") {
    Machine machine{1e-3, 5e-5};
    machine.mean_over_alone(100);
    for (int turn = 0; turn < 4; ++turn)
        for (const std::uint32_t n : {16U, 1U}) {
            machine.alone = 1e-3 * n;
            for (int i = 0; i < 20; ++i) machine.pass(n);
            machine.seconds = 0;
            machine.rows = 0;
            for (int i = 0; i < 100; ++i) machine.pass(n);
            CHECK(machine.seconds <= 100 * machine.alone * (1.1 + PromptBudget::kShare));
            CHECK(machine.rows > 0);
        }
}

TEST_CASE("prompt budget: an interrupted pass does not stop prompts") {
    Machine machine{1e-3, 5e-5};
    machine.mean_over_alone(100);
    std::uint32_t p = 0;
    while ((p = machine.budget.rows(1)) == 0) machine.pass();
    machine.budget.observe(1, p, 10.0);  // ten thousand times as long
    machine.rows = 0;
    for (int i = 0; i < 60; ++i) machine.pass();
    CHECK(machine.rows > 60);
}

TEST_CASE("prompt budget: an interrupted first measurement is forgotten at once") {
    Machine machine{1e-3, 5e-5};
    machine.budget.observe(1, 0, 1.0);
    for (int i = 0; i < 50; ++i) {
        machine.seconds = 0;
        machine.pass();
        CHECK(machine.seconds < 3e-3);
    }
}

TEST_CASE("prompt budget: passes that delayed others are paid for") {
    Machine machine{1e-3, 1e-4};
    machine.mean_over_alone(100);
    machine.budget.observe_delay(2e-3);
    // Four passes earn it.
    for (int i = 0; i < 3; ++i) {
        CHECK(machine.budget.rows(1) == 0);
        machine.pass();
    }
}
