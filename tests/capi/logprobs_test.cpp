// Log probabilities and usage that come with steps.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "capi/client.h"
#include "capi/goldens.h"
#include "engine/runner.h"
#include "model/harness.h"

namespace {

struct Row {
    int32_t token;
    std::vector<kimi_logprob> entries;
};

std::vector<Row> rows_of(kimi_session *session, uint32_t n) {
    std::vector<Row> rows;
    for (uint32_t finish = KIMI_FINISH_NONE; finish == KIMI_FINISH_NONE;) {
        const kimi_step step = client::step(session);
        REQUIRE(step.n_logprobs == step.n_tokens * (n + 1));
        for (std::size_t i = 0; i < step.n_tokens; ++i) {
            const kimi_logprob *entries = step.logprobs + i * (n + 1);
            rows.push_back({step.tokens[i], {entries, entries + n + 1}});
        }
        finish = step.finish_reason;
    }
    return rows;
}

kimi_session_statistics statistics(kimi_session *session) {
    kimi_session_statistics stats;
    kimi_session_statistics_init(&stats);
    REQUIRE(kimi_session_stats(session, &stats, nullptr) == KIMI_OK);
    return stats;
}

// What the definition says.
std::vector<kimi_logprob> naive(const std::vector<float> &logits, int32_t token, uint32_t n) {
    const double top = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - top);
    const auto entry = [&](int32_t id) {
        return kimi_logprob{
            id, static_cast<float>(logits[static_cast<std::size_t>(id)] - top - std::log(sum))};
    };
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
    });
    std::vector<kimi_logprob> out{entry(token)};
    for (uint32_t i = 0; i < n; ++i) out.push_back(entry(order[i]));
    return out;
}

}  // namespace

TEST_CASE("logprobs: they are the log-softmax of the model's logits") {
    const client::Engine engine = client::load();
    const auto golden = kimi::test::golden_replies()[0];
    kimi_session_options options = client::greedy();
    options.logprobs = 5;
    const client::Session session = client::open(engine.get(), options);
    client::append(session.get(), golden.prompt);
    const std::vector<Row> rows = rows_of(session.get(), 5);

    kimi::Runner runner(kimi::read_deployment(client::nano()), kimi::Progress());
    std::vector<std::uint32_t> pages(runner.kv().n_pages);
    std::iota(pages.begin(), pages.end(), 0U);
    std::vector<int32_t> tokens = golden.prompt;
    tokens.insert(tokens.end(), golden.tokens.begin(), golden.tokens.end() - 1);
    REQUIRE(tokens.size() <= runner.max_rows());
    const auto logits =
        kimi::test::Harness::run_on(runner, kimi::test::Harness::Rows::prompt(tokens, 0), pages,
                                    static_cast<std::uint32_t>(rows.size()));
    REQUIRE(rows.size() == golden.tokens.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        CAPTURE(i);
        CHECK(rows[i].token == golden.tokens[i]);
        const auto expected = naive(logits[i], rows[i].token, 5);
        for (std::size_t e = 0; e < expected.size(); ++e) {
            CHECK(rows[i].entries[e].token == expected[e].token);
            CHECK(rows[i].entries[e].logprob == doctest::Approx(expected[e].logprob).epsilon(1e-5));
        }
    }
}

TEST_CASE("logprobs: drafting, constraint, bias and temperature do not change them") {
    const client::Engine engine = client::load();
    const auto golden = kimi::test::golden_replies()[1];
    const auto reply = [&](uint32_t budget, uint32_t mode) {
        kimi_session_options options;
        kimi_session_options_init(&options);
        options.seed = 3;
        options.max_tokens = 30;
        options.logprobs = KIMI_MAX_LOGPROBS;
        options.draft_budget = budget;
        options.draft_mode = mode;
        const client::Session session = client::open(engine.get(), options);
        client::append(session.get(), golden.prompt);
        return rows_of(session.get(), KIMI_MAX_LOGPROBS);
    };
    const auto same = [](const std::vector<Row> &a, const std::vector<Row> &b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Row &x, const Row &y) {
            return x.token == y.token &&
                   std::equal(x.entries.begin(), x.entries.end(), y.entries.begin(),
                              [](const kimi_logprob &p, const kimi_logprob &q) {
                                  return p.token == q.token && p.logprob == q.logprob;
                              });
        });
    };
    const std::vector<Row> plain = reply(0, KIMI_DRAFT_TREE);
    CHECK(same(reply(16, KIMI_DRAFT_TREE), plain));
    CHECK(same(reply(8, KIMI_DRAFT_CHAIN), plain));
    CHECK(same(reply(KIMI_AUTO, KIMI_DRAFT_TREE), plain));

    // The first token has the same list, whatever is chosen from it.
    const auto first = [&](const std::vector<kimi_logit_bias> &biases, const std::string &regex) {
        kimi_session_options options = client::greedy();
        options.max_tokens = 1;
        options.logprobs = 3;
        const client::Session session = client::open(engine.get(), options);
        REQUIRE(kimi_session_set_logit_bias(session.get(), biases.data(), biases.size(), nullptr) ==
                KIMI_OK);
        if (!regex.empty())
            REQUIRE(kimi_session_set_constraint(session.get(), KIMI_CONSTRAINT_REGEX, regex.data(),
                                                regex.size(), nullptr) == KIMI_OK);
        client::append(session.get(), {300, 301, 302});
        return rows_of(session.get(), 3)[0];
    };
    const auto list = [](Row row) {
        row.entries.erase(row.entries.begin());
        return row;
    };
    const Row free = first({}, ""), biased = first({{free.token, -100}}, ""),
              held = first({}, "Q+");
    CHECK(biased.token == free.entries[2].token);
    CHECK(same({{0, list(biased).entries}, {0, list(held).entries}},
               {{0, list(free).entries}, {0, list(free).entries}}));
    CHECK(biased.entries[0].logprob == free.entries[2].logprob);
    CHECK(held.entries[0].token == held.token);
    CHECK(held.entries[0].logprob < free.entries[3].logprob);
}

