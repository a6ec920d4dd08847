#include "deploy/deployment.h"

#include <cstdlib>

#include "check.h"

using namespace kimi;

namespace {

Deployment read(const test::TempDir &dir, std::string_view json) {
    return read_deployment(dir.write("d.json", json));
}

}  // namespace

TEST_CASE("deployment: fields, defaults and paths relative to the file") {
    const test::TempDir dir;
    const Deployment d =
        read(dir, R"({"checkpoint": "model", "drafter": "/abs/drafter", "threads": 3,
        "backend": "cuda", "kv": {"type": "f32", "capacity_tokens": 5000000000},
        "speculation": {"max_nodes": 7}, "numeric": {"qk_latent_norm_eps": 1e-6}})");
    CHECK(d.checkpoint == dir.file("model"));
    CHECK(d.drafter == "/abs/drafter");
    CHECK(d.threads == 3);
    CHECK(d.backend == Deployment::Backend::cuda);
    CHECK(d.kv_type == Deployment::KvType::f32);
    CHECK(d.kv_capacity_tokens == 5000000000U);
    CHECK(d.max_nodes == 7);
    CHECK(d.qk_latent_norm_eps == 1e-6f);
    CHECK(!d.rope_attention_factor);
    CHECK(d.prefill_chunk == 256);
}

TEST_CASE("deployment: ranks and placement") {
    const test::TempDir dir;
    const Deployment d = read(dir, R"({"checkpoint": "m", "ranks": 8, "kv": {"type": "fp8"},
        "link_gb_per_s": 55.5, "cuda_library": "lib/c.so", "placement": {"attention": "context", "experts": "groups", "expert_groups": 2,
        "q_a": "split", "router": "split", "expert_replicas": 8, "expert_counts": "c.json"}})");
    CHECK(d.ranks == 8);
    CHECK(d.link_gb_per_s == 55.5f);
    CHECK(d.cuda_library == dir.file("lib/c.so"));
    CHECK(d.kv_type == Deployment::KvType::fp8);
    CHECK(d.placement.attention == Deployment::Attention::context);
    CHECK(d.placement.experts == Deployment::Experts::groups);
    CHECK(d.placement.expert_groups == 2);
    CHECK(d.placement.split_q_a);
    CHECK(!d.placement.split_kv_a);
    CHECK(d.placement.split_router);
    CHECK(d.placement.expert_replicas == 8);
    CHECK(d.placement.expert_counts == dir.file("c.json"));
    CHECK(read(dir, R"({"checkpoint": "m"})").ranks == 1);
    CHECK(!read(dir, R"({"checkpoint": "m"})").link_gb_per_s);
    CHECK(read(dir, R"({"checkpoint": "m"})").cuda_library.empty());
}

TEST_CASE("deployment: sizes of graphs") {
    const test::TempDir dir;
    const auto graphs = [&](const char *fields) {
        return read(dir, cat(R"({"checkpoint": "m", )", fields, "}"));
    };
    const Deployment d = graphs(R"("graphs": {"widths": [1, 9, 64], "sessions": [1, 3]})");
    CHECK(d.graph_widths == std::vector<std::uint32_t>{1, 9, 64});
    CHECK(d.graph_sessions == std::vector<std::uint32_t>{1, 3});
    CHECK(graphs(R"("graphs": {})").graph_widths.back() == 64);
    CHECK(graphs(R"("graphs": {"eager": true})").graph_widths.empty());
    CHECK(d.graph_memory_mib == 4096);
    CHECK(graphs(R"("graphs": {"memory_mib": 3})").graph_bytes() == 3 << 20);
    CHECK(graphs(R"("graphs": {"memory_mib": 3, "eager": true})").graph_bytes() == 0);
    CHECK(graphs(R"("speculation": {"max_nodes": 7}, "graphs": {"widths": [8]})").graph_widths ==
          std::vector<std::uint32_t>{8});
    const std::pair<const char *, const char *> wrong[] = {
        {R"("graphs": {"widths": [1, 32]})",
         "field graphs.widths: ends at 32, must reach 64: speculation.max_nodes and the root"},
        {R"("graphs": {"widths": [8, 8, 64]})", "field graphs.widths: is 8, must be from 9 to 64"},
        {R"("graphs": {"sessions": [65]})", "field graphs.sessions: is 65, must be from 1 to 64"},
        {R"("graphs": {"sessions": [-1]})", "field graphs.sessions: is -1, must be an integer"},
        {R"("graphs": {"memory_mib": 0})",
         "field graphs.memory_mib: is 0, must be from 1 to 1048576"},
        {R"("graphs": {"sessions": 4})", "field graphs.sessions: is 4, must be an array"},
    };
    for (const auto &[fields, text] : wrong) {
        const Error error = test::error_of([&, f = fields] { graphs(f); });
        CHECK(error.status == KIMI_INVALID_ARGUMENT);
        CAPTURE(error.text);
        CHECK(error.text.find(text) != std::string::npos);
    }
}

