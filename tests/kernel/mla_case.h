// Sequences, their latent KV in pages, and attention over it: on the kernels, and naively.
#pragma once

#include <bit>
#include <numeric>
#include <random>

#include "base/fp8.h"
#include "kernels/attention_merge.h"
#include "kernels/mla_verify_paged.h"
#include "tests/kernel/support.h"

namespace kimi::test {

// What a row sees: slots below base, and those of word.
struct MlaRow {
    std::uint32_t base;
    std::uint64_t word;

    std::uint32_t context() const { return base + static_cast<std::uint32_t>(std::popcount(word)); }
    std::vector<std::uint32_t> slots() const {
        std::vector<std::uint32_t> s(base);
        std::iota(s.begin(), s.end(), 0U);
        for (std::uint32_t bit = 0; bit < 64; ++bit) {
            if (word >> bit & 1) s.push_back(base + bit);
        }
        return s;
    }
};

inline std::vector<MlaRow> decode_row(std::uint32_t context) {
    return {{context, 0}};
}
// n rows of a prompt, the last of which sees `context` slots.
inline std::vector<MlaRow> prompt_rows(std::uint32_t context, std::uint32_t n) {
    std::vector<MlaRow> rows;
    for (std::uint32_t i = 0; i < n; ++i) rows.push_back({context - n + 1 + i, 0});
    return rows;
}
// A root at slot `base` and n - 1 nodes, each below a random earlier one.
inline std::vector<MlaRow> tree_rows(std::uint32_t base, std::uint32_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<MlaRow> rows = {{base, 1}};
    for (std::uint32_t i = 1; i < n; ++i) {
        rows.push_back({base, rows[random() % i].word | std::uint64_t{1} << i});
    }
    return rows;
}

struct MlaSequence {
    std::vector<MlaRow> rows;
    std::vector<std::uint32_t> pages = {};
    std::uint32_t run_pages = 0;
    // Which token's KV slot s holds; empty: token s.
    std::vector<std::uint32_t> tokens = {};
    unsigned seed = 0;  // of the tokens' KV; the queries of row i are those of query_rows[i]
    std::vector<unsigned> query_rows = {};
};

// The KV of one token: 576 bf16 values, and how fp8 stores them.
struct MlaToken {
    std::vector<float> values;
    std::vector<std::uint8_t> codes;  // fp8: 512 latents
    std::vector<float> scales;        // fp8
};

struct MlaCase {
    int n_heads;
    bool fp8 = false;
    std::vector<MlaSequence> sequences;
    int splits = 8;
    int n_sms = 188;
    MlaFold fold = {};
    float scale = 0.14467963F;
    std::uint32_t n_pages = 0;     // of the pool; 0: as many as needed
    std::uint32_t spare_rows = 0;  // capacity that this step does not use
    std::uint32_t spare_sequences = 0;
    std::int64_t aim = -1;  // slot whose key all queries are, so that it has the largest score
    Options options = {};

    struct Result {
        Report report;
        std::vector<float> out;  // [rows, heads, 512]
        std::vector<float> lse;  // [rows, heads]
    };

    std::size_t n_rows() const {
        std::size_t n = 0;
        for (const auto &s : sequences) n += s.rows.size();
        return n;
    }
    static std::uint32_t slots_of(const MlaSequence &s) {
        std::uint32_t n = 0;
        for (const MlaRow &row : s.rows) {
            n = std::max(n, row.base + static_cast<std::uint32_t>(std::bit_width(row.word)));
        }
        return n;
    }
    // Gives sequences without pages the next ones of the pool, shuffled or as a run.
    void place(bool contiguous, unsigned seed = 1) {
        std::uint32_t total = 0;
        for (auto &s : sequences) total += (slots_of(s) + kMlaPageTokens - 1) / kMlaPageTokens;
        n_pages = std::max(n_pages, total + 1);
        std::vector<std::uint32_t> ids(n_pages);
        std::iota(ids.begin(), ids.end(), 0U);
        if (!contiguous) std::shuffle(ids.begin(), ids.end(), std::mt19937(seed));
        std::size_t next = 1;
        for (auto &s : sequences) {
            const std::size_t n = (slots_of(s) + kMlaPageTokens - 1) / kMlaPageTokens;
            s.pages.assign(ids.begin() + static_cast<std::ptrdiff_t>(next % ids.size()),
                           ids.begin() + static_cast<std::ptrdiff_t>(next % ids.size() + n));
            s.run_pages = contiguous ? static_cast<std::uint32_t>(n) : 0;
            next += n;
        }
    }

