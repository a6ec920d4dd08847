// What the driver tells of GPUs, in traces.
#include <dlfcn.h>

#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include "engine/sessions.h"
#include "tests/cuda/tiny.h"
#include "tests/cudart/nvml.h"
#include "tools/heatmap/trace.h"

using namespace kimi;

namespace {

// While it lives, the loader finds the library by its name.
class NvmlLibrary {
  public:
    NvmlLibrary() : handle_(dlopen(KIMI_NVML, RTLD_NOW)) {
        REQUIRE(handle_ != nullptr);
        machine_ = reinterpret_cast<decltype(&nvml_machine)>(dlsym(handle_, "nvml_machine"))();
    }
    NvmlLibrary(const NvmlLibrary &) = delete;
    ~NvmlLibrary() { dlclose(handle_); }
    test::NvmlMachine &operator*() const { return *machine_; }
    test::NvmlMachine *operator->() const { return machine_; }

  private:
    void *handle_;
    test::NvmlMachine *machine_;
};

struct Counter {
    double us;
    std::map<std::string, double> values;
};
using Counters = std::map<std::pair<int, std::string>, std::vector<Counter>>;  // by rank and name

Counters counters_of(const std::string &trace) {
    Counters out;
    const Json root = parse_json(trace, "trace");
    for (const Json &e : root.find("traceEvents")->items) {
        if (e.find("ph")->text != "C") continue;
        Counter counter{e.find("ts")->real, {}};
        for (const auto &[key, value] : e.find("args")->members) counter.values[key] = value.real;
        out[{static_cast<int>(e.find("pid")->real), e.find("name")->text}].push_back(counter);
    }
    return out;
}

// Of a reply whose steps are farther apart than readings.
std::string trace_of_reply(const test::TinyCuda &tiny) {
    const auto engine = tiny.open();
    Session session(engine, test::plain_greedy(4));
    session.append(std::vector<std::int32_t>{1, 2, 3});
    while (session.result().phase != KIMI_PHASE_FINISHED) {
        std::this_thread::sleep_for(std::chrono::milliseconds(110));
        test::step(session);
        REQUIRE(session.result().status == KIMI_OK);
    }
    const std::string trace = engine->trace();
    CHECK(heatmap::parse_trace(trace, "trace").ranks.size() == engine->runner().n_ranks());
    return trace;
}

void check_traffic(const std::vector<Counter> &counters, const test::NvmlGpu &gpu) {
    REQUIRE(counters.size() == 4);
    for (std::size_t i = 1; i < counters.size(); ++i) {
        const double seconds = 1e-6 * (counters[i].us - counters[i - 1].us);
        CHECK(seconds >= 0.1);
        const auto expected = [&](std::uint64_t bytes) {
            return doctest::Approx(static_cast<double>(bytes) / seconds).epsilon(1e-6);
        };
        CHECK(counters[i].values.at("sent") == expected(gpu.more_sent));
        CHECK(counters[i].values.at("received") == expected(gpu.more_received));
    }
}

}  // namespace

TEST_CASE("cuda: traces have the utilisation and PCIe traffic that the driver tells of each GPU") {
    cudart::start({.n_devices = 2, .n_sms = 4});
    const NvmlLibrary nvml;
    nvml->gpu[0] = {97, 60, 0xffffffff - 2'000'000, 1ULL << 40, 1'000'000, 2'000'000'000'000};
    nvml->gpu[1] = {31, 12, 5, 5, 3'000'000'000, 0};
    const Counters counters =
        counters_of(trace_of_reply(test::TinyCuda(cat(R"("ranks": 2, )", test::kEager))));
    CHECK(nvml->n_users == 0);
    REQUIRE(counters.size() == 4);
    for (int rank = 0; rank < 2; ++rank) {
        CAPTURE(rank);
        const test::NvmlGpu &gpu = nvml->gpu[rank];
        check_traffic(counters.at({rank, "PCIe (bytes/s)"}), gpu);
        const auto &busy = counters.at({rank, "busy (%)"});
        CHECK(busy.size() == 4);
        for (const Counter &counter : busy) {
            CHECK(counter.values.at("gpu") == gpu.gpu_percent);
            CHECK(counter.values.at("memory") == gpu.memory_percent);
        }
    }
}

TEST_CASE("cuda: steps that follow each other at once share a reading of the driver") {
    cudart::start({.n_sms = 4});
    const NvmlLibrary nvml;
    nvml->gpu[0].more_received = 1;
    const auto engine = test::TinyCuda(R"("graphs": {"widths": [8], "sessions": [1]})").open();
    Session session(engine, test::plain_greedy(40));
    session.append(std::vector<std::int32_t>{1, 2, 3});
    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t before = nvml->gpu[0].received;
    test::finish(session);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    CHECK(static_cast<double>(nvml->gpu[0].received - before) <= 1 + taken.count() / 0.1);
}

TEST_CASE("cuda: what the driver does not tell is not in traces, and nothing fails") {
    cudart::start({.n_sms = 4});
    const test::TinyCuda tiny(test::kEager);
    void *const installed = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (installed != nullptr) dlclose(installed);
    if (installed == nullptr) CHECK(counters_of(trace_of_reply(tiny)).empty());

    const NvmlLibrary nvml;
    nvml->utilization_status = 3;
    CHECK(counters_of(trace_of_reply(tiny)).begin()->first.second == "PCIe (bytes/s)");
    nvml->field_status = 3;
    CHECK(counters_of(trace_of_reply(tiny)).empty());
    nvml->utilization_status = 0;
    const Counters busy = counters_of(trace_of_reply(tiny));
    CHECK(busy.size() == 1);
    CHECK(busy.begin()->first.second == "busy (%)");
    nvml->init_status = 9;
    CHECK(counters_of(trace_of_reply(tiny)).empty());
    CHECK(nvml->n_users == 0);
}

TEST_CASE("cuda: a GPU without a bus is lost, and the driver's library is closed") {
    cudart::start({.n_sms = 4});
    const NvmlLibrary nvml;
    cudart::fail_nth("cudaDeviceGetPCIBusId", 1, 214);
    const Error error = test::error_of([] { test::TinyCuda(test::kEager).open(); });
    CHECK(error.status == KIMI_DEVICE_LOST);
    CHECK(test::contains(error.text, "asking for a GPU's bus: "));
    CHECK(nvml->n_users == 0);
    CHECK(cudart::leaks() == "");
}
