#include "kernels/mla_verify_paged.h"

#include "tests/kernel/mla_case.h"
#include "tests/kernel/ptxas_budget.h"

namespace kimi::test {
namespace {

void check_at(std::uint32_t context, bool fp8) {
    MlaCase c{.n_heads = 8, .fp8 = fp8, .sequences = {{decode_row(context)}}};
    c.place(false);
    CAPTURE(fp8);
    CAPTURE(context);
    c.check(c.run());
}

// The values of rows [first, first + n) of a result.
std::vector<float> rows_of(const MlaCase &c, const MlaCase::Result &r, std::size_t first,
                           std::size_t n) {
    const std::size_t width = static_cast<std::size_t>(c.n_heads) * kMlaLatent;
    return {r.out.begin() + static_cast<std::ptrdiff_t>(first * width),
            r.out.begin() + static_cast<std::ptrdiff_t>((first + n) * width)};
}

TEST_CASE("kernel: mla_verify_paged around the edges of tiles and pages") {
    for (const std::uint32_t context : {1U, 2U, 31U, 32U, 33U, 63U, 64U, 65U, 127U, 128U, 129U,
                                        191U, 192U, 193U, 255U, 256U, 257U}) {
        check_at(context, false);
        check_at(context, true);
    }
}

TEST_CASE("kernel: mla_verify_paged at contexts of up to 5,000 tokens") {
    for (const std::uint32_t context : {703U, 1024U, 5000U}) {
        check_at(context, false);
        check_at(context, true);
    }
}

TEST_CASE("kernel: mla_verify_paged for trees of every width") {
    for (std::uint32_t width = 1; width <= 64; ++width) {
        MlaCase c{.n_heads = 8,
                  .fp8 = width % 2 == 0,
                  .sequences = {{tree_rows(width == 33 ? 190 : width, width, width)}}};
#ifdef KIMI_SIMT
        c.options = {.races = width % 16 == 1, .counters = width % 16 == 1};
#endif
        c.place(width % 3 == 0, width);
        CAPTURE(width);
        c.check(c.run());
    }
}

TEST_CASE("kernel: mla_verify_paged for 8 to 64 heads and every size of a group") {
    struct {
        int heads;
        std::uint32_t rows;
    } const shapes[] = {{8, 2}, {8, 3}, {8, 4},  {8, 5},  {8, 6},  {8, 7},
                        {8, 8}, {8, 9}, {12, 2}, {16, 3}, {32, 1}, {64, 2}};
    for (const auto &shape : shapes) {
        for (const bool fp8 : {false, true}) {
            MlaCase c{
                .n_heads = shape.heads, .fp8 = fp8, .sequences = {{prompt_rows(223, shape.rows)}}};
            c.place(false);
            CAPTURE(shape.heads);
            CAPTURE(shape.rows);
            c.check(c.run());
        }
    }
}

TEST_CASE("kernel: mla_verify_paged where rows of a block see different shared pages, or none") {
    // Contexts of 100 to 163 end in pages 1 and 2; 600 to 663 have splits of 1 and of 2 pages.
    for (const std::uint32_t last : {163U, 663U}) {
        MlaCase c{.n_heads = 8, .sequences = {{prompt_rows(last, 64)}}};
        c.place(false);
        c.check(c.run());
    }
}

TEST_CASE("kernel: mla_verify_paged with the largest score in any tile") {
    for (const std::int64_t aim : {0, 31, 64, 200, 299}) {
        MlaCase c{.n_heads = 8, .fp8 = aim % 2 == 1, .sequences = {{decode_row(300)}}, .splits = 2};
        c.aim = aim;
        c.place(false);
        const auto r = c.run();
        c.check(r);
        check_close(
            {r.out.data(), kMlaLatent},
            {c.token(c.sequences[0], static_cast<std::uint32_t>(aim)).values.data(), kMlaLatent},
            0.02);
    }
}

TEST_CASE("kernel: mla_verify_paged for several sequences, with room for more") {
    MlaCase c{.n_heads = 8,
              .sequences = {{.rows = tree_rows(150, 5, 1), .seed = 1},
                            {.rows = decode_row(1), .seed = 2},
                            {.rows = prompt_rows(320, 3), .seed = 3}},
              .spare_rows = 3,
              .spare_sequences = 2};
    c.place(false);
    c.check(c.run());
}

TEST_CASE("kernel: a row of mla_verify_paged has the same bits whatever runs beside it and where") {
    const auto rows = tree_rows(450, 9, 5);
    MlaCase all{.n_heads = 8, .sequences = {{rows}}};
    all.place(false);
    const auto together = all.run();
    all.check(together);
    for (const std::size_t row : {0U, 4U, 8U}) {
        MlaCase alone = all;
        alone.sequences[0].rows = {rows[row]};
        alone.sequences[0].query_rows = {static_cast<unsigned>(row)};
        CHECK(rows_of(all, together, row, 1) == alone.run().out);
    }
    for (const MlaFold fold : {MlaFold{1, 1}, MlaFold{24, 3}, MlaFold{64, 8}}) {
        MlaCase folded = all;
        folded.fold = fold;
        CHECK(folded.run().out == together.out);
    }
    MlaCase moved = all;
    moved.place(true);
#ifdef KIMI_SIMT
    moved.options.backward = true;
#endif
    CHECK(moved.run().out == together.out);
}

TEST_CASE(
    "kernel: a node of a tree has the bits that its path has when it is decoded token by token") {
    const std::uint32_t base = 190;
    const auto rows = tree_rows(base, 40, 3);
    std::size_t deepest = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].context() > rows[deepest].context()) deepest = i;
    }
    REQUIRE(rows[deepest].context() > base + 4);
    MlaCase tree{.n_heads = 8, .sequences = {{.rows = {rows[deepest]}}}};
    tree.place(false);
    MlaCase plain = tree;
    plain.sequences[0].rows = decode_row(rows[deepest].context());
    plain.sequences[0].tokens = rows[deepest].slots();
    CHECK(tree.run().out == plain.run().out);
}

