// Engines of several ranks against the goldens and against one rank.
#include <algorithm>

#include "capi/goldens.h"
#include "engine/ranks.h"
#include "engine/session_file.h"
#include "engine/sessions.h"
#include "model/goldens.h"

using namespace kimi;
using test::GoldenReply;
using test::Goldens;
using test::Harness;
using test::RankedSequence;

namespace {

SessionOptions options(float temperature, std::uint32_t draft_budget) {
    SessionOptions options;
    options.sampling.temperature = temperature;
    options.sampling.seed = 7;
    options.draft_budget = draft_budget;
    options.max_tokens = 60;
    return options;
}

using Sessions = std::vector<std::unique_ptr<Session>>;
using Replies = std::vector<std::vector<std::int32_t>>;

// Steps all sessions together until each has at least n_tokens of its reply, or its end.
Replies step(const Sessions &sessions, std::size_t n_tokens = SIZE_MAX) {
    Replies out(sessions.size());
    for (std::vector<Session *> batch;; batch.clear()) {
        for (std::size_t i = 0; i < sessions.size(); ++i)
            if (sessions[i]->result().finish_reason == KIMI_FINISH_NONE && out[i].size() < n_tokens)
                batch.push_back(sessions[i].get());
        if (batch.empty()) return out;
        batch[0]->engine().step(batch);
        for (std::size_t i = 0; i < sessions.size(); ++i) {
            REQUIRE(sessions[i]->result().status == KIMI_OK);
            if (std::find(batch.begin(), batch.end(), sessions[i].get()) == batch.end()) continue;
            const auto tokens = sessions[i]->committed();
            out[i].insert(out[i].end(), tokens.begin(), tokens.end());
        }
    }
}

// Continues all of them with other options.
Replies step_forks(const Sessions &sessions, const SessionOptions &o) {
    Sessions forks;
    for (const auto &session : sessions) forks.push_back(session->fork(o));
    return step(forks);
}

std::vector<std::int32_t> long_prompt(std::size_t n) {
    std::vector<std::int32_t> out;
    for (const GoldenReply &golden : test::golden_replies())
        out.insert(out.end(), golden.prompt.begin(), golden.prompt.end());
    out.resize(n);
    return out;
}

Sessions open_sessions(const std::shared_ptr<Engine> &engine, const Replies &prompts,
                       const SessionOptions &o) {
    Sessions out;
    for (const auto &prompt : prompts) {
        out.push_back(std::make_unique<Session>(engine, o));
        out.back()->append(prompt);
    }
    return out;
}

}  // namespace

TEST_CASE("ranks: any placement gives the goldens' tokens, and with drafts those without") {
    std::vector<GoldenReply> goldens = test::golden_replies();
    if (test::kInstrumented) goldens.resize(7);
    Replies prompts;
    for (const GoldenReply &golden : goldens) prompts.push_back(golden.prompt);
    for (const char *fields : test::kPlacements) {
        CAPTURE(fields);
        const auto engine = test::open_engine(fields);
        const Sessions sessions = open_sessions(engine, prompts, options(0, 12));
        const Replies first = step(sessions, 1);
        SessionOptions plain = options(1.3f, 0), drafted = options(1.3f, 12);
        plain.max_tokens = drafted.max_tokens = 10;
        CHECK(step_forks(sessions, plain) == step_forks(sessions, drafted));
        const Replies rest = step(sessions);
        std::uint64_t n_accepted = 0;
        for (std::size_t i = 0; i < goldens.size(); ++i) {
            CAPTURE(goldens[i].name);
            std::vector<std::int32_t> got = first[i];
            got.insert(got.end(), rest[i].begin(), rest[i].end());
            CHECK(got == goldens[i].tokens);
            n_accepted += sessions[i]->stats().accepted;
        }
        CHECK(n_accepted > 50);
    }
}

TEST_CASE("ranks: the logits are the reference's within the tolerance of one rank") {
    const Goldens goldens;
    for (const char *fields : test::kPlacements) {
        CAPTURE(fields);
        RankedSequence ranked(fields);
        for (const Json &prompt : goldens.prompts()) {
            const std::string &name = prompt.find("name")->text;
            CAPTURE(name);
            const std::vector<std::int32_t> ids = test::ints(*prompt.find("ids"));
            if (ids.size() > (fields == std::end(test::kPlacements)[-1] ? 700 : 320)) continue;
            test::check_close(ranked.prompt(ids), goldens.tensor(name + ".last_logits"),
                              Goldens::tolerance(prompt, KvType::f32, "last_logits"));
        }
    }
}

TEST_CASE(
    "ranks: around every border of pages and shards, context attention sees what one rank sees") {
    // From 1 on, seven of eight shards are empty, then six, ...; at 64 and 128 pages begin.
    RankedSequence one(R"("ranks": 1)");
    for (const char *fields : {R"("ranks": 2, "placement": {"attention": "context"})",
                               R"("ranks": 8, "placement": {"attention": "context"})"}) {
        CAPTURE(fields);
        RankedSequence ranked(fields);
        const std::uint32_t shard = kPageTokens / ranked.runner.n_ranks();
        const std::vector<std::int32_t> tokens = long_prompt(2 * kPageTokens + 2);
        for (std::uint32_t i = 0; i < tokens.size(); ++i) {
            const Harness::Rows row = Harness::Rows::prompt({&tokens[i], 1}, i);
            const auto got = ranked.run(row), expected = one.run(row);
            if (i % shard > 1 && i % shard < shard - 1) continue;
            CAPTURE(i);
            test::check_close(got[0], expected[0], 1e-3);
        }
    }
}

