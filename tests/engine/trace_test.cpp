// What is recorded of every step, and its trace.
#include "engine/trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/sessions.h"
#include "model/harness.h"

using namespace kimi;
using test::plain_greedy;
using test::some_tokens;

namespace {

// A complete event.
struct TraceEvent {
    std::string name;
    double begin, duration;
    const Json *args;
    double arg(std::string_view key) const { return args->find(key)->real; }
};

// By rank and lane, in order of the file.
std::map<std::pair<int, int>, std::vector<TraceEvent>> events_of(const Json &trace) {
    std::map<std::pair<int, int>, std::vector<TraceEvent>> lanes;
    for (const Json &e : trace.find("traceEvents")->items) {
        if (e.find("ph")->text != "X") continue;
        const auto number = [&](const char *key) { return e.find(key)->real; };
        lanes[{number("pid"), number("tid")}].push_back(
            {e.find("name")->text, number("ts"), number("dur"), e.find("args")});
    }
    return lanes;
}

// The bytes that one decode row with `context` tokens reads, counted from the config: bf16 but for
// experts in int4 with a bf16 scale per 32.
struct NaiveBytes {
    double weights = 0, kv = 0;
};
NaiveBytes naive_bytes(double context) {
    const Json root = test::read_json(test::nano() + "/config.json");
    const Json &config = *root.find("text_config");
    const auto c = [&](const char *key) { return config.find(key)->real; };
    const double hidden = c("hidden_size"), heads = c("num_attention_heads");
    const double latent = c("kv_lora_rank"), rope = c("qk_rope_head_dim");
    const double nope = c("qk_nope_head_dim"), v = c("v_head_dim"), q_rank = c("q_lora_rank");
    const double layers = c("num_hidden_layers"), dense = c("first_k_dense_replace");
    const double attention = hidden * q_rank + q_rank * heads * (nope + rope) +
                             hidden * (latent + rope) + latent * heads * (nope + v) +
                             heads * v * hidden;
    const double expert = 3 * hidden * c("moe_intermediate_size");
    const double int4 = 0.5 + 2.0 / 32;
    NaiveBytes bytes;
    bytes.weights = 2 * hidden + 2 * hidden * c("vocab_size") + layers * 2 * attention +
                    dense * 2 * 3 * hidden * c("intermediate_size") +
                    (layers - dense) * (2 * hidden * c("n_routed_experts") + 2 * expert +
                                        c("num_experts_per_tok") * int4 * expert);
    bytes.kv = layers * 2 * (latent + rope) * context;
    return bytes;
}

std::shared_ptr<Engine> engine_without_drafter(const std::string &fields = "") {
    const test::TempDir dir;
    return std::make_shared<Engine>(
        dir.write("d.json", "{\"checkpoint\": \"" + test::nano() + "\"" + fields + "}"),
        Progress());
}

}  // namespace

TEST_CASE("trace: steps follow each other, and their parts lie in them and add up to them") {
    const auto engine = test::nano_engine();
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<Session *> batch;
    for (std::uint32_t i = 0; i < 6; ++i) {
        sessions.push_back(test::varied_session(engine, i));
        batch.push_back(sessions.back().get());
    }
    for (int i = 0; i < 10; ++i) engine->step(batch);
    const Json trace = parse_json(engine->trace(), "trace");
    const auto lanes = events_of(trace);
    REQUIRE(lanes.size() == 2);
    const std::vector<TraceEvent> &compute = lanes.at({0, 0}), &link = lanes.at({0, 1});
    REQUIRE(compute.size() == 4 * link.size());
    CHECK(link.size() == engine->stats().passes);

    constexpr double kRounding = 1e-3;  // us: times are whole nanoseconds
    double end = 0, prompt_rows = 0, decode_rows = 0;
    for (std::size_t i = 0; i < link.size(); ++i) {
        const TraceEvent *e = &compute[4 * i];
        const double step_end = e[0].begin + e[0].duration;
        CHECK(e[0].name == (e[0].arg("decode_rows") > 0 ? "decode" : "prefill"));
        CHECK(e[0].begin >= end);
        double at = e[0].begin;
        for (const TraceEvent *part : {e + 1, e + 2, e + 3, &link[i]}) {
            CHECK(std::fabs(part->begin - at) < kRounding);
            CHECK(part->duration >= 0);
            at = part->begin + part->duration;
        }
        CHECK(std::fabs(at - step_end) < kRounding);
        CHECK(e[1].name == "attention");
        CHECK(e[1].duration > 0);
        CHECK(e[2].name == "experts");
        CHECK(e[2].duration > 0);
        CHECK(e[3].name == "other");
        CHECK(link[i].name == "collectives");
        end = step_end;
        prompt_rows += e[0].arg("prompt_rows");
        decode_rows += e[0].arg("decode_rows");
    }
    CHECK(prompt_rows == engine->stats().prompt_rows);
    CHECK(decode_rows == engine->stats().decode_rows);
}

