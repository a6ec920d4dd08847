#include "kernels/moe_experts.h"

#include "tests/kernel/moe_case.h"
#include "tests/kernel/ptxas_budget.h"

namespace kimi::test {
namespace {

TEST_CASE("kernel: moe_repack puts every weight and scale where the layout says") {
    constexpr std::uint32_t kRows = 48, kInputs = 192;
    const Int4Matrix first(kRows / 2, kInputs, 1), second(kRows / 2, kInputs, 2),
        alone(kRows, kInputs, 3);
    const Buffer<std::uint32_t> words[] = {
        {"w", first.words}, {"w", second.words}, {"w", alone.words}};
    const Buffer<bf16> scales[] = {{"s", first.scales}, {"s", second.scales}, {"s", alone.scales}};
    const auto rows = [&](std::size_t i) {
        return Int4Rows{words[i].data(), scales[i].data(), kInputs / 8, kInputs / 32};
    };
    for (const bool pair : {true, false}) {
        Buffer<std::uint8_t> to("to", moe_matrix_bytes(kRows, kInputs));
        check_clean(run(
            [&] {
                moe_repack(
                    {rows(pair ? 0 : 2), pair ? rows(1) : Int4Rows{}, kRows, kInputs, to.data()},
                    stream());
            },
            {.outputs = {&to}}));
        const auto bytes = to.download();
        const std::size_t units = moe_units(kRows, kInputs);
        for (std::size_t row = 0; row < kRows; ++row) {
            for (std::size_t input = 0; input < kInputs; ++input) {
                const std::size_t tile = row / 16, g = row % 8, upper = row % 16 / 8,
                                  unit = tile * (kInputs / 64) + input / 64;
                const Int4Matrix &from = !pair ? alone : upper ? second : first;
                const std::size_t from_row = pair ? tile * 8 + g : row;
                const std::size_t half = input % 64 / 32, lane = 4 * g + input % 32 / 8,
                                  j = input % 8;
                const std::size_t word = unit * 512 + lane * 16 + (2 * half + upper) * 4;
                const std::size_t nibble = j % 2 * 4 + j / 2;
                REQUIRE((bytes[word + nibble / 2] >> (4 * (nibble % 2)) & 15) ==
                        from.nibble(from_row, input));
                const std::size_t scale = units * 512 + unit * 64 + g * 8 + (2 * half + upper) * 2;
                const auto bits = static_cast<bf16>(bytes[scale] | bytes[scale + 1] << 8);
                REQUIRE(to_float(bits) == from.scale(from_row, input));
            }
        }
    }
}

TEST_CASE("kernel: moe_experts at the dimensions of nano-k2, for 0 to 64 rows") {
    for (const std::uint32_t n : {0U, 1U, 2U, 8U, 9U, 17U, 33U, 64U}) {
        MoeCase t{256, 256, {n, std::max(n, 1U), 32, 4}};
        CAPTURE(n);
        check_clean(t.run());
        t.check();
    }
}

TEST_CASE("kernel: moe_experts of rows that agree, and with whole experts") {
    MoeCase same{128, 64, {19, 24, 8, 2}};
    for (std::uint32_t row = 1; row < 19; ++row)
        std::copy_n(same.route.logits.begin(), 8, same.route.logits.begin() + row * 8);
    same.add = true;
    check_clean(same.run());
    same.check();
    MoeCase whole{64, 2048, {2, 2, 4, 2}};
    check_clean(whole.run());
    whole.check();
}

TEST_CASE("kernel: moe_experts where few blocks take turns on many tiles") {
    MoeCase t{192, 128, {6, 8, 16, 4}};
    t.n_sms = 2;
    check_clean(t.run());
    t.check();
}

TEST_CASE("kernel: moe_experts of slices of 64 rows, some of them not there") {
    MoeCase t{128, 128, {150, 200, 16, 4}};
    t.add = true;
    check_clean(t.run());
    t.check();
}

TEST_CASE("kernel: a row of moe_experts has the same bits alone and among others") {
    struct {
        std::uint32_t n, row;
    } const places[] = {{12, 5}, {130, 100}};
    for (const auto &place : places) {
        CAPTURE(place.n);
        MoeCase among{256, 256, {place.n, place.n, 32, 4}};
        check_clean(among.run());
        MoeCase alone{256, 256, {1, 1, 32, 4}};
        std::copy_n(among.route.logits.begin() + place.row * 32, 32, alone.route.logits.begin());
        std::copy_n(among.x.begin() + place.row * 256, 256, alone.x.begin());
        alone.n_sms = 3;
        check_clean(alone.run());
        CHECK(std::equal(alone.y.begin(), alone.y.end(), among.y.begin() + place.row * 256));
    }
}

#ifdef KIMI_SIMT
void check_stream(const Counters &c, const std::string &what, const std::string &buffer,
                  std::uint64_t bytes) {
    print_cost(what, c, bytes);
    const auto weights = c.buffer(buffer);
    CHECK(weights.distinct_bytes_read == bytes);
    CHECK(32 * weights.distinct_sectors_read <= 1.03 * static_cast<double>(bytes));
    CHECK(weights.loads.units <= 1.03 * static_cast<double>(weights.loads.ideal));
    std::uint64_t moved = 0;  // x, the activations and the plan are in L2
    for (const auto &b : c.buffers)
        moved += 32 * (b.distinct_sectors_read + b.distinct_sectors_written);
    CHECK(static_cast<double>(moved) <= 1.05 * static_cast<double>(bytes));
    CHECK(c.bank_conflicts() == 0);
}

TEST_CASE("kernel: moe_experts streams each chosen expert once, at the slices of a rank of 8") {
    for (const std::uint32_t n : {1U, 2U}) {
        MoeCase t{7168, 256, {n, n, 8, 4}};
        const Report r = t.run();
        check_clean(r);
        t.check();
        const std::uint64_t experts = t.route.n_groups.download()[0];
        const std::string rows =
            std::to_string(n) + " rows, " + std::to_string(experts) + " experts";
        check_stream(r.counters("moe_gate_up"), "moe_gate_up, " + rows, "gate_up",
                     experts * moe_matrix_bytes(512, 7168));
        check_stream(r.counters("moe_down"), "moe_down, " + rows, "down",
                     experts * moe_matrix_bytes(7168, 256));
    }
}

TEST_SUITE("slow") {
    TEST_CASE("kernel: moe_experts streams the experts of 9 rows, and whole ones") {
        MoeCase t{7168, 256, {9, 9, 40, 8}};
        const Report r = t.run();
        check_clean(r);
        t.check();
        const std::uint64_t experts = t.route.n_groups.download()[0];
        check_stream(r.counters("moe_gate_up"), "moe_gate_up, 9 rows", "gate_up",
                     experts * moe_matrix_bytes(512, 7168));
        check_stream(r.counters("moe_down"), "moe_down, 9 rows", "down",
                     experts * moe_matrix_bytes(7168, 256));
        MoeCase whole{7168, 2048, {2, 2, 3, 2}};
        check_clean(whole.run());
        whole.check();
    }
}
#endif

TEST_CASE("kernel: moe_experts fits its budget") {
    check_budget("kernels/moe_experts.cu",
                 {"moe_gate_up_kernel", 256, moe_gate_up_shared_bytes(), 2});
    for (const int rows : {1, 2, 4, 8}) {
        check_budget("kernels/moe_experts.cu", {"moe_down_kernelILi" + std::to_string(rows) + "E",
                                                32, moe_down_shared_bytes(), 3});
    }
    check_budget("kernels/moe_repack.cu", {"moe_repack_kernel", 128, 0, 8});
}

}  // namespace
}  // namespace kimi::test
