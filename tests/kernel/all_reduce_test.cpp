#include "kernels/all_reduce.h"

#include "tests/kernel/ptxas_budget.h"
#include "tests/kernel/support.h"

#ifdef KIMI_SIMT

namespace kimi::test {
namespace {

// One rank's memory; it outlives many calls.
struct Rank {
    Buffer<bf16> partial, sum;
    Buffer<std::uint32_t> flags, generation{"generation", 2}, failed{"failed", one(0)},
        n_rows{"n_rows", 1};
    Buffer<float> in, x;
    Buffer<bf16> y;

    Rank(std::uint32_t ranks, std::uint32_t rows, std::uint32_t width, std::uint32_t calls)
        : partial("partial", all_reduce_elements(rows, width)),
          sum("sum", all_reduce_elements(rows, width)),
          flags("flags", std::vector<std::uint32_t>(all_reduce_flags(ranks, rows), calls)),
          in("in", std::size_t{rows} * width),
          x("x", std::size_t{rows} * width),
          y("y", std::size_t{rows} * width) {
        generation.upload(std::vector<std::uint32_t>{calls, 0});
        // Two calls write the same places.
        partial.memory().may_overlap = sum.memory().may_overlap = flags.memory().may_overlap = true;
    }
};

struct World {
    std::uint32_t ranks, max_rows, width;
    std::uint32_t calls = 0;  // made before
    std::uint64_t timeout_ns = 1'000'000'000;
    std::vector<std::unique_ptr<Rank>> rank = {};
    Buffer<bf16> norm{"norm", random_bf16(width, 99, 2)};

