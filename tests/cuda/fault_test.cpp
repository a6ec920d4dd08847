// What cannot be had, and every call that fails: a status, nothing left behind, the process goes
// on.
#include "engine/sessions.h"
#include "tests/cuda/tiny.h"

using namespace kimi;

namespace {

constexpr const char *kEager = R"("graphs": {"eager": true})";
constexpr const char *kGraphs =
    R"("graphs": {"widths": [1], "sessions": [1]}, "speculation": {"max_nodes": 0})";

cudart::Machine machine(int n_devices) {
    cudart::Machine out;
    out.n_devices = n_devices;
    out.n_sms = 4;
    out.patience_s = 0.05;
    return out;
}

// Calls of the runtime whose failure a backend must survive.
constexpr const char *kCalls[] = {"cudaDriverGetVersion",
                                  "cudaRuntimeGetVersion",
                                  "cudaGetDeviceCount",
                                  "cudaGetDeviceProperties",
                                  "cudaDeviceGetAttribute",
                                  "cudaSetDevice",
                                  "cudaMemGetInfo",
                                  "cudaMalloc",
                                  "cudaMallocHost",
                                  "cudaMemcpyAsync",
                                  "cudaMemcpy2DAsync",
                                  "cudaMemsetAsync",
                                  "cudaStreamCreateWithFlags",
                                  "cudaStreamSynchronize",
                                  "cudaStreamQuery",
                                  "cudaEventCreateWithFlags",
                                  "cudaEventRecord",
                                  "cudaEventSynchronize",
                                  "cudaEventQuery",
                                  "cudaEventElapsedTime",
                                  "cudaStreamBeginCapture",
                                  "cudaStreamEndCapture",
                                  "cudaGraphInstantiate",
                                  "cudaGraphLaunch",
                                  "cudaDeviceCanAccessPeer",
                                  "cudaDeviceEnablePeerAccess",
                                  "ncclCommInitAll",
                                  "ncclAllReduce",
                                  "ncclAllGather",
                                  "ncclGroupStart",
                                  "ncclGroupEnd",
                                  "launch",
                                  "kernel"};

int status_of(const std::string &call) {
    return call.starts_with("nccl")                           ? 2 /* ncclSystemError */
           : call == "cudaMalloc" || call == "cudaMallocHost" ? 2 /* cudaErrorMemoryAllocation */
                                                              : 999 /* cudaErrorUnknown */;
}

bool is_expected(kimi_status status) {
    return status == KIMI_DEVICE_LOST || status == KIMI_DEVICE_OUT_OF_MEMORY ||
           status == KIMI_OUT_OF_MEMORY || status == KIMI_NOT_FOUND || status == KIMI_INTERNAL;
}

// Runs `begin`, then `act` once for each of the calls that it makes, with that call failing. The
// count of calls that made it fail.
std::uint64_t fail_each(int n_devices, const std::function<std::shared_ptr<Engine>()> &begin,
                        const std::function<void(std::shared_ptr<Engine> &)> &act) {
    std::uint64_t n_failures = 0;
    for (const char *call : kCalls) {
        CAPTURE(std::string(call));
        std::uint64_t n_calls = 1;  // of act, known after the first run
        for (std::uint64_t n = 0; n <= n_calls; ++n) {
            CAPTURE(n);
            cudart::start(machine(n_devices));
            std::shared_ptr<Engine> engine = begin();
            const std::uint64_t before = cudart::n_calls(call);
            if (n > 0) cudart::fail_nth(call, n, status_of(call));
            const Error error = test::error_of([&] { act(engine); });
            cudart::fail_no_more();
            if (n == 0) {
                REQUIRE_MESSAGE(error.status == KIMI_OK, error.text);
                n_calls = cudart::n_calls(call) - before;
            } else if (error.status != KIMI_OK) {
                CHECK_MESSAGE(is_expected(error.status), error.text);
                CHECK(!error.text.empty());
                ++n_failures;
            }
            engine.reset();
            CHECK(cudart::leaks() == "");
        }
    }
    return n_failures;
}

void decode(const std::shared_ptr<Engine> &engine) {
    Session session(engine, test::plain_greedy(2));
    session.append(std::vector<std::int32_t>{1, 2, 3});
    while (session.result().phase != KIMI_PHASE_FINISHED) {
        test::step(session);
        if (session.result().status != KIMI_OK)
            throw Error{session.result().status, session.result().error};
    }
    if (session.result().finish_reason == KIMI_FINISH_ERROR)
        throw Error{KIMI_INTERNAL, "an error without a status"};
}

}  // namespace