TEST_CASE("trace: bytes read by decode steps are what the config says, whatever the context") {
    const auto engine = engine_without_drafter();
    Session session(engine, plain_greedy(5));
    session.append(some_tokens(130, 3));
    test::finish(session);
    const Json trace = parse_json(engine->trace(), "trace");
    const std::vector<TraceEvent> compute = events_of(trace).at({0, 0});
    int n_decode = 0;
    for (const TraceEvent &e : compute) {
        if (e.name != "decode") continue;
        const NaiveBytes expected = naive_bytes(131 + n_decode++);
        CHECK(e.arg("weight_bytes") == expected.weights);
        CHECK(e.arg("kv_bytes") == expected.kv);
        CHECK(e.arg("experts_hit") == 4 * 4);  // of four layers
    }
    CHECK(n_decode == 4);
}

TEST_CASE("trace: sessions of a pass read the weights once, and each its own KV") {
    const auto engine = engine_without_drafter(R"(, "kv": {"type": "bf16"})");
    Session a(engine, plain_greedy(3)), b(engine, plain_greedy(3));
    a.append(some_tokens(20, 1));
    b.append(some_tokens(90, 1));
    test::finish_prompt(a);
    test::finish_prompt(b);
    Session *batch[] = {&a, &b};
    engine->step(batch);
    const Json trace = parse_json(engine->trace(), "trace");
    const std::vector<TraceEvent> compute = events_of(trace).at({0, 0});
    const TraceEvent &last = compute[compute.size() - 4];
    const NaiveBytes one = naive_bytes(21), two = naive_bytes(91);
    CHECK(last.arg("decode_rows") == 2);
    CHECK(last.arg("kv_bytes") == one.kv + two.kv);
    // Only experts and rows of the embedding can be more than for one.
    const double expert = 3 * 256 * 256 * (0.5 + 2.0 / 32);
    CHECK(last.arg("weight_bytes") ==
          one.weights + 2 * 256 + (last.arg("experts_hit") - 16) * expert);
}

TEST_CASE("trace: experts hit are the distinct ones that the rows choose") {
    test::Harness harness;
    const ModelConfig &c = harness.config;
    const MoeWeights &moe = *harness.weights.layers[2].moe;
    const Buffer logits = harness.device->alloc(40, c.n_experts);
    const Buffer x = harness.device->alloc(40, c.hidden), y = harness.device->alloc(40, c.hidden);
    std::uint32_t seed = 1;
    for (std::uint32_t i = 0; i < 40 * c.n_experts; ++i) {
        seed = seed * 1664525 + 1013904223;
        logits.data[i] = static_cast<float>(seed >> 8) / (1 << 23) - 1;
    }
    for (const std::uint32_t n : {1U, 2U, 3U, 40U}) {
        CAPTURE(n);
        std::set<std::uint32_t> hit;
        for (std::uint32_t r = 0; r < n; ++r) {
            std::vector<std::pair<double, std::uint32_t>> scores;
            for (std::uint32_t e = 0; e < c.n_experts; ++e)
                scores.emplace_back(
                    -(1 / (1 + std::exp(-double{logits.row(r)[e]})) + double{moe.bias[e]}), e);
            std::sort(scores.begin(), scores.end());
            for (std::uint32_t i = 0; i < c.top_k; ++i) hit.insert(scores[i].second);
        }
        StepRecorder &recorder = harness.device->recorder();
        recorder.begin();
        const std::vector<std::uint32_t> positions(n);
        harness.device->begin(DraftPlan{{}, positions, {}, {}});
        harness.device->experts({c.n_experts, c.top_k, true, 1}, logits, moe.bias.get(),
                                moe.experts, x, y);
        CHECK(recorder.step().experts_hit == hit.size());
        CHECK(recorder.step().weight_bytes == hit.size() * 3 * 256 * 256 * 9 / 16);
    }
}

