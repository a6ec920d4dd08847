// Attention over a context of which each of several ranks holds its part of every page.
#include "kernels/mla_verify_paged.h"
#include "tests/kernel/mla_case.h"

namespace kimi::test {
namespace {

KvShard shard_of(unsigned n_shards, unsigned shard) {
    return {static_cast<std::uint32_t>(std::countr_zero(kMlaPageTokens / n_shards)), shard};
}

// A case on all ranks, one after the other.
struct ShardedCase : MlaCase {
    unsigned n_shards = 1;

    std::size_t capacity() const { return n_rows() + spare_rows; }
    std::size_t own_heads() const { return static_cast<std::size_t>(n_heads) / n_shards; }

    // A rank's pages have the slots before the trees that it holds, and nothing else; what a pass
    // wrote has the token of each row.
    void write_shard(Buffer<std::uint8_t> &kv, Buffer<std::uint8_t> &fresh, KvShard shard) const {
        std::size_t row = 0;
        for (const auto &s : sequences) {
            std::uint32_t n = 0;
            for (const MlaRow &r : s.rows) {
                n = std::max(n, r.base);
                const std::uint32_t slot =
                    r.base + static_cast<std::uint32_t>(std::bit_width(r.word)) - 1;
                put(fresh, 0, kMlaPageTokens, row++, token(s, slot));
            }
            for (std::uint32_t slot = 0; slot < n; ++slot) {
                if (!shard.holds(slot)) continue;
                put(kv, s.pages[slot / kMlaPageTokens] * shard.tokens() * token_bytes(),
                    shard.tokens(), slot % shard.tokens(), token(s, slot));
            }
        }
    }

    // What one rank finds: a piece for each rank of out [capacity, own heads, 512] and lse.
    Result run_rank(const Tables &tables, unsigned rank) const {
        const KvShard shard = shard_of(n_shards, rank);
        Buffer<std::uint8_t> kv("kv", n_pages * shard.tokens() * token_bytes()),
            fresh("fresh", kMlaPageTokens * token_bytes());
        write_shard(kv, fresh, shard);
        return attend(tables, {kv, grid(shard), capacity(), shard, fresh.data(),
                               static_cast<int>(own_heads())});
    }

    // The heads of one rank, from what all found.
    Result merge_rank(const Tables &tables, const std::vector<Result> &found, unsigned rank) const {
        const std::size_t queries = capacity() * own_heads();
        const auto piece = [&](const std::vector<float> &all, std::size_t width) {
            const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * queries * width);
            return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(queries * width));
        };
        Buffer<float> their_out("their_out", n_shards * queries * kMlaLatent),
            their_lse("their_lse", n_shards * queries);
        for (std::size_t i = 0; i < n_shards; ++i) {
            their_out.upload(piece(found[i].out, kMlaLatent), i * queries * kMlaLatent);
            their_lse.upload(piece(found[i].lse, 1), i * queries);
        }
        const Buffer<std::uint32_t> n_parts("n_parts",
                                            std::vector<std::uint32_t>(capacity(), n_shards));
        Buffer<float> out("out", queries * kMlaLatent), lse("lse", queries);
        Result r;
        r.report = test::run([&] {
            attention_merge({.part_out = their_out.data(),
                             .part_lse = their_lse.data(),
                             .n_parts = n_parts.data(),
                             .n_rows = tables.n_rows.data(),
                             .n_heads = static_cast<int>(own_heads()),
                             .dim = kMlaLatent,
                             .row_capacity = static_cast<int>(capacity()),
                             .max_rows = static_cast<int>(capacity()),
                             .out = nullptr,
                             .out_fp32 = out.data(),
                             .lse = lse.data()},
                            stream());
        });
        r.out = out.download();
        r.lse = lse.download();
        return r;
    }

