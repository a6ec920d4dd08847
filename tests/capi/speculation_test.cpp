#include <cmath>
#include <cstring>
#include <numeric>

#include "capi/client.h"
#include "capi/goldens.h"

namespace {

using client::Reply;

Reply generate(kimi_engine *engine, const std::vector<int32_t> &prompt,
               const kimi_session_options &options) {
    const client::Session session = client::open(engine, options);
    client::append(session.get(), prompt);
    return client::finish(session.get());
}

std::vector<int32_t> cut(const std::vector<int32_t> &tokens, std::size_t n) {
    return {tokens.begin(),
            tokens.begin() + static_cast<std::ptrdiff_t>(std::min(n, tokens.size()))};
}

// A copy of the bundled deployment whose drafter files can be changed.
struct CustomDrafter {
    kimi::test::TempDir dir;
    CustomDrafter() {
        std::filesystem::create_directory(dir.file("drafter"));
        for (const char *name : {"config.json", "model.safetensors"})
            std::filesystem::copy_file(kimi::test::nano() + "/drafter/" + name,
                                       dir.file("drafter/") + name);
        dir.write("d.json",
                  "{\"checkpoint\": \"" KIMI_MODELS "/nano-k2\", \"drafter\": \"drafter\"}");
    }
    void replace_in_config(const std::string &from, const std::string &to) const {
        std::string text = kimi::read_file(dir.file("drafter/config.json"), 1 << 20);
        const std::size_t at = text.find(from);
        REQUIRE(at != std::string::npos);
        dir.write("drafter/config.json", text.replace(at, from.size(), to));
    }
    std::pair<kimi_status, std::string> load() const {
        kimi_engine_options options;
        kimi_engine_options_init(&options);
        const std::string path = dir.file("d.json");
        options.deployment = path.c_str();
        kimi_engine *engine = nullptr;
        client::ErrorRecord error;
        const kimi_status status = kimi_engine_create(&options, &engine, &error);
        kimi_engine_destroy(engine);
        return {status, error.message};
    }
};

}  // namespace

TEST_CASE("speculation: any budget, chain or tree, gives the greedy reply of the reference") {
    const client::Engine engine = client::load();
    kimi_session_options options = client::greedy();
    for (const auto &golden : kimi::test::golden_replies()) {
        CAPTURE(golden.name);
        for (const uint32_t mode : {KIMI_DRAFT_TREE, KIMI_DRAFT_CHAIN})
            for (const uint32_t budget : {0U, 1U, 7U, 16U, 63U, KIMI_AUTO}) {
                CAPTURE(mode);
                CAPTURE(budget);
                options.draft_mode = mode;
                options.draft_budget = budget;
                const Reply reply = generate(engine.get(), golden.prompt, options);
                CHECK(reply.tokens == golden.tokens);
                CHECK(reply.text + "<|im_end|>" == golden.reply);
                CHECK(reply.steps[0] == 1);
            }
    }
}

TEST_CASE("speculation: any budget gives the sampled text of plain decoding" *
          doctest::test_suite("slow")) {
    const client::Engine engine = client::load();
    const auto goldens = kimi::test::golden_replies();
    for (std::size_t i = 0; i < 6; ++i) {
        kimi_session_options options;
        kimi_session_options_init(&options);
        options.seed = 1000 + i;
        options.temperature = i % 2 == 0 ? 1.0f : 0.7f;
        options.top_k = i % 3 == 0 ? 20 : 0;
        options.min_p = i % 4 == 0 ? 0.05f : 0;
        options.max_tokens = 60;
        options.flags = i % 2 == 0 ? KIMI_IGNORE_STOP : 0;
        options.draft_budget = 0;
        const Reply plain = generate(engine.get(), goldens[i].prompt, options);
        for (const uint32_t mode : {KIMI_DRAFT_TREE, KIMI_DRAFT_CHAIN})
            for (const uint32_t budget : {1U, 7U, 16U, 63U, KIMI_AUTO}) {
                CAPTURE(i);
                CAPTURE(mode);
                CAPTURE(budget);
                options.draft_mode = mode;
                options.draft_budget = budget;
                const Reply reply = generate(engine.get(), goldens[i].prompt, options);
                CHECK(reply.tokens == plain.tokens);
                CHECK(reply.text == plain.text);
                CHECK(reply.finish == plain.finish);
            }
    }
}