    MlaToken token(const MlaSequence &s, std::uint32_t slot) const {
        const std::uint32_t id = s.tokens.empty() ? slot : s.tokens[slot];
        MlaToken t;
        t.values = random_floats(kMlaDim, s.seed * 100'003 + id);
        const float outlier = 1 + static_cast<float>(id % 7);  // scales differ
        for (float &x : t.values) x = to_float(to_bf16(x));
        if (!fp8) return t;
        for (int group = 0; group < kMlaFp8Groups; ++group) {
            float *v = t.values.data() + group * 128;
            v[id % 128] *= outlier;
            float largest = 0;
            for (int i = 0; i < 128; ++i) largest = std::max(largest, std::fabs(v[i]));
            t.scales.push_back(largest / kE4m3Max);
            for (int i = 0; i < 128; ++i) {
                t.codes.push_back(to_e4m3(v[i] / t.scales.back()));
                v[i] = to_float(
                    to_bf16(from_e4m3(t.codes.back()) * t.scales.back()));  // as the kernel does
            }
        }
        return t;
    }
    std::vector<bf16> query(const MlaSequence &s, std::size_t row) const {
        if (aim >= 0) {
            std::vector<bf16> q;
            const std::vector<bf16> key =
                narrowed(token(s, static_cast<std::uint32_t>(aim)).values);
            for (int h = 0; h < n_heads; ++h) q.insert(q.end(), key.begin(), key.end());
            return q;
        }
        const unsigned id = s.query_rows.empty() ? static_cast<unsigned>(row) : s.query_rows[row];
        return random_bf16(static_cast<std::size_t>(n_heads) * kMlaDim, s.seed * 7919 + 17 + id, 4);
    }

    // As token `offset` of a page that begins at `page_at` and has so many tokens.
    void put(Buffer<std::uint8_t> &kv, std::size_t page_at, std::size_t tokens, std::size_t offset,
             const MlaToken &t) const {
        const auto write_at = [&](std::size_t at, const auto &values) {
            const auto bytes = std::as_bytes(std::span(values));
            kv.upload({reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size()},
                      page_at + at);
        };
        if (!fp8) return write_at(offset * MlaBf16Page::kTokenBytes, narrowed(t.values));
        const std::vector<float> rope(t.values.begin() + kMlaLatent, t.values.end());
        std::size_t plane = 0;
        write_at(offset * MlaFp8Page::kLatentBytes, t.codes);
        plane += tokens * MlaFp8Page::kLatentBytes;
        write_at(plane + offset * MlaFp8Page::kScaleBytes, t.scales);
        plane += tokens * MlaFp8Page::kScaleBytes;
        write_at(plane + offset * MlaFp8Page::kRopeBytes, narrowed(rope));
    }
    std::size_t token_bytes() const {
        return fp8 ? MlaFp8Page::kTokenBytes : MlaBf16Page::kTokenBytes;
    }
    // Only slots that some row sees are written.
    void write(Buffer<std::uint8_t> &kv, const MlaSequence &s) const {
        std::vector<bool> seen(slots_of(s));
        for (const MlaRow &row : s.rows) {
            for (const std::uint32_t slot : row.slots()) seen[slot] = true;
        }
        for (std::uint32_t slot = 0; slot < seen.size(); ++slot) {
            if (!seen[slot]) continue;
            put(kv, s.pages[slot / kMlaPageTokens] * kMlaPageTokens * token_bytes(), kMlaPageTokens,
                slot % kMlaPageTokens, token(s, slot));
        }
    }

    int longest() const {
        std::uint32_t n = 0;
        for (const auto &s : sequences) {
            for (const MlaRow &row : s.rows) n = std::max(n, row.context());
        }
        return static_cast<int>(n);
    }
    MlaGrid grid(KvShard shard = {}) const {
        std::size_t rows = 0;
        for (const auto &s : sequences) rows = std::max(rows, s.rows.size());
        return mla_grid(
            {static_cast<int>(rows), n_heads, static_cast<int>(sequences.size() + spare_sequences),
             static_cast<int>(shard.held(static_cast<unsigned>(longest())))},
            splits, n_sms, fold);
    }

    // What the kernels read beside the KV.
    struct Tables {
        explicit Tables(const MlaCase &c)
            : stride(longest_list(c)),
              q("q", (c.n_rows() + c.spare_rows) * static_cast<std::size_t>(c.n_heads) * kMlaDim),
              n_sequences("n_sequences", one(static_cast<std::uint32_t>(c.sequences.size()))),
              n_rows("n_rows", one(static_cast<std::uint32_t>(c.n_rows()))),
              pages("pages", c.sequences.size() * stride),
              base("base", c.n_rows()),
              sequences("sequences", c.sequences.size()),
              word("word", c.n_rows()) {
            std::uint32_t at = 0, row = 0;
            for (const auto &s : c.sequences) {
                const auto n = static_cast<std::uint32_t>(s.rows.size());
                pages.upload(s.pages, at * stride);
                sequences.upload(std::vector{StepSequence{row, n, s.pages.empty() ? 0 : s.pages[0],
                                                          s.run_pages}},
                                 at++);
                for (std::uint32_t i = 0; i < n; ++i, ++row) {
                    const std::vector<bf16> queries = c.query(s, i);
                    q.upload(queries, row * queries.size());
                    base.upload(one(s.rows[i].base), row);
                    word.upload(std::vector{s.rows[i].word}, row);
                }
            }
        }
        StepTables step() const {
            return {n_sequences.data(), sequences.data(),
                    pages.data(),       static_cast<std::uint32_t>(stride),
                    base.data(),        word.data()};
        }
        static std::size_t longest_list(const MlaCase &c) {
            std::size_t n = 1;
            for (const auto &s : c.sequences) n = std::max(n, s.pages.size());
            return n;
        }

        std::size_t stride;  // of pages
        Buffer<bf16> q;
        Buffer<std::uint32_t> n_sequences, n_rows, pages, base;
        Buffer<StepSequence> sequences;
        Buffer<std::uint64_t> word;
    };

    // What one rank finds in its KV, with all heads: `out_rows` rows of out and lse.
    struct Found {
        const Buffer<std::uint8_t> &kv;
        MlaGrid grid;
        std::size_t out_rows;
        KvShard shard = {};
        simt::Global<const std::uint8_t> fresh = {};
        int group_heads = 0;
    };
    Result attend(const Tables &tables, const Found &in) const {
        const std::size_t capacity = n_rows() + spare_rows,
                          heads = static_cast<std::size_t>(n_heads);
        const std::size_t parts = static_cast<std::size_t>(in.grid.parts());
        Buffer<float> part_out("part_out", parts * capacity * heads * kMlaLatent);
        Buffer<float> part_lse("part_lse", parts * capacity * heads);
        Buffer<std::uint32_t> n_parts("n_parts", capacity);
        Buffer<float> out("out", in.out_rows * heads * kMlaLatent), lse("lse", in.out_rows * heads);
        Result r;
        r.report = test::run(
            [&] {
                mla_verify_paged({.q = tables.q.data(),
                                  .kv = in.kv.data(),
                                  .fp8 = fp8,
                                  .n_heads = n_heads,
                                  .scale = scale,
                                  .step = tables.step(),
                                  .grid = in.grid,
                                  .part_out = part_out.data(),
                                  .part_lse = part_lse.data(),
                                  .n_parts = n_parts.data(),
                                  .row_capacity = static_cast<int>(capacity),
                                  .shard = in.shard,
                                  .fresh = in.fresh},
                                 stream());
                attention_merge({.part_out = part_out.data(),
                                 .part_lse = part_lse.data(),
                                 .n_parts = n_parts.data(),
                                 .n_rows = tables.n_rows.data(),
                                 .n_heads = n_heads,
                                 .dim = kMlaLatent,
                                 .row_capacity = static_cast<int>(capacity),
                                 .max_rows = static_cast<int>(capacity),
                                 .out = nullptr,
                                 .out_fp32 = out.data(),
                                 .lse = lse.data(),
                                 .group_heads = in.group_heads},
                                stream());
            },
            options);
        r.out = out.download();
        r.lse = lse.download();
        return r;
    }
    Result run() const {
        Buffer<std::uint8_t> kv("kv", n_pages * kMlaPageTokens * token_bytes());
        for (const auto &s : sequences) write(kv, s);
        return attend(Tables(*this), {kv, grid(), n_rows()});
    }

    // Softmax over the visible slots in double.
    void check(const Result &r, double tolerance = 0.01) const {
        check_clean(r.report);
        std::vector<float> expected, expected_lse;
        for (const auto &s : sequences) {
            std::vector<std::vector<float>> kv(slots_of(s));
            for (std::size_t i = 0; i < s.rows.size(); ++i) {
                const std::vector<std::uint32_t> slots = s.rows[i].slots();
                for (const std::uint32_t slot : slots) {
                    if (kv[slot].empty()) kv[slot] = token(s, slot).values;
                }
                const std::vector<float> q = widened(query(s, i));
                for (int h = 0; h < n_heads; ++h) {
                    std::vector<double> score;
                    double top = -INFINITY, sum = 0;
                    for (const std::uint32_t slot : slots) {
                        double dot = 0;
                        for (int d = 0; d < kMlaDim; ++d) {
                            dot += double{q[static_cast<std::size_t>(h * kMlaDim + d)]} *
                                   kv[slot][static_cast<std::size_t>(d)];
                        }
                        score.push_back(dot * scale);
                        top = std::max(top, score.back());
                    }
                    std::vector<double> sums(kMlaLatent);
                    for (std::size_t t = 0; t < slots.size(); ++t) {
                        const double x = std::exp(score[t] - top);
                        sum += x;
                        for (std::size_t d = 0; d < kMlaLatent; ++d) sums[d] += x * kv[slots[t]][d];
                    }
                    for (const double x : sums)
                        expected.push_back(sum > 0 ? static_cast<float>(x / sum) : 0.0F);
                    expected_lse.push_back(
                        sum > 0 ? static_cast<float>((top + std::log(sum)) / std::log(2.0))
                                : -INFINITY);
                }
            }
        }
        check_close(r.out, expected, tolerance);
        REQUIRE(r.lse.size() == expected_lse.size());
        for (std::size_t i = 0; i < r.lse.size(); ++i) {
            if (std::isinf(expected_lse[i])) {
                CHECK(r.lse[i] == expected_lse[i]);
            } else {
                CHECK(std::fabs(r.lse[i] - expected_lse[i]) <= tolerance);
            }
        }
    }
};

}  // namespace kimi::test