    Result run_ranks() const {
        const Tables tables(*this);
        std::vector<Result> found;
        for (unsigned rank = 0; rank < n_shards; ++rank) {
            found.push_back(run_rank(tables, rank));
            check_clean(found.back().report);
        }
        const std::size_t heads = static_cast<std::size_t>(n_heads);
        Result all;
        all.out.resize(n_rows() * heads * kMlaLatent);
        all.lse.resize(n_rows() * heads);
        for (unsigned rank = 0; rank < n_shards; ++rank) {
            Result r = merge_rank(tables, found, rank);
            check_clean(r.report);
            for (std::size_t row = 0; row < n_rows(); ++row) {
                const std::size_t from = row * own_heads(), to = row * heads + rank * own_heads();
                std::copy_n(r.out.begin() + static_cast<std::ptrdiff_t>(from * kMlaLatent),
                            own_heads() * kMlaLatent,
                            all.out.begin() + static_cast<std::ptrdiff_t>(to * kMlaLatent));
                std::copy_n(r.lse.begin() + static_cast<std::ptrdiff_t>(from), own_heads(),
                            all.lse.begin() + static_cast<std::ptrdiff_t>(to));
            }
            all.report = std::move(r.report);
        }
        return all;
    }
};

void check_at(unsigned n_shards, bool fp8, const std::vector<MlaRow> &rows) {
    ShardedCase c{{.n_heads = 8, .fp8 = fp8, .sequences = {{rows}}}, n_shards};
    c.place(false);
    CAPTURE(n_shards);
    CAPTURE(fp8);
    CAPTURE(rows.back().context());
    c.check(c.run_ranks());
}

TEST_CASE("kernel: a shard holds its part of every page") {
    for (const unsigned n_shards : {1U, 2U, 4U, 8U, 64U}) {
        std::vector<std::uint32_t> held(n_shards);
        for (std::uint32_t position = 0; position < 200; ++position) {
            for (unsigned s = 0; s < n_shards; ++s) {
                const KvShard shard = shard_of(n_shards, s);
                CHECK(shard.held(position) == held[s]);
                const bool holds = position % 64 / (64 / n_shards) == s;
                CHECK(shard.holds(position) == holds);
                if (holds) CHECK(shard.position(held[s]++) == position);
            }
        }
    }
}

TEST_CASE("kernel: mla_verify_paged over shards, around their edges and those of pages") {
    for (const unsigned n_shards : {2U, 4U, 8U}) {
        for (const std::uint32_t context : {1U, 8U, 9U, 32U, 63U, 64U, 65U, 130U})
            check_at(n_shards, context % 2 == 1, decode_row(context));
    }
}

TEST_CASE("kernel: mla_verify_paged over shards whose own parts have splits") {
    for (const bool fp8 : {false, true}) {
        check_at(2, fp8, decode_row(700));
        check_at(4, fp8, prompt_rows(900, 3));
        check_at(8, fp8, decode_row(1700));
    }
}

TEST_CASE("kernel: mla_verify_paged over shards reads trees from the rows of the pass") {
    for (const std::uint32_t base : {1U, 7U, 61U, 300U}) {
        check_at(8, false, tree_rows(base, 13, base));
        check_at(2, true, tree_rows(base, 13, base));
    }
    check_at(4, true, tree_rows(0, 64, 1));
}

TEST_CASE("kernel: mla_verify_paged over shards for several sequences, with room for more") {
    ShardedCase c{{.n_heads = 8,
                   .sequences = {{.rows = prompt_rows(320, 3), .seed = 1},
                                 {.rows = tree_rows(150, 9, 1), .seed = 2},
                                 {.rows = decode_row(1), .seed = 3}},
                   .spare_rows = 3,
                   .spare_sequences = 2},
                  8};
    c.place(true);
    c.check(c.run_ranks());
}

TEST_CASE("kernel: over shards, a node of a tree has the bits of its path token by token") {
    const std::uint32_t base = 590;
    for (const unsigned n_shards : {2U, 8U}) {
        const auto rows = tree_rows(base, 60, 3);
        std::size_t deepest = 0;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            if (rows[i].context() > rows[deepest].context()) deepest = i;
        }
        REQUIRE(rows[deepest].context() > base + 4);
        ShardedCase tree{{.n_heads = 8, .sequences = {{.rows = rows}}, .splits = 2}, n_shards};
        tree.place(false);
        ShardedCase plain = tree;
        plain.sequences[0].rows = decode_row(rows[deepest].context());
        plain.sequences[0].query_rows = {static_cast<unsigned>(deepest)};
        plain.sequences[0].tokens = rows[deepest].slots();
        const auto all = tree.run_ranks();
        const std::size_t width = 8 * kMlaLatent;
        const auto begin = all.out.begin() + static_cast<std::ptrdiff_t>(deepest * width);
        CHECK(std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(width)) ==
              plain.run_ranks().out);
    }
}

}  // namespace
}  // namespace kimi::test
