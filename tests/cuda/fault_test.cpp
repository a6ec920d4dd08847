// What cannot be had, and every call that fails: a status, nothing left behind, the process goes
// on.
#include "engine/sessions.h"
#include "tests/cuda/tiny.h"

using namespace kimi;

namespace {

constexpr const char *kEager = R"("graphs": {"eager": true})";
cudart::Machine machine(int n_devices) {
    cudart::Machine out;
    out.n_devices = n_devices;
    out.n_sms = 4;
    out.patience_s = 0.05;
    return out;
}

}  // namespace

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
