// What kimi-plan says of a GPU's memory is what an engine takes of it.
#include "engine/estimate.h"
#include "tests/cuda/engine.h"

using namespace kimi;

namespace {

void check_plan(int n_devices, const std::string &ranks, const std::string &fields) {
    CAPTURE(ranks);
    CAPTURE(fields);
    cudart::start({.n_devices = n_devices});
    const test::TempDir dir;
    const std::string path = test::cuda_deployment(dir, cat(ranks, ", ", fields));
    const Estimate plan = estimate(read_deployment(path), std::uint64_t{96} << 30);
    const Engine engine(path, Progress());
    const double taken = static_cast<double>(cudart::live().bytes) / n_devices;
    const DeviceMemory &d = plan.device;
    const double rest = taken - static_cast<double>(d.weights + d.drafter + plan.kv_bytes);
    CHECK(static_cast<double>(d.workspace) == doctest::Approx(rest).epsilon(0.04));
}

}  // namespace

TEST_CASE("cuda: an engine takes the memory that the plan says") {
    const std::string eager = R"("graphs": {"eager": true}, "prefill_chunk": )",
                      context = R"("ranks": 2, "placement": {"attention": "context"})";
    check_plan(2, context, eager + "1024");
    check_plan(8, test::cuda_ranks(8),
               R"("prefill_chunk": 256, "graphs": {"widths": [64], "sessions": [1]})");
}
