// What a deployment needs, asked before it is loaded, next to what it then takes.
#include <malloc.h>

#include "capi/client.h"
#include "check.h"

using kimi::test::TempDir;

namespace {

kimi_estimate estimate(const std::string &deployment, uint64_t memory_bytes = 0) {
    kimi_estimate out;
    kimi_estimate_init(&out);
    out.memory_bytes = memory_bytes;
    client::ErrorRecord error;
    const kimi_status status = kimi_deployment_estimate(deployment.c_str(), &out, &error);
    INFO(error.message);
    REQUIRE(status == KIMI_OK);
    return out;
}

std::string deployment(const TempDir &dir, const std::string &fields) {
    return dir.write("d.json", "{\"checkpoint\": \"" KIMI_MODELS
                               "/nano-k2\", \"drafter\": \"" KIMI_MODELS "/nano-k2/drafter\"" +
                                   fields + "}");
}

// Bytes of address space: reserved memory counts, touched or not.
double address_space() {
    std::ifstream file("/proc/self/statm");
    double pages = 0;
    file >> pages;
    return pages * 4096;
}

// Of the data of all tensors.
double tensor_bytes(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    uint64_t header = 0;
    file.read(reinterpret_cast<char *>(&header), sizeof header);
    return static_cast<double>(std::filesystem::file_size(path) - header - sizeof header);
}

}  // namespace

TEST_CASE("estimate: weights, KV and workspace are what the engine takes") {
    const TempDir dir;
    const std::string path = deployment(
        dir, ", \"threads\": 1, \"kv\": {\"type\": \"fp8\", \"capacity_tokens\": 30000}");
    const kimi_estimate e = estimate(path);
    CHECK(e.devices == 1);
    double files = 0;
    for (const auto &entry : std::filesystem::recursive_directory_iterator(kimi::test::nano()))
        if (entry.path().extension() == ".safetensors") files += tensor_bytes(entry.path());
    CHECK(static_cast<double>(e.weights_bytes) == doctest::Approx(files).epsilon(1e-3));

    malloc_trim(0);
    const double before = address_space();
    const client::Engine engine = client::load(path);
    const double taken = address_space() - before;
    kimi_engine_statistics stats;
    kimi_engine_statistics_init(&stats);
    REQUIRE(kimi_engine_stats(engine.get(), &stats, nullptr) == KIMI_OK);
    CHECK(e.kv_bytes == stats.pages * stats.page_bytes);
    CHECK(e.kv_token_bytes * 64 == stats.page_bytes);
    const double estimated = static_cast<double>(e.weights_bytes + e.kv_bytes + e.workspace_bytes);
    MESSAGE("estimated ", estimated / 1e6, " MB, of which workspace ",
            double(e.workspace_bytes) / 1e6, "; taken ", taken / 1e6, " MB");
    if (!kimi::test::kInstrumented) CHECK(taken == doctest::Approx(estimated).epsilon(0.1));
}

TEST_CASE("estimate: the tokens that fit use up the memory that is given") {
    const TempDir dir;
    const std::string path = deployment(dir, "");
    const kimi_estimate all = estimate(path);
    CHECK(all.memory_bytes > 0);  // this machine's
    const uint64_t fixed = all.weights_bytes + all.workspace_bytes;
    const kimi_estimate small = estimate(path, fixed + 1000 * all.kv_token_bytes);
    CHECK(small.capacity_tokens == 1000 / 64 * 64);
    CHECK(estimate(path, fixed - 1).capacity_tokens == 0);
}

TEST_CASE("estimate: files that are missing and limits that are exceeded are named") {
    kimi_estimate out;
    kimi_estimate_init(&out);
    client::ErrorRecord error;
    CHECK(kimi_deployment_estimate("/nowhere/d.json", &out, &error) == KIMI_NOT_FOUND);
    CHECK(std::string(error.message).find("/nowhere/d.json") != std::string::npos);
    CHECK(kimi_deployment_estimate(nullptr, &out, nullptr) == KIMI_INVALID_ARGUMENT);
    CHECK(kimi_deployment_estimate("/nowhere", nullptr, nullptr) == KIMI_INVALID_ARGUMENT);
    const TempDir dir;
    const std::string path = deployment(dir, ", \"context_limit\": 10000000");
    CHECK(kimi_deployment_estimate(path.c_str(), &out, &error) == KIMI_INVALID_ARGUMENT);
    CHECK(std::string(error.message).find("context_limit: is 10000000") != std::string::npos);
}
