// What cannot be had, and every call that fails: a status, nothing left behind, the process goes
// on.
#include "engine/sessions.h"
#include "tests/cuda/tiny.h"

using namespace kimi;

namespace {

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
    const test::TinyCuda tiny(cat(R"("ranks": 1, )", test::kEager));
    const Error error = test::error_of([&] { tiny.open(); });
    CHECK(error.status == KIMI_DEVICE_OUT_OF_MEMORY);
    CAPTURE(error.text);
    CHECK(error.text.find("GPU 0: ") == 0);
    CHECK(error.text.find(" of 2097152 are free") != std::string::npos);
    CHECK(cudart::leaks() == "");
}

TEST_CASE("cuda: machines that cannot run a deployment say why") {
    const test::TinyCuda tiny(cat(R"("ranks": 2, )", test::kEager));
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

TEST_CASE("cuda: sums go through NCCL where peer memory does not serve, to the same tokens") {
    const test::TinyCuda tiny(cat(R"("ranks": 2, )", test::kEager));
    // The log of a machine, and how often a reply called NCCL for a sum.
    std::vector<std::vector<std::int32_t>> replies;
    const auto reply = [&] {
        std::string log;
        const auto engine = tiny.open({Log(test::keep_lines, &log), {}});
        const std::uint64_t before = cudart::n_calls("ncclAllReduce");
        Session session(engine, test::plain_greedy(4));
        session.append(std::vector<std::int32_t>{1, 2, 3});
        replies.push_back(test::finish(session));
        return std::pair(log, cudart::n_calls("ncclAllReduce") - before);
    };
    // An embedding and two sums in each of two layers, on two ranks, in four passes.
    constexpr std::uint64_t kSums = 5 * 2 * 4;

    cudart::start(machine(2));
    const auto [by_peers, none] = reply();
    CHECK(test::contains(by_peers, "us over peer memory"));
    CHECK(!test::contains(by_peers, "ACS settings"));
    CHECK(none == 0);

    cudart::Machine apart = machine(2);
    apart.can_access = [](int, int) { return false; };
    cudart::start(apart);
    const auto [by_nccl, n] = reply();
    CHECK(test::contains(by_nccl, "do not reach each other's memory: sums go through NCCL"));
    CHECK(n == kSums);

    // A sum of NCCL has a kernel behind it: this makes both together seem shorter than a kernel.
    cudart::Machine slow = machine(2);
    slow.collective_us = -1;
    cudart::start(slow);
    const auto [timed, n_timed] = reply();
    CHECK(test::contains(timed, "us with NCCL. Look at the IOMMU and ACS settings"));
    CHECK(n_timed == kSums);

    cudart::start(machine(2));
    cudart::skip_kernels("all_reduce_two_shots");
    const auto [wrong, n_wrong] = reply();
    CHECK(test::contains(wrong, "Sums over peer memory are wrong"));
    CHECK(n_wrong == kSums);

    for (const auto &other : replies) CHECK(other == replies[0]);
}

TEST_CASE("cuda: NCCL that adds wrongly is no device to compute on") {
    cudart::start(machine(2));
    cudart::skip_kernels("all_reduce_one_shot");
    const test::TinyCuda tiny(cat(R"("ranks": 2, )", test::kEager));
    const Error error = test::error_of([&] { tiny.open(); });
    CHECK(error.status == KIMI_DEVICE_LOST);
    CHECK(test::contains(error.text, "NCCL gives wrong sums"));
    CHECK(cudart::leaks() == "");
}

TEST_CASE("cuda: a GPU that computes wrongly is found before a model is loaded, and named") {
    const test::TinyCuda tiny(cat(R"("ranks": 1, )", test::kEager));
    for (const char *kernel : {"rms_norm", "skinny_gemm", "moe_repack", "moe_route", "moe_gate_up",
                               "moe_down", "mla_verify_paged", "attention_merge"}) {
        CAPTURE(kernel);
        cudart::start(machine(1));
        cudart::skip_kernels(kernel);
        const Error error = test::error_of([&] { tiny.open(); });
        CHECK(error.status == KIMI_DEVICE_LOST);
        CAPTURE(error.text);
        CHECK(test::contains(error.text, "GPU 0 computes wrongly: "));
        const std::string named = std::string(kernel).starts_with("moe_") ? "moe_" : kernel;
        CHECK(test::contains(error.text, named));
        CHECK(cudart::leaks() == "");
    }
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