TEST_CASE("speculation: committed tokens per step are the reference's" *
          doctest::test_suite("slow")) {
    const client::Engine engine = client::load();
    const kimi::Json goldens = kimi::test::read_json(kimi::test::data("nano-k2/generate.json"));
    const kimi::Json spec = kimi::test::read_json(kimi::test::data("nano-k2/spec.json"));
    const auto replies = kimi::test::golden_replies();
    for (const auto &[name, expected] : spec.find("mean_committed")->members) {
        kimi_session_options options = client::greedy();
        options.draft_mode = name == "chain" ? KIMI_DRAFT_CHAIN : KIMI_DRAFT_TREE;
        options.draft_budget = name == "chain" ? 7 : static_cast<uint32_t>(std::stoul(name));
        double sum = 0;
        std::size_t n_equal = 0;
        for (std::size_t i = 0; i < replies.size(); ++i) {
            const Reply reply = generate(engine.get(), replies[i].prompt, options);
            const std::vector<std::size_t> steps(reply.steps.begin() + 1, reply.steps.end());
            sum +=
                static_cast<double>(std::accumulate(steps.begin(), steps.end(), std::size_t{0})) /
                static_cast<double>(steps.size());
            std::vector<std::size_t> golden;
            for (const kimi::Json &n : goldens.items[i].find("steps")->find(name)->items)
                golden.push_back(static_cast<std::size_t>(n.real));
            n_equal += steps == golden;
        }
        const double mean = sum / static_cast<double>(replies.size());
        MESSAGE("budget ", name, ": ", mean, " committed per step, reference ", expected.real, "; ",
                n_equal, " of ", replies.size(), " replies step by step");
        CHECK(std::fabs(mean - expected.real) <= 0.03 * expected.real);
    }
}

TEST_CASE("speculation: windows shorter than the context do not change the text") {
    const client::Engine engine = client::load();
    std::vector<int32_t> prompt;
    for (const auto &golden : kimi::test::golden_replies()) {
        prompt.insert(prompt.end(), golden.prompt.begin(), golden.prompt.end());
        prompt.insert(prompt.end(), golden.tokens.begin(), golden.tokens.end());
    }
    REQUIRE(prompt.size() > 1000);  // the window is 256
    const auto last = kimi::test::golden_replies()[0].prompt;
    prompt.insert(prompt.end(), last.begin(), last.end());
    kimi_session_options options = client::greedy();
    options.max_tokens = 100;
    options.flags = KIMI_IGNORE_STOP;
    options.draft_budget = 0;
    const Reply plain = generate(engine.get(), prompt, options);
    options.draft_budget = 16;
    const Reply drafted = generate(engine.get(), prompt, options);
    CHECK(drafted.tokens == plain.tokens);
    CHECK(drafted.steps.size() < plain.steps.size());
}

TEST_CASE("speculation: max_tokens and the context limit cut a committed run exactly") {
    const kimi::test::TempDir dir;
    const auto golden = kimi::test::golden_replies()[0];
    const std::string limit = std::to_string(golden.prompt.size() + 17);
    const client::Engine engine = client::load(dir.write(
        "d.json", "{\"checkpoint\": \"" KIMI_MODELS "/nano-k2\", \"drafter\": \"" KIMI_MODELS
                  "/nano-k2/drafter\", \"context_limit\": " +
                      limit + "}"));
    kimi_session_options options = client::greedy();
    options.draft_budget = 63;
    for (uint32_t n = 1; n <= 20; ++n) {
        CAPTURE(n);
        options.max_tokens = n;
        const Reply reply = generate(engine.get(), golden.prompt, options);
        CHECK(reply.tokens == cut(golden.tokens, std::min(n, 17U)));
        CHECK(reply.finish == KIMI_FINISH_LENGTH);
    }
}

TEST_CASE("speculation: a reply goes on after a stop token inside a committed run") {
    const client::Engine engine = client::load();
    const auto goldens = kimi::test::golden_replies();
    const auto two_turns = [&](uint32_t budget) {
        kimi_session_options options = client::greedy();
        options.draft_budget = budget;
        const client::Session session = client::open(engine.get(), options);
        client::append(session.get(), goldens[1].prompt);
        Reply all = client::finish(session.get());
        client::append(session.get(), goldens[2].prompt);
        const Reply second = client::finish(session.get());
        all.tokens.insert(all.tokens.end(), second.tokens.begin(), second.tokens.end());
        return all.tokens;
    };
    const auto plain = two_turns(0);
    for (const uint32_t budget : {1U, 8U, 63U}) CHECK(two_turns(budget) == plain);
}

TEST_CASE(
    "speculation: sessions with different budgets share passes and do not disturb each other") {
    const client::Engine engine = client::load();
    const auto goldens = kimi::test::golden_replies();
    const uint32_t budgets[] = {0, 1, 7, 16, 63, KIMI_AUTO, 63, 63};
    std::vector<client::Session> sessions;
    std::vector<kimi_session *> batch;
    for (std::size_t i = 0; i < std::size(budgets); ++i) {
        kimi_session_options options = client::greedy();
        options.draft_budget = budgets[i];
        options.draft_mode = i % 2 == 0 ? KIMI_DRAFT_TREE : KIMI_DRAFT_CHAIN;
        sessions.push_back(client::open(engine.get(), options));
        batch.push_back(sessions.back().get());
        client::append(batch.back(), goldens[i].prompt);
    }
    std::vector<std::vector<int32_t>> tokens(batch.size());
    std::vector<kimi_step> steps(batch.size());
    for (std::size_t n_finished = 0; n_finished < batch.size();) {
        kimi_step_init(&steps[0]);
        REQUIRE(kimi_decode_batch(batch.data(), batch.size(), steps.data(), nullptr) == KIMI_OK);
        n_finished = 0;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            tokens[i].insert(tokens[i].end(), steps[i].tokens, steps[i].tokens + steps[i].n_tokens);
            n_finished += steps[i].finish_reason != KIMI_FINISH_NONE;
        }
    }
    for (std::size_t i = 0; i < batch.size(); ++i) CHECK(tokens[i] == goldens[i].tokens);
}

