#include "kernels/skinny_gemm.h"

#include "tests/kernel/ptxas_budget.h"
#include "tests/kernel/support.h"

namespace kimi::test {
namespace {

struct Job {
    std::uint32_t outputs;
    bool to_bf16 = false, add = false;
};

struct Gemm {
    std::uint32_t n, max_rows, inputs;
    std::vector<Job> jobs;
    SkinnyGemmTiles tiles = skinny_gemm_tiles(max_rows, total_outputs(), inputs, 188);
    unsigned seed = 1;
    std::vector<std::vector<float>> y = {};  // of each job, [n, outputs]

    std::uint32_t total_outputs() const {
        std::uint32_t total = 0;
        for (const Job &job : jobs) total += job.outputs;
        return total;
    }
    std::vector<bf16> x() const { return random_bf16(std::size_t{n} * inputs, seed); }
    std::vector<bf16> weight(std::size_t job) const {
        return random_bf16(std::size_t{jobs[job].outputs} * inputs,
                           seed + 100 + static_cast<unsigned>(job));
    }
    std::vector<float> before(std::size_t job) const {
        return widened(random_bf16(std::size_t{n} * jobs[job].outputs,
                                   seed + 200 + static_cast<unsigned>(job)));
    }

    Report run() {
        Buffer<bf16> x_device("x", std::size_t{max_rows} * inputs);
        x_device.upload(x());  // other rows must not be read
        const Buffer<std::uint32_t> n_rows("n_rows", one(n));
        SkinnyGemmParams p{.x = x_device.data(),
                           .n_rows = n_rows.data(),
                           .max_rows = max_rows,
                           .inputs = inputs,
                           .n_jobs = static_cast<std::uint32_t>(jobs.size()),
                           .tiles = tiles};
        std::vector<std::unique_ptr<Buffer<bf16>>> weights, narrow;
        std::vector<std::unique_ptr<Buffer<float>>> wide;
        for (std::size_t j = 0; j < jobs.size(); ++j) {
            const std::size_t size = std::size_t{max_rows} * jobs[j].outputs;
            weights.push_back(std::make_unique<Buffer<bf16>>("weight", weight(j)));
            narrow.push_back(std::make_unique<Buffer<bf16>>("y_bf16", size));
            wide.push_back(std::make_unique<Buffer<float>>("y", size));
            if (jobs[j].add) narrow[j]->upload(narrowed(before(j)));
            if (jobs[j].add) wide[j]->upload(before(j));
            p.jobs[j] = {weights[j]->data(), jobs[j].to_bf16 ? nullptr : wide[j]->data(),
                         jobs[j].to_bf16 ? narrow[j]->data() : nullptr, jobs[j].outputs,
                         jobs[j].add};
        }
        const SkinnyGemmWorkspace size = skinny_gemm_workspace(p);
        Buffer<float> partial("partial", std::max<std::size_t>(size.partial, 1));
        const Buffer<std::uint32_t> arrived(
            "arrived", std::vector<std::uint32_t>(std::max<std::size_t>(size.arrived, 1)));
        p.partial = partial.data();
        p.arrived = arrived.data();
        const Report r = test::run([&] { skinny_gemm(p, stream()); });
        for (const std::uint32_t count : arrived.download()) CHECK(count == 0);
        y.clear();
        for (std::size_t j = 0; j < jobs.size(); ++j) {
            y.push_back(jobs[j].to_bf16 ? widened(narrow[j]->download()) : wide[j]->download());
            for (std::size_t i = std::size_t{n} * jobs[j].outputs; i < y[j].size(); ++i)
                REQUIRE(std::isnan(y[j][i]));
            y[j].resize(std::size_t{n} * jobs[j].outputs);
        }
        return r;
    }
    void check() const {
        const std::vector<float> in = widened(x());
        for (std::size_t j = 0; j < jobs.size(); ++j) {
            const std::vector<float> w = widened(weight(j));
            std::vector<float> expected = jobs[j].add ? before(j) : std::vector<float>(y[j].size());
            for (std::size_t i = 0; i < expected.size(); ++i) {
                const float *a = in.data() + i / jobs[j].outputs * inputs,
                            *b = w.data() + i % jobs[j].outputs * inputs;
                double sum = 0;
                for (std::uint32_t k = 0; k < inputs; ++k) sum += double{a[k]} * b[k];
                expected[i] += static_cast<float>(sum);
            }
            check_close(y[j], expected,
                        jobs[j].to_bf16 ? std::sqrt(inputs) * 2 * kBf16Error : 1e-4);
        }
    }
    void run_and_check() {
        CAPTURE(n);
        CAPTURE(inputs);
        CAPTURE(jobs[0].outputs);
        check_clean(run());
        check();
    }
};

TEST_CASE("kernel: skinny_gemm at the edges of its tiles") {
    for (const std::uint32_t inputs : {8U, 56U, 64U, 72U, 248U, 256U, 264U, 1040U}) {
        for (const std::uint32_t outputs : {4U, 12U, 16U, 20U, 36U}) {
            for (const std::uint32_t output_tiles : {1U, 2U}) {
                Gemm t{3, 3, inputs, {{outputs}}};
                t.tiles.output_tiles = output_tiles;
                t.run_and_check();
            }
        }
    }
}

TEST_CASE("kernel: skinny_gemm for 1 to 64 rows, where not all of the bucket are in use") {
    for (std::uint32_t n = 1; n <= 64; ++n) {
        Gemm{n, n, 192, {{32}}}.run_and_check();
        Gemm{n, 64, 64, {{16, true}}}.run_and_check();
    }
    Gemm{0, 8, 64, {{16}}}.run_and_check();
}

TEST_CASE("kernel: skinny_gemm of several matrices, added to what is there, in fp32 and in bf16") {
    Gemm{5, 8, 320, {{20, false, true}, {16, true, true}, {52, true}, {4}}}.run_and_check();
}

TEST_CASE("kernel: skinny_gemm whose inputs are split among blocks") {
    for (const std::uint32_t splits : {2U, 3U, 5U}) {
        Gemm t{9, 9, 1304, {{40}, {12, true, true}}};
        t.tiles.splits = splits;
        t.run_and_check();
    }
}

TEST_CASE("kernel: skinny_gemm absorbs the queries of each head in place") {
    // q [rows, heads, nope | rope] times W_UK of its head -> [rows, heads, 512 | rope]
    constexpr std::uint32_t kHeads = 3, kNope = 128, kRope = 64, kLatent = 512, kRows = 5;
    const std::vector<bf16> q = random_bf16(std::size_t{kRows} * kHeads * (kNope + kRope), 1);
    const std::vector<bf16> w = random_bf16(std::size_t{kHeads} * kLatent * kNope, 2);
    const Buffer<bf16> q_device("q", q), w_device("w", w);
    Buffer<float> y("y", std::size_t{kRows} * kHeads * (kLatent + kRope));
    const Buffer<std::uint32_t> n_rows("n_rows", one(kRows));
    SkinnyGemmParams p{.x = q_device.data(),
                       .n_rows = n_rows.data(),
                       .max_rows = kRows,
                       .inputs = kNope,
                       .n_jobs = 1,
                       .batches = kHeads,
                       .x_row = kHeads * (kNope + kRope),
                       .x_batch = kNope + kRope,
                       .tiles = skinny_gemm_tiles(kRows, kHeads * kLatent, kNope, 188)};
    p.jobs[0] = {w_device.data(), y.data(), nullptr, kLatent, false, kHeads * (kLatent + kRope),
                 kLatent + kRope};
    check_clean(run([&] { skinny_gemm(p, stream()); }));
    const std::vector<float> got = y.download();
    for (std::size_t i = 0; i < got.size(); ++i) {
        const std::size_t row_head = i / (kLatent + kRope), column = i % (kLatent + kRope);
        if (column >= kLatent) {
            REQUIRE(std::isnan(got[i]));
            continue;
        }
        double sum = 0;
        for (std::size_t k = 0; k < kNope; ++k) {
            sum += double{to_float(q[row_head * (kNope + kRope) + k])} *
                   to_float(w[(row_head % kHeads * kLatent + column) * kNope + k]);
        }
        REQUIRE(std::fabs(got[i] - sum) < 1e-4);
    }
}

TEST_CASE("kernel: a row of skinny_gemm has the same bits whatever the number of rows") {
    const std::uint32_t inputs = 7168, outputs = 64;
    Gemm all{64, 64, inputs, {{outputs}}};
    check_clean(all.run());
    for (const std::uint32_t n : {1U, 9U, 17U, 33U}) {
        Gemm few{n, n, inputs, {{outputs}}};
        CHECK(few.tiles.splits == all.tiles.splits);
        check_clean(few.run());
        CHECK(std::equal(few.y[0].begin(), few.y[0].end(), all.y[0].begin()));
    }
}

TEST_CASE("kernel: skinny_gemm_tiles fills the SMs, with the same splits for any number of rows") {
    struct {
        std::uint32_t outputs, inputs;
    } const shapes[] = {{2112, 7168}, {1536, 1536}, {7168, 1024}, {896, 7168},
                        {7168, 256},  {4608, 7168}, {20480, 7168}};
    for (const auto &shape : shapes) {
        const SkinnyGemmTiles one_row = skinny_gemm_tiles(1, shape.outputs, shape.inputs, 188);
        for (std::uint32_t rows = 1; rows <= 64; ++rows) {
            const SkinnyGemmTiles tiles = skinny_gemm_tiles(rows, shape.outputs, shape.inputs, 188);
            CHECK(tiles.splits == one_row.splits);
            CHECK(tiles.row_tiles * 8 >= rows);
            CHECK(skinny_gemm_shared_bytes(tiles) <= 101'376 - 1024);
        }
        CHECK(one_row.splits * 1024 <= std::max(1024U, shape.inputs));
    }
    CHECK(skinny_gemm_tiles(9, 20480, 7168, 188) == SkinnyGemmTiles{2, 1, 1});
    CHECK(skinny_gemm_tiles(64, 20480, 7168, 188) == SkinnyGemmTiles{8, 2, 1});
    CHECK(skinny_gemm_tiles(1, 2112, 7168, 188) == SkinnyGemmTiles{1, 1, 2});
}

#ifdef KIMI_SIMT
void check_cost(const std::string &what, Gemm t) {
    const Report r = t.run();
    check_clean(r);
    t.check();
    const Counters &c = r.counters("skinny_gemm");
    std::uint64_t must_move = 2ULL * t.n * t.inputs;
    for (const Job &job : t.jobs)
        must_move += 2ULL * t.inputs * job.outputs + 4ULL * t.n * job.outputs;
    print_cost("skinny_gemm, " + what, c, must_move);
    const auto weight = c.buffer("weight");
    CHECK(weight.loads.bytes == 2ULL * t.inputs * t.total_outputs());
    CHECK(weight.loads.units <= 1.03 * static_cast<double>(weight.loads.ideal));
    std::uint64_t moved = 0;  // partial sums stay in L2
    for (const auto &b : c.buffers) {
        if (b.name != "partial")
            moved += 32 * (b.distinct_sectors_read + b.distinct_sectors_written);
    }
    CHECK(static_cast<double>(moved) <= 1.05 * static_cast<double>(must_move));
    CHECK(c.bank_conflicts() == 0);
}

TEST_CASE("kernel: skinny_gemm streams each weight once, at the shapes of a rank of 8") {
    check_cost("q_a and kv_a, 1 row", {1, 1, 7168, {{1536}, {576}}});
    check_cost("q_b, 9 rows", {9, 9, 1536, {{1536}}});
    check_cost("o, 9 rows", {9, 9, 1024, {{1792}}});  // a quarter of its outputs
    check_cost("router, shared gate and up, 9 rows", {9, 9, 7168, {{384}, {256}, {256}}});
    check_cost("shared down, 64 rows", {64, 64, 256, {{1024}}});
    check_cost("the head of nano-k2, 5 rows", {5, 5, 256, {{4096}}});
}

TEST_SUITE("slow") {
    TEST_CASE("kernel: skinny_gemm streams the head and the dense layer of a rank of 8") {
        check_cost("head, 1 row", {1, 1, 7168, {{20'480}}});
        check_cost("head, 9 rows", {9, 9, 7168, {{20'480}}});
        check_cost("dense gate and up, 64 rows", {64, 64, 7168, {{2304}, {2304}}});
    }
}
#endif

TEST_CASE("kernel: skinny_gemm fits its budget") {
    for (const unsigned rows : {1U, 2U, 4U, 8U}) {
        for (const unsigned outputs : {1U, 2U}) {
            const std::string name = "skinny_gemm_kernelILi" + std::to_string(rows) + "ELi" +
                                     std::to_string(outputs) + "E";
            check_budget(
                "kernels/skinny_gemm.cu",
                {name, 128, skinny_gemm_shared_bytes({rows, outputs, 1}), outputs == 1 ? 2U : 1U});
        }
    }
}

}  // namespace
}  // namespace kimi::test