TEST_CASE("ranks: under context attention a tree row has the bits of its path token by token") {
    const std::int32_t node_token[] = {7, 11, 12, 21, 22, 111, 112, 31, 41, 1111};
    const std::uint32_t parent[] = {0, 0, 0, 1, 2, 3, 3, 4, 7, 5};  // of node i, before it
    RankedSequence ranked(R"("ranks": 8, "placement": {"attention": "context"})");
    for (const std::uint32_t prefix : {1U, 6U, 8U, 61U, 64U, 123U}) {
        CAPTURE(prefix);
        ranked.prompt(long_prompt(prefix));
        Harness::Rows tree;
        std::vector<std::vector<std::int32_t>> path;
        for (std::uint32_t i = 0; i < std::size(node_token); ++i) {
            path.push_back(i == 0 ? std::vector<std::int32_t>{} : path[parent[i]]);
            path[i].push_back(node_token[i]);
            tree.add(node_token[i], prefix + static_cast<std::uint32_t>(path[i].size()) - 1,
                     prefix + i, prefix,
                     (i == 0 ? 0 : tree.word[parent[i]]) | std::uint64_t{1} << i);
        }
        const auto got = ranked.run(tree, static_cast<std::uint32_t>(tree.token.size()));
        for (std::uint32_t i = 0; i < path.size(); ++i) {
            CAPTURE(i);
            std::vector<float> expected;
            for (std::uint32_t j = 0; j < path[i].size(); ++j)
                expected = ranked.run(Harness::Rows::prompt({&path[i][j], 1}, prefix + j))[0];
            CHECK(got[i] == expected);
        }
    }
}

TEST_CASE("ranks: a saved session is the same bytes on any ranks, and goes on there") {
    const std::vector<std::int32_t> prompt = test::golden_replies()[8].prompt;
    REQUIRE(prompt.size() == 315);  // four pages, and 29 tokens to come
    std::vector<std::byte> bytes;
    std::vector<std::int32_t> expected;
    for (const char *kv : {R"("kv": {"type": "bf16"}, )", R"("kv": {"type": "fp8"}, )"}) {
        bytes.clear();
        for (const char *fields : {R"("ranks": 1)", test::kPlacements[1], test::kPlacements[2]}) {
            CAPTURE(fields);
            const auto engine = test::open_engine(std::string(kv) + fields);
            if (bytes.empty()) {
                const Sessions sessions = open_sessions(engine, {prompt}, options(0, 12));
                step(sessions, 3);
                bytes = test::save(*sessions[0]);
                expected = step(sessions)[0];
                CHECK(expected.size() > 10);
            }
            Sessions restored;
            restored.push_back(restore_session(engine, bytes, false));
            CHECK(test::save(*restored[0]) == bytes);
            CHECK(step(restored)[0] == expected);
        }
    }
}

TEST_CASE("ranks: truncated, shared and moved pages hold what they held") {
    const std::vector<std::int32_t> prompt = long_prompt(200);
    for (const char *fields : {test::kPlacements[1], test::kPlacements[2]}) {
        CAPTURE(fields);
        const auto engine = test::open_engine(fields);
        SessionOptions sampled = options(1, 12);
        sampled.ignore_stop = true;
        const Sessions first = open_sessions(engine, {prompt}, sampled);
        const std::vector<std::int32_t> expected = step(first)[0];
        // Shared as a cached prefix.
        const std::uint64_t hits = engine->kv()->stats().hits;
        CHECK(step(open_sessions(engine, {prompt}, sampled))[0] == expected);
        CHECK(engine->kv()->stats().hits == hits + 1);
        // Cut inside the prompt and continued; the pages of two growing sequences alternate.
        const Sessions two = open_sessions(engine, {prompt, long_prompt(70)}, sampled);
        step(two, 4);
        first[0]->truncate(150);
        first[0]->append(std::span(prompt).subspan(150));
        CHECK(step(first)[0] == expected);
        engine->kv()->defragment(1e9);
        two[0]->truncate(190);
        two[0]->append(std::span(prompt).subspan(190));
        CHECK(step(two)[0] == expected);
        engine->kv()->check();
    }
}

TEST_CASE("ranks: what does not divide is refused with the field's name") {
    const auto refused = [](const std::string &fields) {
        return test::error_of([&] { test::open_engine(fields); });
    };
    Error error = refused(R"("ranks": 16)");
    CHECK(error.status == KIMI_INVALID_ARGUMENT);
    CHECK(test::contains(error.text, "field ranks: is 16, must divide"));
    error = refused(R"("ranks": 6, "placement": {"experts": "groups", "expert_groups": 2})");
    CHECK(test::contains(error.text, "field ranks: is 6"));
    error = refused(R"("ranks": 8, "placement": {"experts": "expert",
        "expert_counts": "counts.json", "expert_replicas": 3})");
    CHECK(test::contains(error.text, "field placement.expert_groups: is 8"));
}
