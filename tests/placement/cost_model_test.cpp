// Expected values are printed by sm120_roofline.py, the script behind the tables of the hardware
// notes for K2.6 on 8x RTX PRO 6000 (weights in GB, times in ms), unless another source is named.
#include "placement/cost_model.h"

#include "fixtures.h"

using namespace kimi;
using namespace kimi::test;

namespace {

constexpr double kGb = 1e9, kGib = 1024.0 * 1024 * 1024;

Placement all_split() {
    Placement p = placement(8);
    p.split_q_a = p.split_kv_a = p.split_router = true;
    return p;
}

double gb(const PerPart &bytes, WeightPart part) {
    return bytes[part] / kGb;
}

}  // namespace

TEST_CASE("cost: K2.6's weights have the published bytes, on one device and on eight") {
    // Sum of the official file list's text tensors without weight_shape.
    CHECK(cost_model(k26(), placement(1)).memory({}).weights == 594'205'351'936);
    const DeviceMemory memory = cost_model(k26(), placement(8)).memory({});
    check_near(double(memory.weights) / kGib, 70.95, 0.0005);
    check_near(double(memory.weights) / kGb, 76.18, 0.0005);
    check_near(gb(cost_model(k26(), placement(8)).held_bytes(), WeightPart::experts), 71.35);
    CHECK(memory.total == std::uint64_t{97'887} * 1024 * 1024);
    // The drafter's files have 6.48 GiB.
    check_near(double(cost_model(k26(true), placement(1)).memory({}).drafter) / kGib, 6.48, 0.001);
}

TEST_CASE("cost: weights that a step reads on each of eight devices") {
    struct Row {
        std::uint32_t rows;
        double distinct, experts, total, ms, split_ms;
    };
    const Row rows[] = {
        {1, 8.0, 1.49, 6.03, 3.36, 2.30},        {2, 15.8, 2.94, 7.48, 4.18, 3.11},
        {4, 31.0, 5.76, 10.30, 5.75, 4.69},      {8, 59.5, 11.06, 15.60, 8.71, 7.64},
        {9, 66.3, 12.31, 16.86, 9.41, 8.34},     {16, 109.8, 20.40, 24.95, 13.92, 12.86},
        {32, 188.2, 34.97, 39.51, 22.05, 20.99}, {64, 284.2, 52.80, 57.34, 32.00, 30.94}};
    const CostModel model = cost_model(k26(), placement(8));
    const CostModel split = cost_model(k26(), all_split());
    for (const Row &row : rows) {
        CAPTURE(row.rows);
        check_near(model.routing().distinct_experts(row.rows), row.distinct, 0.005);
        const PerPart read = model.read_bytes(row.rows);
        check_near(gb(read, WeightPart::experts), row.experts, 0.005);
        check_near(read.sum() / kGb, row.total, 0.005);
        const Rates &ideal = rtx().ideal;
        check_near(model.step(ideal, row.rows, 4096).weights_ms, row.ms, 0.005);
        check_near(split.step(ideal, row.rows, 4096).weights_ms, row.split_ms, 0.005);
    }
    const PerPart read = model.read_bytes(1);
    check_near(gb(read, WeightPart::attention), 1.31, 0.01);
    check_near(gb(read, WeightPart::latents), 1.85, 0.01);
    check_near(gb(read, WeightPart::router), 0.33, 0.01);
    check_near(gb(read, WeightPart::shared), 0.66, 0.01);
    check_near(gb(read, WeightPart::dense), 0.0991, 0.01);
    check_near(gb(read, WeightPart::head), 0.2936, 0.01);
    // One token on one device: 32.99 GB.
    check_near(cost_model(k26(), placement(1)).read_bytes(1).sum() / kGb, 32.99, 0.001);
    // Neighbouring tokens share experts: 0.69 of the union.
    const double shared[][2] = {{4, 8.52}, {9, 13.04}, {16, 18.62}, {32, 28.67}};
    for (const auto &[n, total] : shared)
        check_near(model.read_bytes(static_cast<std::uint32_t>(n), 0.69).sum() / kGb, total, 0.005);
}

TEST_CASE("cost: KV bytes of a step, whole and split over eight ranks") {
    struct Row {
        double context;
        KvFormat format;
        double gb, split_gb;
    };
    const Row rows[] = {
        {4096, KvFormat::fp8_flat, 0.144, 0.018},   {46000, KvFormat::fp8_flat, 1.616, 0.202},
        {185000, KvFormat::fp8_flat, 6.500, 0.813}, {4096, KvFormat::fp8, 0.164, 0.0205},
        {46000, KvFormat::fp8, 1.841, 0.230},       {185000, KvFormat::fp8, 7.403, 0.925},
        {4096, KvFormat::bf16, 0.288, 0.036},       {46000, KvFormat::bf16, 3.233, 0.404},
        {185000, KvFormat::bf16, 13.000, 1.625}};
    const Machine machine = rtx();
    for (const Row &row : rows) {
        CAPTURE(row.context);
        const auto read_gb = [&](AttentionSplit attention) {
            const CostModel model = cost_model(k26(), placement(8, attention), row.format);
            return model.step(machine.ideal, 1, row.context).kv_ms * 1e-3 *
                   machine.ideal.memory_gb_per_s;
        };
        check_near(read_gb(AttentionSplit::tensor), row.gb);
        check_near(read_gb(AttentionSplit::context), row.split_gb);
    }
    CHECK(kv_token_bytes(KvFormat::fp8, k26().target) == 656);
    CHECK(kv_token_bytes(KvFormat::bf16, k26().target) == 1152);
    CHECK(kv_token_bytes(KvFormat::f32, k26().target) == 2304);
    CHECK(kv_token_bytes(KvFormat::fp8_flat, k26().target) == 576);
}

TEST_CASE("cost: steps of 1 to 32 rows take the times of the roofline script") {
    struct Row {
        std::uint32_t rows;
        double context;
        double ideal, ideal_split, practical, practical_split;
    };
    const Row rows[] = {
        {1, 4096, 4.03, 4.34, 5.74, 7.24},       {1, 46000, 4.85, 4.44, 6.77, 7.53},
        {1, 185000, 7.58, 4.79, 10.18, 8.52},    {4, 4096, 6.66, 7.40, 10.29, 12.46},
        {4, 46000, 7.48, 7.75, 11.48, 13.65},    {4, 185000, 10.21, 8.93, 15.42, 17.58},
        {9, 4096, 10.60, 12.06, 15.92, 19.11},   {9, 46000, 11.42, 12.85, 18.59, 21.78},
        {9, 185000, 14.14, 15.49, 27.45, 30.63}, {16, 4096, 15.56, 17.97, 22.38, 26.98},
        {16, 46000, 16.97, 19.38, 27.12, 31.73}, {16, 185000, 21.66, 24.06, 42.87, 47.47},
        {32, 4096, 24.72, 29.29, 35.20, 43.05},  {32, 46000, 27.54, 32.11, 44.69, 52.54},
        {32, 185000, 36.91, 41.48, 76.18, 84.03}};
    const Machine machine = rtx();
    const CostModel tensor = cost_model(k26(), placement(8));
    const CostModel context = cost_model(k26(), placement(8, AttentionSplit::context));
    for (const Row &row : rows) {
        CAPTURE(row.rows);
        CAPTURE(row.context);
        check_near(tensor.step(machine.ideal, row.rows, row.context).total_ms, row.ideal);
        check_near(context.step(machine.ideal, row.rows, row.context).total_ms, row.ideal_split);
        check_near(tensor.step(machine.practical, row.rows, row.context).total_ms, row.practical);
        check_near(context.step(machine.practical, row.rows, row.context).total_ms,
                   row.practical_split);
    }
    const double overlapping[][3] = {
        {4096, 8.47, 13.26}, {46000, 9.29, 15.93}, {185000, 12.01, 24.79}};
    for (const auto &[length, ideal, practical] : overlapping) {
        check_near(tensor.step(machine.ideal, 9, length, 0.69).total_ms, ideal);
        check_near(tensor.step(machine.practical, 9, length, 0.69).total_ms, practical);
    }
    // The bounds that published one-token speeds are compared with.
    check_near(tensor.step(machine.ideal, 1, 131072).total_ms, 6.52);
    check_near(tensor.step(machine.practical, 1, 131072).total_ms, 8.86);
    check_near(context.step(machine.ideal, 1, 131072).total_ms, 4.65);
    check_near(context.step(machine.practical, 1, 131072).total_ms, 8.13);
}

TEST_CASE("cost: the parts of a step") {
    const Machine machine = rtx();
    const StepCost ideal = cost_model(k26(), placement(8)).step(machine.ideal, 9, 185000);
    check_near(ideal.weights_ms, 9.41);
    check_near(ideal.kv_ms, 3.63);
    check_near(ideal.attention_ms, 3.51);
    check_near(ideal.collectives_ms, 1.11);
    const StepCost split =
        cost_model(k26(), placement(8, AttentionSplit::context)).step(machine.practical, 9, 185000);
    check_near(split.weights_ms, 11.76);
    check_near(split.attention_ms, 11.79);
    check_near(split.collectives_ms, 3.90 + 3.18);
    // 1.77 TFLOP at 80 and at 243 TFLOPS.
    Machine other = machine;
    for (const auto &[tflops, ms] : {std::pair(80.0, 22.10), std::pair(243.0, 7.28)}) {
        other.ideal.attention_tflops = tflops;
        check_near(cost_model(k26(), placement(8)).step(other.ideal, 9, 185000).attention_ms, ms);
    }
    CHECK(cost_model(k26(), placement(8)).all_reduces() == 122);
    CHECK(cost_model(k26(), placement(1)).all_reduces() == 0);
    CHECK(cost_model(k26(), placement(1)).step(machine.practical, 9, 4096).collectives_ms == 0);
    // Up to 64 rows the linear layers are bound by their weights.
    const StepCost wide = cost_model(k26(), placement(8)).step(machine.practical, 64, 4096);
    CHECK(wide.matmul_ms < wide.weights_ms);
}

TEST_CASE("cost: the price of one more node at 46k") {
    struct Row {
        std::uint32_t rows;
        double overlap, ideal_ms, ideal_step, practical_ms, practical_step;
    };
    const Row rows[] = {{2, 1, 0.85, 5.8, 1.18, 9.2},      {4, 1, 0.82, 7.5, 1.46, 11.7},
                        {8, 1, 0.76, 10.7, 1.39, 17.4},    {9, 1, 0.81, 11.4, 1.37, 18.8},
                        {16, 1, 0.74, 17.0, 1.25, 28.0},   {24, 1, 0.65, 22.6, 1.14, 37.6},
                        {32, 1, 0.58, 27.5, 1.04, 46.3},   {9, 0.69, 0.60, 9.3, 1.10, 16.1},
                        {32, 0.69, 0.44, 21.5, 0.87, 38.8}};
    // The script prices sums of its practical column here with the line 20 us + bytes / 9.5 GB/s
    // instead of the published latencies.
    Machine line = rtx();
    line.practical.all_reduce.measured = {{1, 20}, {9.5e9, 1e6 + 20}};
    const CostModel model = cost_model(k26(), placement(8), KvFormat::fp8_flat, line);
    for (const Row &row : rows) {
        CAPTURE(row.rows);
        const auto check = [&](const Rates &rates, double extra_ms, double step_ms) {
            const double step = model.step(rates, row.rows, 46000, row.overlap).total_ms;
            const double next = model.step(rates, row.rows + 1, 46000, row.overlap).total_ms;
            check_near(step, step_ms);
            check_near(next - step, extra_ms);
        };
        check(line.ideal, row.ideal_ms, row.ideal_step);
        check(line.practical, row.practical_ms, row.practical_step);
    }
}

TEST_CASE("cost: whole experts read what their busiest rank reads") {
    const Machine machine = rtx();
    const CostModel slices = cost_model(k26(), placement(8));
    const CostModel whole = cost_model(k26(), placement(8, AttentionSplit::tensor, 8));
    const auto extra_gb = [&](std::uint32_t rows) {
        return (whole.read_bytes(rows).sum() - slices.read_bytes(rows).sum()) / kGb;
    };
    check_near(extra_gb(9), 5.7);
    check_near(extra_gb(1), 2.35);  // 1.49 GB x 1.58
    check_near(whole.step(machine.ideal, 9, 4096).weights_ms -
                   slices.step(machine.ideal, 9, 4096).weights_ms,
               3.2);
    CHECK(whole.memory({}).weights == slices.memory({}).weights);
}

TEST_CASE("cost: tokens of context that fit") {
    // The script keeps 8 GB for everything but weights and KV, graphs included; here workspaces
    // come on top.
    const WorkLimits limits = {.graph_bytes = std::uint64_t{4} << 30};
    const auto tokens = [&](AttentionSplit attention, KvFormat kv) {
        return double(
            cost_model(k26(), placement(8, attention), kv).memory(limits).capacity_tokens);
    };
    check_near(tokens(AttentionSplit::tensor, KvFormat::fp8_flat), 525e3);
    check_near(tokens(AttentionSplit::tensor, KvFormat::fp8), 525e3 * 576 / 656);
    check_near(tokens(AttentionSplit::tensor, KvFormat::bf16), 525e3 / 2);
    // All heads' partial results are kept for every split of a tree: 0.8 GB.
    check_near(tokens(AttentionSplit::context, KvFormat::fp8_flat), 8 * 525e3, 0.1);
    const auto workspace = [](AttentionSplit attention) {
        return double(cost_model(k26(), placement(8, attention)).memory({256, 64, 0}).workspace);
    };
    // Of 64 rows: fp32 of 64 heads in 94 parts and a tail, of 8 in 188 and a tail; queries in bf16
    // of 64, and fp32 outputs for them and from them.
    check_near(workspace(AttentionSplit::context) - workspace(AttentionSplit::tensor),
               64.0 * (4 * 513 * (64 * 95 - 8 * 189) + 64 * (2 * 576 + 2 * 4 * 513)), 1e-6);

    const DeviceMemory plain = cost_model(k26(), placement(8), KvFormat::fp8).memory({});
    const DeviceMemory drafting = cost_model(k26(true), placement(8), KvFormat::fp8).memory({});
    CHECK(plain.token == 656 * 61);
    CHECK(drafting.token == 656 * 61 + 6 * 2 * 128 * 2);  // one of 8 KV heads, bf16
    check_near(double(drafting.drafter) / kGb, 0.87);
    CHECK(drafting.capacity_tokens < plain.capacity_tokens);
    CHECK(drafting.capacity_tokens % 64 == 0);

    const DeviceMemory four = cost_model(k26(), placement(4)).memory({});
    CHECK(!four.fits());
    CHECK(four.capacity_tokens == 0);
}

TEST_CASE("cost: drafting") {
    const Machine machine = rtx();
    const double bandwidth = machine.ideal.memory_gb_per_s * kGb;
    const CostModel model = cost_model(k26(true), placement(8), KvFormat::fp8);
    // 0.49 ms of weights and 0.16 ms of the head at peak bandwidth; 13 exchanges of 114,688 B.
    const double exchange_ms = all_reduce_us(machine, machine.ideal, 8, 114'688) * 1e-3;
    check_near(model.draft_ms(machine.ideal, 0), 0.49 + 0.16 + 13 * exchange_ms);
    // Every layer reads all of the context, one KV head of 128 in bf16.
    const double context_ms = 6.0 * 2 * 128 * 2 * 100e3 / bandwidth * 1e3;
    check_near(model.draft_ms(machine.ideal, 100e3) - model.draft_ms(machine.ideal, 0), context_ms);
    check_near(cost_model(k26(true), placement(1)).draft_ms(machine.ideal, 0), 3.88 + 8 * 0.164);
    CHECK(cost_model(k26(), placement(8)).draft_ms(machine.ideal, 0) == 0);
}

TEST_CASE("cost: a prompt is bound by arithmetic, and long ones by attention") {
    const Machine machine = rtx();
    const CostModel model = cost_model(k26(), placement(8), KvFormat::fp8, machine, 8192);
    const StepCost prompt = model.prefill(machine.practical, 8192, 8192);
    // 31.69e9 active parameters, 1.17e9 of them in the head; q_a, kv_a and the router, 1.09e9, are
    // multiplied on every rank.
    check_near(prompt.matmul_ms, 2 * (31.69 - 1.17 + 7 * 1.09) * 8192 / 8 / 280);
    CHECK(prompt.matmul_ms > prompt.weights_ms);
    // vLLM's published prefill is 7.3k tokens/s at 8k and 4.8k at 128k (8 cards, TP8): a bound must
    // be above, and not by more than what its attention loses.
    const double rate_8k = 8192 / prompt.total_ms * 1e3;
    const double rate_128k = 131072 / model.prefill(machine.practical, 131072, 8192).total_ms * 1e3;
    CHECK(rate_8k > 7300);
    CHECK(rate_8k < 2 * 7300);
    CHECK(rate_128k > 4800);
    CHECK(rate_128k < rate_8k);
    // Chunks add up.
    const StepCost first = model.prefill(machine.practical, 4096, 4096);
    const StepCost both = model.prefill(machine.practical, 8192, 4096);
    CHECK(both.matmul_ms == doctest::Approx(2 * first.matmul_ms));
    CHECK(both.attention_ms > 2 * first.attention_ms);
}

TEST_CASE("cost: blocks of the attention kernel") {
    // One block per row, head and split.
    CHECK(unfolded_blocks(9, 8, 16) == 1152);
    CHECK(unfolded_blocks(9, 8, 64) == 4608);
    CHECK(folded_blocks(9, 8, 16) == 16);
    CHECK(folded_blocks(9, 8, 64) == 64);
    CHECK(folded_blocks(9, 64, 64) == 8 * 64);
    // 46k tokens over 188 multiprocessors: 4 tiles of 64 each; below 12k a tile each.
    CHECK(context_splits(46000, 188) == 180);
    CHECK(context_splits(4096, 188) == 64);
    CHECK(context_splits(12032, 188) == 188);
    CHECK(context_splits(12033, 188) == 95);
    CHECK(context_splits(0, 188) == 1);
    const AttentionGrid grid = cost_model(k26(), placement(8)).attention_grid(9, 46000);
    CHECK(grid.splits == 180);
    CHECK(grid.tiles_per_split == 4);
    CHECK(grid.folded == 180);
    CHECK(grid.unfolded == 9 * 8 * 180);
    const AttentionGrid split =
        cost_model(k26(), placement(8, AttentionSplit::context)).attention_grid(9, 46000);
    CHECK(split.splits == 90);
    CHECK(split.folded == 8 * 90);
}