TEST_CASE("deployment: a checkpoint folder alone") {
    const test::TempDir dir;
    const Deployment d = read_deployment(dir.path());
    CHECK(d.checkpoint == dir.path());
    CHECK(d.drafter.empty());
    CHECK(d.backend == Deployment::Backend::cpu);
}

TEST_CASE("deployment: flatc's binary means the same as its JSON") {
    const test::TempDir dir;
    const std::string json =
        dir.write("d.json", R"({"checkpoint": "m", "threads": 2, "kv": {"type": "f32"}})");
    const std::string schema = test::source("src/deploy/deployment.fbs");
    const std::string command = "flatc -b -o '" + dir.path() + "' '" + schema + "' '" + json + "'";
    REQUIRE(std::system(command.c_str()) == 0);
    const Deployment d = read_deployment(dir.file("d.kimd"));
    CHECK(d.checkpoint == dir.file("m"));
    CHECK(d.threads == 2);
    CHECK(d.kv_type == Deployment::KvType::f32);

    const std::string binary = read_file(dir.file("d.kimd"), 1 << 20);
    // The last two bytes are padding.
    for (std::size_t n = 8; n < binary.size() - 2; ++n) {
        CAPTURE(n);
        CHECK(test::error_of([&] {
                  read_deployment(dir.write("cut.kimd", binary.substr(0, n)));
              }).status == KIMI_CORRUPT);
    }
}