TEST_CASE("trace: the recorder keeps the last steps in order") {
    StepRecorder recorder;
    const std::size_t n = StepRecorder::kSteps + 10;
    for (std::uint32_t i = 0; i < n; ++i) {
        recorder.begin();
        recorder.step().kv_bytes = 7;
        recorder.end(i, 1);
        if (i == 2) CHECK(recorder.steps().size() == 3);
    }
    const auto steps = recorder.steps();
    REQUIRE(steps.size() == StepRecorder::kSteps);
    for (std::size_t i = 0; i < steps.size(); ++i) CHECK(steps[i].prompt_rows == i + 10);
    recorder.begin();
    CHECK(recorder.step().kv_bytes == 0);
}

TEST_CASE("trace: readings of a GPU are counters of its rank, without what is not known") {
    StepRecord step;
    step.begin = 5'000'000, step.end = 7'000'000;
    StepRecord read = step;
    read.gpu = GpuReading{6'500'250, 93, 40, {}, 7'000'000'000};
    const std::vector<std::vector<StepRecord>> ranks = {{step}, {read}};
    const Json trace = parse_json(trace_json(ranks, 0), "trace");
    std::vector<const Json *> counters;
    for (const Json &e : trace.find("traceEvents")->items)
        if (e.find("ph")->text == "C") counters.push_back(&e);
    REQUIRE(counters.size() == 2);
    const Json &busy = *counters[0], &pcie = *counters[1];
    CHECK(busy.find("pid")->real == 1);
    CHECK(busy.find("ts")->real == 1500.25);
    CHECK(busy.find("name")->text == "busy (%)");
    CHECK(busy.find("args")->find("gpu")->real == 93);
    CHECK(busy.find("args")->find("memory")->real == 40);
    CHECK(pcie.find("name")->text == "PCIe (bytes/s)");
    CHECK(pcie.find("args")->find("received")->real == 7e9);
    CHECK(pcie.find("args")->find("sent") == nullptr);
}

TEST_CASE("trace: the share of the link is the larger direction over what the link carries") {
    StepRecord step;
    step.begin = 5'000'000;
    step.end = 5'002'500;  // 2500 ns: 125 kB at 50 GB/s
    step.attention = 1000;
    step.experts = 400;
    step.collectives = 600;
    step.decode_rows = 1;
    step.sent_bytes = 25'000;
    step.received_bytes = 50'000;
    StepRecord late = step;
    late.begin += 1'000'001, late.end += 1'000'001;
    const std::vector<std::vector<StepRecord>> ranks = {{step}, {late}};
    const Json trace = parse_json(trace_json(ranks, 50), "trace");
    const auto lanes = events_of(trace);
    const TraceEvent link = lanes.at({0, 1})[0], other = lanes.at({0, 0})[3];
    CHECK(link.arg("link_share") == doctest::Approx(0.4));
    CHECK(link.arg("sent_bytes") == 25'000);
    CHECK(link.begin == doctest::Approx(1.9));
    CHECK(link.duration == doctest::Approx(0.6));
    CHECK(other.duration == doctest::Approx(0.5));
    CHECK(lanes.at({1, 0})[0].begin == doctest::Approx(1000.001));

    const Json unknown = parse_json(trace_json(ranks, 0), "trace");
    CHECK(events_of(unknown).at({0, 1})[0].args->find("link_share") == nullptr);
}
