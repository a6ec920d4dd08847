// Products with weights, at the shapes of a rank of 8 and of all heads.
#include "kernels/moe_experts.h"
#include "kernels/moe_route.h"
#include "kernels/skinny_gemm.h"
#include "tools/kernel-bench/cases.h"

namespace kimi::bench {
namespace {

void product(const std::string &name, std::uint32_t rows, std::uint32_t inputs,
             std::vector<std::uint32_t> outputs, const Machine &machine) {
    std::uint32_t total = 0;
    for (const std::uint32_t n : outputs) total += n;
    const std::size_t weight_bytes = std::size_t{2} * inputs * total,
                      turns = machine.turns(weight_bytes);
    const Memory weights(turns * weight_bytes), x(random_bytes(std::size_t{2} * rows * inputs)),
        y(std::size_t{4} * rows * total);
    const Memory n_rows(std::vector<std::uint32_t>{rows});
    SkinnyGemmParams p{
        .x = x.as<bf16>(),
        .n_rows = n_rows.as<std::uint32_t>(),
        .max_rows = rows,
        .inputs = inputs,
        .n_jobs = static_cast<std::uint32_t>(outputs.size()),
        .tiles = skinny_gemm_tiles(rows, total, inputs, static_cast<std::uint32_t>(machine.n_sms))};
    const auto jobs_at = [&](std::size_t turn) {
        const bf16 *weight = weights.as<bf16>() + turn * weight_bytes / 2;
        float *out = y.as<float>();
        for (std::size_t j = 0; j < outputs.size(); ++j) {
            p.jobs[j] = {weight, out, nullptr, outputs[j], false, 0, 0};
            weight += std::size_t{inputs} * outputs[j];
            out += std::size_t{rows} * outputs[j];
        }
    };
    jobs_at(0);
    const SkinnyGemmWorkspace size = skinny_gemm_workspace(p);
    const Memory partial(size.partial * 4), arrived(size.arrived * 4);
    p.partial = partial.as<float>();
    p.arrived = arrived.as<std::uint32_t>();
    report({"skinny_gemm, " + name + ", " + std::to_string(rows) + " rows",
            static_cast<double>(weight_bytes), 2.0 * rows * inputs * total, turns,
            [&](std::size_t turn, simt::Stream stream) {
                jobs_at(turn);
                skinny_gemm(p, stream);
            }},
           machine.copy_bytes_per_s);
}

void experts(std::uint32_t rows, std::uint32_t width, const Machine &machine) {
    constexpr std::uint32_t kHidden = 7168, kExperts = 384, kTopK = 8;
    const std::size_t gate_up_bytes = moe_matrix_bytes(2 * width, kHidden),
                      down_bytes = moe_matrix_bytes(kHidden, width);
    const Memory gate_up(kExperts * gate_up_bytes), down(kExperts * down_bytes),
        x(random_bytes(std::size_t{2} * rows * kHidden));
    const std::size_t pairs = std::size_t{rows} * kTopK;
    const Memory ids(4 * pairs), weights(4 * pairs), counts(8), tiles(16 * pairs),
        groups(16 * pairs), pair_row(4 * pairs), pair_weight(4 * pairs);
    const Memory act(2 * pairs * width), y(std::size_t{4} * rows * kHidden),
        n_rows(std::vector<std::uint32_t>{rows});
    const MoePlan plan{counts.as<std::uint32_t>(),   counts.as<std::uint32_t>() + 1,
                       tiles.as<MoeTile>(),          groups.as<MoeGroup>(),
                       pair_row.as<std::uint32_t>(), pair_weight.as<float>()};
    // Every turn other experts, so that L2 has none of them.
    std::mt19937 random(1);
    constexpr std::size_t kTurns = 24;
    std::vector<float> logits(kTurns * rows * kExperts);
    for (float &v : logits) v = static_cast<float>(random() % 10'000) * 1e-3F;
    const Memory logits_device(logits), bias(4 * kExperts);
    const auto route = [&](std::size_t turn, simt::Stream stream) {
        moe_route({logits_device.as<float>() + turn * rows * kExperts, bias.as<float>(),
                   n_rows.as<std::uint32_t>(), rows, kExperts, kTopK, true, 2.827F,
                   ids.as<std::uint32_t>(), weights.as<float>(), plan},
                  stream);
    };
    double chosen = 0;
    for (std::size_t turn = 0; turn < kTurns; ++turn) {
        std::uint32_t n = 0;
        route(turn, nullptr);
        check(cudaMemcpy(&n, plan.n_groups, sizeof n, cudaMemcpyDeviceToHost), "copy");
        chosen += n / static_cast<double>(kTurns);
    }
    const double bytes = chosen * static_cast<double>(gate_up_bytes + down_bytes),
                 flops = 6.0 * static_cast<double>(pairs) * kHidden * width;
    report(
        {"moe_route, " + std::to_string(rows) + " rows", 4.0 * rows * kExperts, 0, kTurns, route},
        machine.copy_bytes_per_s);
    report(
        {"moe_route + experts, " + std::to_string(rows) + " rows, slices of " +
             std::to_string(width) + ", " + std::to_string(static_cast<int>(chosen)) + " experts",
         bytes, flops, kTurns,
         [&](std::size_t turn, simt::Stream stream) {
             route(turn, stream);
             moe_experts({x.as<bf16>(), plan, rows, kTopK, kExperts, kHidden, width,
                          gate_up.as<std::uint8_t>(), down.as<std::uint8_t>(), act.as<bf16>(),
                          y.as<float>(), n_rows.as<std::uint32_t>(), false, machine.n_sms},
                         stream);
         }},
        machine.copy_bytes_per_s);
}

}  // namespace

void bench_products(const Machine &machine) {
    for (const std::uint32_t rows : {1U, 9U, 64U}) {
        product("q_a and kv_a", rows, 7168, {1536, 576}, machine);
        product("q_b", rows, 1536, {1536}, machine);
        product("o", rows, 1024, {7168}, machine);
        product("router, shared gate and up", rows, 7168, {384, 256, 256}, machine);
        product("shared down", rows, 256, {7168}, machine);
        product("dense gate and up", rows, 7168, {2304, 2304}, machine);
        product("head", rows, 7168, {20480}, machine);
    }
    for (const std::uint32_t rows : {1U, 2U, 4U, 9U, 16U, 64U}) experts(rows, 256, machine);
}

}  // namespace kimi::bench