TEST_CASE("logprobs: off by default, and at most KIMI_MAX_LOGPROBS") {
    const client::Engine engine = client::load();
    const client::Session session = client::open(engine.get());
    client::append(session.get(), {300});
    CHECK(client::step(session.get()).n_logprobs == 0);
    kimi_session_options options = client::greedy();
    options.logprobs = KIMI_MAX_LOGPROBS + 1;
    client::ErrorRecord error;
    CHECK(kimi_session_set_options(session.get(), &options, &error) == KIMI_INVALID_ARGUMENT);
    CHECK(std::string(error.message) == "options.logprobs is 21, must be from 0 to 20");
}

TEST_CASE("usage: prompts, what was reused of them, tokens and times") {
    const client::Engine engine = client::load();
    kimi_session_options options = client::greedy();
    options.flags = KIMI_IGNORE_STOP;
    options.max_tokens = 7;
    const client::Session session = client::open(engine.get(), options);
    client::append(session.get(), std::vector<int32_t>(100, 300));
    client::finish(session.get());
    kimi_session_statistics stats = statistics(session.get());
    CHECK(stats.replies == 1);
    CHECK(stats.prompt_tokens == 100);
    CHECK(stats.prompt_reused == 0);
    CHECK(stats.reply_tokens == 7);
    CHECK(stats.committed == 6);  // by decode steps
    CHECK(stats.first_token_seconds > 0);
    CHECK(stats.reply_seconds >= stats.first_token_seconds);
    CHECK(stats.decode_seconds >= stats.verify_seconds);
    CHECK(stats.prefill_seconds > 0);

    // The next turn processes what is new, and the reply's last token.
    client::append(session.get(), {301, 302});
    kimi_step step = client::step(session.get());
    CHECK(step.prompt_total == 109);
    CHECK(step.prompt_reused == 106);
    client::finish(session.get());
    stats = statistics(session.get());
    CHECK(stats.replies == 2);
    CHECK(stats.prompt_tokens == 103);
    CHECK(stats.prompt_reused == 106);
    CHECK(stats.reply_tokens == 14);

    // Another session finds the whole pages of the same beginning.
    const client::Session other = client::open(engine.get(), options);
    client::append(other.get(), std::vector<int32_t>(100, 300));
    CHECK(client::step(other.get()).prompt_reused == 64);
    client::finish(other.get());
    CHECK(statistics(other.get()).prompt_tokens == 36);

    kimi_engine_statistics all;
    kimi_engine_statistics_init(&all);
    REQUIRE(kimi_engine_stats(engine.get(), &all, nullptr) == KIMI_OK);
    CHECK(all.committed == 21);
    CHECK(all.prompt_rows == 103 + 36);
    CHECK(all.drafted >= all.accepted);
    CHECK(all.ranks == 1);
    CHECK(all.memory_bytes > all.pages * all.page_bytes);
}

TEST_CASE("usage: a deadline ends a reply with the step in which it passes, prompts included") {
    const client::Engine engine = client::load();
    kimi_session_options options = client::greedy();
    options.flags = KIMI_IGNORE_STOP;
    options.deadline_ms = 1;
    const client::Session session = client::open(engine.get(), options);
    const auto now = [] { return std::chrono::steady_clock::now(); };
    client::append(session.get(), std::vector<int32_t>(2000, 300));
    const auto start = now();
    while (client::step(session.get()).finish_reason == KIMI_FINISH_NONE)
        REQUIRE(now() - start < std::chrono::seconds(60));
    const kimi_step last = client::step(session.get());
    CHECK(last.finish_reason == KIMI_FINISH_DEADLINE);
    CHECK(last.phase == KIMI_PHASE_FINISHED);
    CHECK(last.prompt_done < last.prompt_total);  // 2000 tokens take far more than a millisecond

    // It starts anew with the next append, holds while decoding, and may be changed by a fork.
    options.deadline_ms = 150;
    REQUIRE(kimi_session_set_options(session.get(), &options, nullptr) == KIMI_OK);
    REQUIRE(kimi_session_truncate(session.get(), 0, nullptr) == KIMI_OK);
    client::append(session.get(), {300});
    const auto begin = now();
    kimi_step step = client::step(session.get());
    options.deadline_ms = 0;
    options.max_tokens = 5;
    kimi_session *copy = nullptr;
    REQUIRE(kimi_session_fork(session.get(), &options, &copy, nullptr) == KIMI_OK);
    const client::Session fork(copy);
    while (step.finish_reason == KIMI_FINISH_NONE) step = client::step(session.get());
    CHECK(step.finish_reason == KIMI_FINISH_DEADLINE);
    CHECK(now() - begin >= std::chrono::milliseconds(150));
    CHECK(step.prompt_done == step.prompt_total);
    CHECK(client::finish(fork.get()).finish == KIMI_FINISH_LENGTH);
}