TEST_CASE("cuda: every call that fails while an engine is created") {
    for (const int n_devices : {1, 2}) {
        CAPTURE(n_devices);
        const test::TinyCuda tiny(cat(R"("ranks": )", n_devices, ", ", kGraphs));
        const std::uint64_t n = fail_each(
            n_devices, [] { return nullptr; },
            [&](std::shared_ptr<Engine> &engine) { engine = tiny.open(); });
        CHECK(n > 100);
    }
}

TEST_CASE("cuda: every call that fails in the middle of a reply ends it, and the engine") {
    for (const char *graphs : {kEager, kGraphs}) {
        for (const int n_devices : {1, 2}) {
            CAPTURE(n_devices);
            const test::TinyCuda tiny(cat(R"("ranks": )", n_devices, ", ", graphs));
            const std::uint64_t n = fail_each(
                n_devices, [&] { return tiny.open(); },
                [](std::shared_ptr<Engine> &engine) {
                    try {
                        decode(engine);
                    } catch (const Error &) {
                        // The engine says so, whatever works again.
                        CHECK(test::error_of([&] { decode(engine); }).status == KIMI_DEVICE_LOST);
                        throw;
                    }
                });
            CHECK(n > 20);
        }
    }
}

TEST_CASE("cuda: memory that is not there is named, with what was asked and what is free") {
    cudart::Machine small = machine(1);
    small.memory_bytes = std::size_t{2} << 20;
    cudart::start(small);
    const test::TinyCuda tiny(cat(R"("ranks": 1, )", kEager));
    const Error error = test::error_of([&] { tiny.open(); });
    CHECK(error.status == KIMI_DEVICE_OUT_OF_MEMORY);
    CAPTURE(error.text);
    CHECK(error.text.find("GPU 0: ") == 0);
    CHECK(error.text.find(" of 2097152 are free") != std::string::npos);
    CHECK(cudart::leaks() == "");
}

TEST_CASE("cuda: machines that cannot run a deployment say why") {
    const test::TinyCuda tiny(cat(R"("ranks": 2, )", kEager));
    const auto error_on = [&](const cudart::Machine &m) {
        cudart::start(m);
        return test::error_of([&] { tiny.open(); });
    };
    const Error few = error_on(machine(1));
    CHECK(few.status == KIMI_NOT_FOUND);
    CHECK(few.text == "field ranks: is 2, this machine has 1 GPUs");
    cudart::Machine old = machine(2);
    old.compute_major = 8, old.compute_minor = 9;
    CHECK(error_on(old).status == KIMI_UNSUPPORTED);
    CHECK(error_on(old).text.find("has compute capability 8.9, the kernels are for 9.0 and 12.0") !=
          std::string::npos);
    cudart::Machine behind = machine(2);
    behind.driver_version = 12040;
    CHECK(error_on(behind).status == KIMI_UNSUPPORTED);
    CHECK(error_on(behind).text == "the NVIDIA driver supports CUDA 12, this library needs 13");
    cudart::Machine none = machine(2);
    none.driver_version = 0;
    CHECK(error_on(none).status == KIMI_NOT_FOUND);
}

TEST_CASE("cuda: GPUs that do not reach each other's memory add through NCCL, to the same tokens") {
    const test::TinyCuda tiny(cat(R"("ranks": 2, )", kEager));
    std::vector<std::vector<std::int32_t>> replies;
    for (const bool peers : {true, false}) {
        cudart::Machine m = machine(2);
        m.can_access = [peers](int, int) { return peers; };
        cudart::start(m);
        Session session(tiny.open(), test::plain_greedy(4));
        session.append(std::vector<std::int32_t>{1, 2, 3});
        replies.push_back(test::finish(session));
        CHECK((cudart::n_calls("ncclAllReduce") > 20) == !peers);
    }
    CHECK(replies[0] == replies[1]);
}

TEST_CASE("cuda: without its library, a deployment says which file is missing") {
    const test::TempDir dir;
    const Error error = test::error_of([&] {
        Engine(dir.write("d.json", cat(R"({"backend": "cuda", "cuda_library": "none.so",
                                           "checkpoint": ")",
                                       test::nano(), R"("})")),
               Progress());
    });
    CHECK(error.status == KIMI_NOT_FOUND);
    CHECK(error.text.find("field backend: cuda needs the library " + dir.file("none.so")) == 0);
}