TEST_CASE("deployment: what is wrong is named") {
    const test::TempDir dir;
    struct Case {
        const char *json;
        kimi_status status;
        const char *text;
    };
    const Case cases[] = {
        {"{}", KIMI_INVALID_ARGUMENT, "field checkpoint: is missing"},
        {R"({"checkpoint": ""})", KIMI_INVALID_ARGUMENT, "field checkpoint: is empty"},
        {R"({"checkpoint": "m", "thread": 1})", KIMI_INVALID_ARGUMENT, "field thread: is unknown"},
        {R"({"checkpoint": "m", "kv": {"pages": 1}})", KIMI_INVALID_ARGUMENT,
         "field kv.pages: is unknown"},
        {R"({"checkpoint": 7})", KIMI_INVALID_ARGUMENT, "field checkpoint: is 7, must be a string"},
        {R"({"checkpoint": "m", "threads": "2"})", KIMI_INVALID_ARGUMENT,
         "field threads: is \"2\", must be an integer from 0 to 4294967295"},
        {R"({"checkpoint": "m", "threads": -1})", KIMI_INVALID_ARGUMENT, "field threads: is -1"},
        {R"({"checkpoint": "m", "threads": 2.5})", KIMI_INVALID_ARGUMENT, "field threads: is 2.5"},
        {R"({"checkpoint": "m", "threads": 99999999999})", KIMI_INVALID_ARGUMENT,
         "field threads: is 99999999999"},
        {R"({"checkpoint": "m", "threads": 5000})", KIMI_INVALID_ARGUMENT,
         "field threads: is 5000, must be from 0 to 1024"},
        {R"({"checkpoint": "m", "backend": "tpu"})", KIMI_INVALID_ARGUMENT,
         "field backend: is \"tpu\", must be one of \"cpu\", \"cuda\""},
        {R"({"checkpoint": "m", "kv": {"page_tokens": 16}})", KIMI_INVALID_ARGUMENT,
         "field kv.page_tokens: is 16, must be from 64 to 64"},
        {R"({"checkpoint": "m", "speculation": {"max_nodes": 64}})", KIMI_INVALID_ARGUMENT,
         "field speculation.max_nodes: is 64"},
        {R"({"checkpoint": "m", "numeric": {"qk_latent_norm_eps": -1}})", KIMI_INVALID_ARGUMENT,
         "field numeric.qk_latent_norm_eps: is -1"},
        {R"({"checkpoint": "m", "link_gb_per_s": 0})", KIMI_INVALID_ARGUMENT,
         "field link_gb_per_s: is 0, must be from 0.001 to 10000"},
        {R"({"checkpoint": "m", "ranks": 65})", KIMI_INVALID_ARGUMENT,
         "field ranks: is 65, must be from 1 to 64"},
        {R"({"checkpoint": "m", "kv": {"type": "fp4"}})", KIMI_INVALID_ARGUMENT,
         "field kv.type: is \"fp4\", must be one of \"bf16\", \"f32\", \"fp8\""},
        {R"({"checkpoint": "m", "placement": {"attention": "expert"}})", KIMI_INVALID_ARGUMENT,
         "field placement.attention: is \"expert\", must be one of \"tensor\", \"context\""},
        {R"({"checkpoint": "m", "ranks": 8, "placement": {"experts": "groups"}})",
         KIMI_INVALID_ARGUMENT, "field placement.expert_groups: is 0, must be from 1 to 8"},
        {R"({"checkpoint": "m", "ranks": 8, "placement": {"experts": "groups",
            "expert_groups": 3}})",
         KIMI_INVALID_ARGUMENT, "field placement.expert_groups: is 3, must divide ranks, 8"},
        {R"({"checkpoint": "m", "ranks": 8, "placement": {"expert_groups": 2}})",
         KIMI_INVALID_ARGUMENT,
         "field placement.expert_groups: is 2, must be 0 unless placement.experts is \"groups\""},
        {R"({"checkpoint": "m", "ranks": 8, "placement": {"experts": "expert",
            "expert_replicas": 8}})",
         KIMI_INVALID_ARGUMENT,
         "field placement.expert_replicas: is 8, needs placement.expert_counts"},
        {R"({"checkpoint": "m", "ranks": 8, "placement": {"expert_replicas": 8,
            "expert_counts": "c"}})",
         KIMI_INVALID_ARGUMENT, "field placement.expert_replicas: is 8, must be 0 where"},
        {R"({"checkpoint": "m", "kv": []})", KIMI_INVALID_ARGUMENT,
         "field kv must be an object, is an array"},
        {R"({"checkpoint": "m",})", KIMI_INVALID_ARGUMENT, "invalid JSON at byte"},
        {"[]", KIMI_INVALID_ARGUMENT, "the deployment must be an object, is an array"},
        {"", KIMI_INVALID_ARGUMENT, "invalid JSON"},
        {"\x08\0\0\0KIMDxxxxxxxxxxxxxxxx", KIMI_INVALID_ARGUMENT, "invalid JSON"},
    };
    for (const Case &c : cases) {
        CAPTURE(c.json);
        const Error error = test::error_of([&] { read(dir, c.json); });
        CAPTURE(error.text);
        CHECK(error.status == c.status);
        CHECK(test::contains(error.text, c.text));
        CHECK(test::contains(error.text, dir.file("d.json")));
    }
    CHECK(test::error_of([&] { read_deployment(dir.file("none.json")); }).status == KIMI_NOT_FOUND);
}