TEST_CASE("kernel: shards of a context merge to attention over all of it") {
    MlaCase whole{.n_heads = 8, .sequences = {{decode_row(400)}}};
    whole.place(false);
    const auto expected = whole.run();
    std::vector<float> out, lse;
    for (const std::uint32_t shard : {0U, 1U, 2U}) {  // the last one is empty
        MlaCase part = whole;
        const std::uint32_t n = shard == 2 ? 0 : 200;
        part.sequences[0].rows = decode_row(n);
        for (std::uint32_t i = 0; i < n; ++i) part.sequences[0].tokens.push_back(2 * i + shard);
        const auto r = part.run();
        check_clean(r.report);
        out.insert(out.end(), r.out.begin(), r.out.end());
        lse.insert(lse.end(), r.lse.begin(), r.lse.end());
    }
    CHECK(lse.back() == -INFINITY);
    const Buffer<float> part_out("part_out", out), part_lse("part_lse", lse);
    const Buffer<std::uint32_t> n_parts("n_parts", one(3)), n_rows("n_rows", one(1));
    Buffer<bf16> merged("merged", 8 * kMlaLatent);
    check_clean(run([&] {
        attention_merge({part_out.data(), part_lse.data(), n_parts.data(), n_rows.data(), 8,
                         kMlaLatent, 1, 1, merged.data(), nullptr, nullptr},
                        stream());
    }));
    check_close(widened(merged.download()), expected.out, 0.01);
}

