#include "kernels/draft_attend.h"

#include "kernels/attention_merge.h"
#include "kernels/draft_prepare.h"
#include "tests/kernel/ptxas_budget.h"
#include "tests/kernel/support.h"

namespace kimi::test {
namespace {

struct Draft {
    std::uint32_t n_heads, n_kv_heads, dim;
    std::vector<std::uint32_t> n_rows, first_position, begin;  // of each sequence
    std::uint32_t window = 0, ring_slots = 0;                  // 0: full layers, in pages
    std::uint32_t splits = 4;
    Report report = {};
    std::vector<float> out = {};  // [rows, heads, dim]

    std::uint32_t rows() const {
        std::uint32_t n = 0;
        for (const std::uint32_t x : n_rows) n += x;
        return n;
    }
    std::size_t entry_size() const { return std::size_t{2} * n_kv_heads * dim; }
    // The entry of a position of the context, or of a row of the block behind it.
    std::vector<bf16> entry(std::size_t sequence, std::uint32_t position) const {
        return random_bf16(entry_size(), static_cast<unsigned>(sequence * 10'007 + position));
    }
    std::vector<bf16> queries() const {
        return random_bf16(std::size_t{rows()} * n_heads * dim, 3, 3);
    }

    void run() {
        const std::size_t n = n_rows.size();
        constexpr std::uint32_t kStride = 8;
        std::vector<std::uint32_t> pages;
        for (std::uint32_t i = 0; i < n * kStride; ++i)
            pages.push_back((i * 5 + 3) % static_cast<std::uint32_t>(n * kStride));
        const std::size_t entries = ring_slots > 0 ? n * ring_slots : pages.size() * kDraftTile;
        Buffer<bf16> context("context", entries * entry_size()),
            block("block", rows() * entry_size());
        std::vector<DraftSpan> spans;
        std::uint32_t row = 0, longest = 0, most_rows = 0;
        for (std::size_t s = 0; s < n; ++s) {
            for (std::uint32_t at = begin[s]; at < first_position[s]; ++at) {
                const std::size_t place =
                    ring_slots > 0 ? s * ring_slots + at % ring_slots
                                   : std::size_t{pages[s * kStride + at / 64]} * 64 + at % 64;
                context.upload(entry(s, at), place * entry_size());
            }
            for (std::uint32_t i = 0; i < n_rows[s]; ++i)
                block.upload(entry(s, first_position[s] + i), (row + i) * entry_size());
            spans.push_back(
                {row, n_rows[s], first_position[s], begin[s], static_cast<std::uint32_t>(s), {}});
            row += n_rows[s];
            longest = std::max(longest, first_position[s] - begin[s]);
            most_rows = std::max(most_rows, n_rows[s]);
        }
        const Buffer<bf16> q("q", queries());
        const Buffer<std::uint32_t> page_table("pages", pages),
            n_sequences("n_sequences", one(static_cast<std::uint32_t>(n)));
        const Buffer<DraftSpan> sequences("sequences", spans);
        const Buffer<std::uint32_t> n_parts("n_parts", rows()),
            n_rows_device("n_rows", one(rows()));
        const std::size_t parts = splits + 1;
        const Buffer<float> part_out("part_out", parts * rows() * n_heads * dim),
            part_lse("part_lse", parts * rows() * n_heads);
        Buffer<float> merged("merged", std::size_t{rows()} * n_heads * dim);
        report = test::run(
            [&] {
                draft_attend({q.data(),         block.data(),
                              context.data(),   n_sequences.data(),
                              sequences.data(), ring_slots > 0 ? nullptr : page_table.data(),
                              kStride,          ring_slots,
                              window,           static_cast<std::uint32_t>(n),
                              most_rows,        longest,
                              splits,           n_heads,
                              n_kv_heads,       dim,
                              part_out.data(),  part_lse.data(),
                              n_parts.data(),   static_cast<int>(rows())},
                             stream());
                attention_merge(
                    {part_out.data(), part_lse.data(), n_parts.data(), n_rows_device.data(),
                     static_cast<int>(n_heads), static_cast<int>(dim), static_cast<int>(rows()),
                     static_cast<int>(rows()), nullptr, merged.data(), nullptr},
                    stream());
            },
            {.outputs = {&merged}});
        out = merged.download();
    }
    void check() const {
        check_clean(report);
        const std::vector<float> q = widened(queries());
        std::vector<float> expected;
        std::uint32_t first_row = 0;
        for (std::size_t s = 0; s < n_rows.size(); ++s) {
            const std::uint32_t end = first_position[s] + n_rows[s];
            std::vector<std::vector<float>> kv(end);
            for (std::uint32_t at = begin[s]; at < end; ++at) kv[at] = widened(entry(s, at));
            for (std::uint32_t r = 0; r < n_rows[s]; ++r) {
                for (std::uint32_t h = 0; h < n_heads; ++h) {
                    const float *query =
                        q.data() + (std::size_t{first_row + r} * n_heads + h) * dim;
                    const std::size_t head = std::size_t{h / (n_heads / n_kv_heads)} * dim;
                    std::vector<double> sums(dim);
                    double total = 0;
                    for (std::uint32_t at = begin[s]; at < end; ++at) {
                        const std::uint32_t position = first_position[s] + r;
                        if (window > 0 && at < first_position[s] && position - at >= window)
                            continue;
                        double dot = 0;
                        for (std::size_t d = 0; d < dim; ++d)
                            dot += double{query[d]} * kv[at][head + d];
                        const double weight = std::exp(dot / std::sqrt(dim));
                        total += weight;
                        for (std::size_t d = 0; d < dim; ++d)
                            sums[d] += weight * kv[at][std::size_t{n_kv_heads} * dim + head + d];
                    }
                    for (const double x : sums) expected.push_back(static_cast<float>(x / total));
                }
            }
            first_row += n_rows[s];
        }
        check_close(out, expected, 0.01);
    }
};

TEST_CASE("kernel: draft_attend sees the block both ways and its context in pages") {
    for (const std::uint32_t context : {0U, 1U, 63U, 64U, 65U, 300U}) {
        for (const std::uint32_t n : {1U, 8U, 17U}) {
            Draft k26{8, 1, 128, {n}, {context}, {0}};
            k26.run();
            CAPTURE(context);
            CAPTURE(n);
            k26.check();
            Draft nano{8, 2, 32, {n, 3}, {context, 130}, {0, 70}};
            nano.run();
            nano.check();
        }
    }
    Draft wide{16, 4, 64, {64}, {200}, {0}};
    wide.splits = 2;
    wide.run();
    wide.check();
}

TEST_CASE("kernel: draft_attend of sliding layers sees the window, wherever the ring begins") {
    for (const std::uint32_t context : {0U, 50U, 100U, 127U, 128U, 129U, 400U}) {
        Draft t{8, 2, 32, {8, 1}, {context, 70}, {context > 110 ? context - 110 : 0, 40}, 100, 128};
        t.splits = 2;
        t.run();
        CAPTURE(context);
        t.check();
    }
}

TEST_CASE("kernel: a block of draft_attend has the same bits alone and among others") {
    Draft alone{8, 1, 128, {8}, {300}, {0}}, among{8, 1, 128, {8, 20}, {300, 310}, {0, 0}};
    alone.run();
    among.run();
    const auto a = alone.queries(), b = among.queries();
    REQUIRE(std::equal(a.begin(), a.end(), b.begin()));
    CHECK(std::equal(alone.out.begin(), alone.out.end(), among.out.begin()));
}

#ifdef KIMI_SIMT
TEST_CASE("kernel: draft_attend reads the context once, without bank conflicts") {
    Draft t{8, 1, 128, {8}, {448}, {0}};
    t.run();
    t.check();
    const Counters &c = t.report.counters("draft_attend");
    const std::uint64_t kv = 448 * 2 * 128 * 2;
    print_cost("draft_attend, 8 rows of 8 heads, 448 tokens", c,
               kv + 8 * 2 * 128 * 2 + 64 * 128 * 2 + 5 * 64 * 129 * 4);
    const auto traffic = c.buffer("context");
    CHECK(traffic.loads.bytes == kv);
    CHECK(traffic.loads.excess() == 0);
    CHECK(c.bank_conflicts() == 0);
}
#endif

TEST_CASE("kernel: draft_prepare normalises and rotates heads, and writes entries") {
    struct {
        std::uint32_t heads, kv_heads, dim;
    } const shapes[] = {{8, 1, 128}, {8, 2, 32}, {3, 1, 64}};
    for (const auto &shape : shapes) {
        for (const bool cached : {false, true}) {
            constexpr std::uint32_t kRows = 5, kMaxRows = 6;
            const std::uint32_t dim = shape.dim;
            const auto q = random_floats(std::size_t{kMaxRows} * shape.heads * dim, 1, 3),
                       k = random_floats(std::size_t{kMaxRows} * shape.kv_heads * dim, 2, 3);
            const auto v = random_floats(k.size(), 3),
                       rope = random_floats(std::size_t{kMaxRows} * dim, 4);
            const auto q_norm = random_bf16(dim, 5, 2), k_norm = random_bf16(dim, 6, 2);
            const std::vector<std::uint32_t> entry = {7, 2, 9, 0, 4, 1};
            const Buffer<float> q_in("q", q), k_in("k", k), v_in("v", v), rope_in("rope", rope);
            const Buffer<bf16> q_weight("q_norm", q_norm), k_weight("k_norm", k_norm);
            Buffer<bf16> q_out("q_out", q.size()),
                entries("entries", std::size_t{10} * 2 * shape.kv_heads * dim);
            const Buffer<std::uint32_t> entry_device("entry", entry), n_rows("n_rows", one(kRows));
            check_clean(run([&] {
                draft_prepare({cached ? nullptr : q_in.data(), k_in.data(), v_in.data(),
                               q_weight.data(), k_weight.data(), rope_in.data(), q_out.data(),
                               entries.data(), cached ? entry_device.data() : nullptr,
                               n_rows.data(), kMaxRows, shape.heads, shape.kv_heads, dim, 1e-6F},
                              stream());
            }));
            const auto got_q = widened(q_out.download()), got = widened(entries.download());
            const auto check_head = [&](const float *head, std::size_t row,
                                        const std::vector<bf16> &norm, const float *out) {
                double squares = 0;
                for (std::uint32_t i = 0; i < dim; ++i) squares += double{head[i]} * head[i];
                const double factor = 1 / std::sqrt(squares / dim + 1e-6);
                for (std::uint32_t i = 0; i < dim; ++i) {
                    const std::uint32_t pair = i % (dim / 2);
                    const double a = head[pair] * factor * to_float(norm[pair]),
                                 b = head[pair + dim / 2] * factor * to_float(norm[pair + dim / 2]);
                    const double cos = rope[row * dim + pair],
                                 sin = rope[row * dim + dim / 2 + pair];
                    const double value = i < dim / 2 ? a * cos - b * sin : b * cos + a * sin;
                    REQUIRE(std::fabs(out[i] - value) <= kBf16Error * std::fabs(value) + 1e-5);
                }
            };
            for (std::size_t row = 0; row < kRows; ++row) {
                for (std::size_t h = 0; h < shape.heads && !cached; ++h) {
                    const std::size_t at = (row * shape.heads + h) * dim;
                    check_head(q.data() + at, row, q_norm, got_q.data() + at);
                }
                for (std::size_t h = 0; h < shape.kv_heads; ++h) {
                    const std::size_t from = (row * shape.kv_heads + h) * dim;
                    const std::size_t to =
                        ((cached ? entry[row] : row) * 2 * shape.kv_heads + h) * dim;
                    check_head(k.data() + from, row, k_norm, got.data() + to);
                    for (std::size_t i = 0; i < dim; ++i)
                        REQUIRE(got[to + shape.kv_heads * dim + i] ==
                                to_float(to_bf16(v[from + i])));
                }
            }
            CHECK(std::isnan(got[std::size_t{8} * 2 * shape.kv_heads * dim]));  // no row has it
        }
    }
}

TEST_CASE("kernel: draft_attend and draft_prepare fit their budgets") {
    check_budget("kernels/draft_attend.cu",
                 {"draft_attend_kernelILi128E", 128, draft_attend_shared_bytes(128), 1});
    check_budget("kernels/draft_attend.cu",
                 {"draft_attend_kernelILi64E", 128, draft_attend_shared_bytes(64), 2});
    check_budget("kernels/draft_attend.cu",
                 {"draft_attend_kernelILi32E", 128, draft_attend_shared_bytes(32), 4});
    check_budget("kernels/draft_prepare.cu", {"draft_prepare_kernel", 128, 0, 8});
}

}  // namespace
}  // namespace kimi::test