TEST_CASE("speculation: statistics add up") {
    const client::Engine engine = client::load();
    kimi_session_options options = client::greedy();
    options.draft_budget = 16;
    const client::Session session = client::open(engine.get(), options);
    const auto golden = kimi::test::golden_replies()[0];
    client::append(session.get(), golden.prompt);
    uint64_t nodes = 0, accepted = 0;
    for (;;) {
        const kimi_step s = client::step(session.get());
        nodes += s.draft_nodes;
        accepted += s.draft_accepted;
        if (s.draft_nodes > 0) CHECK(s.n_tokens <= s.draft_accepted + 1);
        if (s.finish_reason != KIMI_FINISH_NONE) break;
    }
    kimi_session_statistics stats;
    kimi_session_statistics_init(&stats);
    REQUIRE(kimi_session_stats(session.get(), &stats, nullptr) == KIMI_OK);
    CHECK(stats.drafted == nodes);
    CHECK(stats.accepted == accepted);
    CHECK(stats.committed + 1 == golden.tokens.size());  // the first token ends the prompt
    CHECK(std::accumulate(stats.accepted_at, stats.accepted_at + KIMI_MAX_DRAFT_DEPTH,
                          uint64_t{0}) == accepted);
    CHECK(stats.offered_at[0] == stats.steps);
    CHECK(stats.offered_at[7] == 0);  // a block of 8 proposes 7 tokens
    CHECK(stats.verify_seconds > 0);
    CHECK(stats.draft_seconds > 0);
}

TEST_CASE("speculation: a drafter for another model is refused by name") {
    struct Case {
        const char *from, *to, *text;
    };
    const Case cases[] = {
        {"\"hidden_size\": 256", "\"hidden_size\": 512",
         "hidden_size: is 512, the target's is 256"},
        {"\"vocab_size\": 4096", "\"vocab_size\": 4000",
         "vocab_size: is 4000, the target's is 4096"},
        {"\"num_target_layers\": 5", "\"num_target_layers\": 61",
         "num_target_layers: is 61, the target's is 5"},
        {"   3\n", "   7\n",
         "target_layer_ids: is [0, 2, 7], must be ascending layers from 0 to 4"},
        {"\"mask_token_id\": 4094", "\"mask_token_id\": 5000", "mask_token_id: is 5000"},
        {"DFlashDraftModel", "Qwen3ForCausalLM", "architectures: must be"},
        {"\"block_size\": 8", "\"block_size\": 1", "block_size: is 1"},
        {"\"full_attention\"", "\"linear_attention\"", "layer_types"},
    };
    for (const Case &c : cases) {
        CAPTURE(c.to);
        const CustomDrafter drafter;
        drafter.replace_in_config(c.from, c.to);
        const auto loaded = drafter.load();
        const std::string &text = loaded.second;
        CAPTURE(text);
        CHECK(loaded.first != KIMI_OK);
        CHECK(text.find(c.text) != std::string::npos);
        CHECK(text.find("drafter/config.json") != std::string::npos);
    }
    // Weights of other shapes than the config says.
    const CustomDrafter drafter;
    drafter.replace_in_config("\"intermediate_size\": 512", "\"intermediate_size\": 1024");
    CHECK(drafter.load().first == KIMI_CORRUPT);
}

TEST_CASE("speculation: a zeroed or poisoned drafter costs speed, never text") {
    for (const unsigned char fill : {0x00, 0xff}) {  // 0xffff is NaN
        CAPTURE(fill);
        const CustomDrafter drafter;
        std::string file = kimi::read_file(drafter.dir.file("drafter/model.safetensors"), 1 << 26);
        uint64_t header = 0;
        std::memcpy(&header, file.data(), sizeof header);
        std::fill(file.begin() + static_cast<std::ptrdiff_t>(8 + header), file.end(),
                  static_cast<char>(fill));
        drafter.dir.write("drafter/model.safetensors", file);
        const client::Engine engine = client::load(drafter.dir.file("d.json"));
        for (std::size_t i = 0; i < 4; ++i) {
            const auto golden = kimi::test::golden_replies()[i];
            kimi_session_options options = client::greedy();
            options.draft_budget = i % 2 == 0 ? 8 : KIMI_AUTO;
            CHECK(generate(engine.get(), golden.prompt, options).tokens == golden.tokens);
        }
    }
}