TEST_CASE("kernel: mla_grid folds queries and balances waves, and can be told otherwise") {
    const MlaBucket verify{.rows = 9, .n_heads = 8, .sequences = 1, .context = 46'000};
    CHECK(mla_grid(verify, 16, 188, {1, 1}).shared_blocks() == 1152);
    CHECK(mla_grid(verify, 64, 188, {1, 1}).shared_blocks() == 4608);
    for (const int splits : {16, 32, 64, 188}) {
        const MlaGrid g = mla_grid(verify, splits, 188);
        CHECK(g.groups == 2);
        CHECK(g.queries_per_block == 36);
        CHECK(g.blocks() <= 3 * 188);
    }
    // All widths that a rank of 8, or one that holds every head, verifies.
    for (const int heads : {8, 64}) {
        const int splits = mla_splits(188, heads, 1);
        for (int rows = 1; rows <= 64; ++rows) {
            for (const int context : {1, 4096, 46'000, 262'144}) {
                const MlaGrid g = mla_grid({rows, heads, 1, context}, splits, 188);
                CHECK(g.groups == (rows * heads + 63) / 64);
                CHECK(g.queries_per_block * g.groups >= rows * heads);
                if (g.groups > 1) CHECK(g.queries_per_block >= 36);
                CHECK(g.blocks() <= 3 * 188);
                CHECK(g.split_blocks() * g.splits_per_block >= g.launched_splits);
            }
        }
    }
}

TEST_CASE("kernel: borders of splits come from the context alone and cover it") {
    CHECK(mla_shared_pages(0) == 0);
    CHECK(mla_shared_pages(128) == 0);
    CHECK(mla_shared_pages(129) == 1);
    for (int context = 1; context < 20'000; context += 63) {
        const int pages = mla_shared_pages(context), tail = context - 64 * pages;
        CHECK(tail > 0);
        CHECK(tail <= 128);
        if (pages > 0)
            CHECK(tail > 64);  // a whole page before the last token: all slots that a word can name
        CHECK(mla_pages_per_split(pages, 32) * 32 >= pages);
    }
}

#ifdef KIMI_SIMT
// The cost of a step of `rows` at `context`, one launch of the kernel.
void check_cost(const std::string &what, std::vector<MlaRow> rows, bool fp8, int n_heads) {
    MlaCase c{.n_heads = n_heads, .fp8 = fp8, .sequences = {{std::move(rows)}}};
    c.place(true);
    const auto r = c.run();
    c.check(r);
    const Counters &k = r.report.counters("mla_verify_paged");
    const auto kv = k.buffer("kv");
    const std::uint64_t token = fp8 ? MlaFp8Page::kTokenBytes : MlaBf16Page::kTokenBytes;
    const std::uint64_t slots = MlaCase::slots_of(c.sequences[0]),
                        queries = c.n_rows() * static_cast<unsigned>(n_heads);
    std::uint64_t parts = 0;
    for (const MlaRow &row : c.sequences[0].rows) {
        const int n = mla_shared_pages(static_cast<int>(row.context()));
        const int length = mla_pages_per_split(n, c.splits);
        parts += static_cast<unsigned>(n_heads * (1 + (n + length - 1) / length));
    }
    const std::uint64_t must_move =
        slots * token + queries * kMlaDim * 2 + parts * (kMlaLatent + 1) * 4;
    print_cost("mla_verify_paged, " + what, k, must_move);
    // From DRAM once; what further groups and the rows' tails read again comes from L2.
    const std::uint64_t again = kv.loads.bytes - slots * token;
    std::printf("kernel:   KV read again from L2: %.2f of its bytes\n",
                static_cast<double>(again) / static_cast<double>(slots * token));
    CHECK(kv.loads.units <= 1.03 * static_cast<double>(kv.loads.ideal));
    CHECK(kv.distinct_bytes_read == slots * token);
    std::uint64_t moved = 0;
    for (const auto &b : k.buffers)
        moved += 32 * (b.distinct_sectors_read + b.distinct_sectors_written);
    CHECK(static_cast<double>(moved) <= 1.05 * static_cast<double>(must_move));
    CHECK(k.bank_conflicts() == 0);
    CHECK(k.buffer("pages").loads.instructions == 0);  // a run of pages needs no table
    const std::uint64_t groups = static_cast<std::uint64_t>(c.grid().groups);
    CHECK(kv.loads.bytes <= (groups * slots + 128 * c.n_rows()) * token);
}

TEST_CASE(
    "kernel: mla_verify_paged moves each byte of the KV once from DRAM, without bank conflicts") {
    check_cost("bf16, 1 row of 8 heads, 2,000 tokens", decode_row(2000), false, 8);
    check_cost("fp8, 1 row of 8 heads, 2,000 tokens", decode_row(2000), true, 8);
    check_cost("bf16, 9 rows of 8 heads, 2,000 tokens", tree_rows(2000, 9, 1), false, 8);
    check_cost("fp8, 9 rows of 8 heads, 2,000 tokens", tree_rows(2000, 9, 1), true, 8);
    check_cost("bf16, 1 row of 64 heads, 1,000 tokens", decode_row(1000), false, 64);
}
#endif

TEST_SUITE("slow") {
    TEST_CASE("kernel: mla_verify_paged for trees of every width behind a long prefix") {
        for (std::uint32_t width = 1; width <= 64; ++width) {
            MlaCase c{.n_heads = 8,
                      .fp8 = width % 2 == 1,
                      .sequences = {{tree_rows(500 + 37 * width, width, width)}},
                      .splits = static_cast<int>(4 + width)};
            c.place(width % 3 == 0, width);
            CAPTURE(width);
            c.check(c.run());
        }
    }

    TEST_CASE("kernel: mla_verify_paged of all heads, and of a deployment's splits") {
        for (const bool fp8 : {false, true}) {
            MlaCase all{.n_heads = 64, .fp8 = fp8, .sequences = {{tree_rows(900, 9, 1)}}};
            all.place(false);
            all.check(all.run());
            MlaCase deployed{.n_heads = 8, .fp8 = fp8, .sequences = {{tree_rows(14'000, 9, 1)}}};
            deployed.splits = mla_splits(188, 8, 1);
            deployed.place(false);
            deployed.check(deployed.run());
        }
    }
}

TEST_CASE("kernel: mla_verify_paged fits its budget") {
    check_budget("kernels/mla_verify_paged.cu",
                 {"mla_verify_kernelILb0E", 256, mla_shared_bytes(false), 1});
    check_budget("kernels/mla_verify_paged.cu",
                 {"mla_verify_kernelILb1E", 256, mla_shared_bytes(true), 1});
}

}  // namespace
}  // namespace kimi::test