    void start() {
        for (std::uint32_t r = 0; r < ranks; ++r)
            rank.push_back(std::make_unique<Rank>(ranks, max_rows, width, calls));
    }
    AllReduceParams params(std::uint32_t r, bool two_shots, bool with_norm) const {
        AllReduceParams p{.rank = r, .n_ranks = ranks, .buffer_rows = max_rows};
        for (std::uint32_t i = 0; i < ranks; ++i)
            p.buffer[i] = {rank[i]->partial.data(), rank[i]->sum.data(), rank[i]->flags.data()};
        Rank &own = *rank[r];
        p.generation = own.generation.data();
        p.failed = own.failed.data();
        p.partial = own.in.data();
        p.x = own.x.data();
        if (with_norm) p.norm = norm.data();
        p.y = own.y.data();
        p.n_rows = own.n_rows.data();
        p.max_rows = max_rows;
        p.width = width;
        p.eps = 1e-5F;
        p.two_shots = two_shots;
        p.timeout_ns = timeout_ns;
        return p;
    }
    std::vector<float> input(std::uint32_t r, std::uint32_t n) const {
        return random_floats(std::size_t{n} * width, 10 + r, 2);
    }
    std::vector<float> residual(std::uint32_t n) const {
        return random_floats(std::size_t{n} * width, 5);
    }
    void load(std::uint32_t n) {
        for (std::uint32_t r = 0; r < ranks; ++r) {
            rank[r]->in.upload(input(r, n));
            rank[r]->x.upload(residual(n));
            rank[r]->n_rows.upload(one(n));
        }
    }
    Report run(bool two_shots, bool with_norm = true, std::uint32_t repeats = 1) const {
        std::vector<std::function<void()>> devices;
        for (std::uint32_t r = 0; r < ranks; ++r) {
            devices.push_back([this, r, two_shots, with_norm, repeats] {
                for (std::uint32_t i = 0; i < repeats; ++i)
                    all_reduce(params(r, two_shots, with_norm), stream());
            });
        }
        return run_together(devices);
    }
    // After one call.
    void check(std::uint32_t n) const {
        std::vector<float> x = residual(n), y;
        std::vector<float> total(x.size());
        for (std::uint32_t r = 0; r < ranks; ++r) {
            const auto in = input(r, n);
            for (std::size_t i = 0; i < in.size(); ++i) total[i] += to_float(to_bf16(in[i]));
        }
        for (std::size_t i = 0; i < x.size(); ++i) x[i] += to_float(to_bf16(total[i]));
        const auto weight = widened(norm.download());
        double largest = 0;
        for (std::uint32_t row = 0; row < n; ++row) {
            double squares = 0;
            for (std::uint32_t c = 0; c < width; ++c)
                squares += double{x[row * width + c]} * x[row * width + c];
            for (std::uint32_t c = 0; c < width; ++c) {
                y.push_back(static_cast<float>(x[row * width + c] /
                                               std::sqrt(squares / width + 1e-5) * weight[c]));
                largest = std::max(largest, std::fabs(double{y.back()}));
            }
        }
        for (const auto &r : rank) {
            CHECK(r->failed.download()[0] == 0);
            CHECK(r->generation.download()[0] == calls + 1);
            auto got = r->x.download();
            got.resize(x.size());
            CHECK(got == x);
            auto got_y = widened(r->y.download());
            got_y.resize(y.size());
            check_close(got_y, y, largest * kBf16Error);
        }
    }
};

TEST_CASE("kernel: all_reduce adds in the order of ranks and rounds once, in one shot and in two") {
    for (const bool two_shots : {false, true}) {
        for (const std::uint32_t ranks : {1U, 2U, 4U, 8U}) {
            for (const std::uint32_t n : {1U, 3U}) {
                World w{ranks, 3, ranks == 8 && n == 1 ? 7168U : 256U};
                w.start();
                w.load(n);
                check_clean(w.run(two_shots));
                CAPTURE(two_shots);
                CAPTURE(ranks);
                w.check(n);
            }
        }
    }
}

TEST_CASE("kernel: all_reduce works on while its generation wraps around") {
    for (const std::uint32_t calls : {0x7FFFFFFEU, 0x7FFFFFFFU, 0xFFFFFFFEU, 0xFFFFFFFFU}) {
        World w{4, 2, 256, calls};
        w.start();
        w.load(2);
        check_clean(w.run(true));
        w.check(2);
    }
}

TEST_CASE("kernel: many calls of all_reduce in a row use both halves, with any number of rows") {
    World w{3, 4, 192};
    w.start();
    w.load(4);
    check_clean(w.run(false, false, 7));
    for (std::uint32_t r = 0; r < 3; ++r) w.rank[r]->n_rows.upload(one(0));
    check_clean(w.run(true, false, 2));
    for (std::uint32_t r = 0; r < 3; ++r) w.rank[r]->n_rows.upload(one(1));
    check_clean(w.run(true, false, 3));
    // x += sum, seven times for all rows, then three times for the first.
    std::vector<float> x = w.residual(4), total(x.size());
    for (std::uint32_t r = 0; r < 3; ++r) {
        const auto in = w.input(r, 4);
        for (std::size_t i = 0; i < in.size(); ++i) total[i] += to_float(to_bf16(in[i]));
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
        for (int call = 0; call < (i < 192 ? 10 : 7); ++call) x[i] += to_float(to_bf16(total[i]));
    }
    for (const auto &r : w.rank) {
        CHECK(r->x.download() == x);
        CHECK(r->generation.download()[0] == 12);
        CHECK(r->failed.download()[0] == 0);
    }
}

TEST_CASE("kernel: all_reduce gives up on a rank that does not come, and names it") {
    World w{3, 2, 192, 0, 50'000};
    w.start();
    w.load(2);
    check_clean(run_together({[&] { all_reduce(w.params(0, false, true), stream()); },
                              [&] { all_reduce(w.params(1, false, true), stream()); }}));
    CHECK(w.rank[0]->failed.download()[0] == 1 + 2);
    CHECK(w.rank[1]->failed.download()[0] == 1 + 2);
    CHECK(w.rank[0]->x.download() == w.residual(2));
}

TEST_CASE("kernel: all_reduce reads from peers what the wire must carry") {
    for (const bool two_shots : {false, true}) {
        World w{4, 2, 7168};
        w.start();
        w.load(2);
        const Report r = w.run(two_shots);
        check_clean(r);
        const std::uint64_t rows = 2 * 7168 * 2;
        for (const auto &launch : r.launches) {
            const std::uint64_t read = launch.counters.buffer("partial").loads.bytes +
                                       launch.counters.buffer("sum").loads.bytes;
            CHECK(read == (two_shots ? rows + rows : 4 * rows));  // own memory included
            CHECK(launch.counters.buffer("partial").loads.excess() == 0);
            CHECK(launch.counters.buffer("sum").loads.excess() == 0);
            CHECK(launch.counters.bank_conflicts() == 0);
        }
    }
}

TEST_CASE("kernel: all_reduce fits its budget") {
    check_budget("kernels/all_reduce.cu", {"all_reduce_kernelILb0E", 896, 0, 1});
    check_budget("kernels/all_reduce.cu", {"all_reduce_kernelILb1E", 896, 0, 1});
    CHECK_FALSE(all_reduce_two_shots(3, 7168));
    CHECK(all_reduce_two_shots(4, 7168));
}

}  // namespace
}  // namespace kimi::test

#endif
