// Kernels whose time is latency rather than bytes.
#include "kernels/embed.h"
#include "kernels/kv_compact.h"
#include "kernels/mla_prepare.h"
#include "kernels/rms_norm.h"
#include "kernels/rope_table.h"
#include "kernels/sample.h"
#include "kernels/swiglu.h"
#include "kernels/top_k.h"
#include "kernels/tree_accept.h"
#include "tools/kernel-bench/cases.h"

namespace kimi::bench {
namespace {

constexpr std::uint32_t kRows = 9, kHidden = 7168;

void norms(const Machine &machine) {
    const Memory x(std::size_t{4} * kRows * kHidden), add(std::size_t{2} * kRows * kHidden),
        weight(2 * kHidden), y(std::size_t{2} * kRows * kHidden);
    const Memory n(std::vector<std::uint32_t>{kRows}), table(std::size_t{2} * 4096 * kHidden),
        token(4 * kRows);
    report({"embed, 9 rows", kRows * kHidden * 6.0, 0, 1,
            [&](std::size_t, simt::Stream stream) {
                embed({token.as<std::int32_t>(), table.as<bf16>(), x.as<float>(), nullptr,
                       n.as<std::uint32_t>(), kRows, kHidden, 0, 4096},
                      stream);
            }},
           machine.copy_bytes_per_s);
    report({"rms_norm with addend, 9 rows", kRows * kHidden * 12.0, 0, 1,
            [&](std::size_t, simt::Stream stream) {
                rms_norm({x.as<float>(), add.as<bf16>(), nullptr, weight.as<bf16>(), y.as<bf16>(),
                          n.as<std::uint32_t>(), kRows, kHidden, 1e-5F},
                         stream);
            }},
           machine.copy_bytes_per_s);
    const Memory gate(4 * kRows * 2304), up(4 * kRows * 2304), act(2 * kRows * 2304);
    report({"swiglu, 9 rows of 2304", kRows * 2304 * 10.0, 0, 1,
            [&](std::size_t, simt::Stream stream) {
                swiglu({gate.as<float>(), up.as<float>(), act.as<bf16>(), n.as<std::uint32_t>(),
                        kRows, 2304},
                       stream);
            }},
           machine.copy_bytes_per_s);
}

void kv(const Machine &machine) {
    constexpr std::uint32_t kLayers = 61, kPages = 16;
    const Memory kv_in(4 * kRows * kMlaDim), norm(2 * kMlaLatent), q(2 * kRows * 8 * 192),
        absorbed(2 * kRows * 8 * kMlaDim);
    const Memory n(std::vector<std::uint32_t>{kRows}),
        position(std::vector<std::uint32_t>(kRows, 262'143)), freq(4 * 32),
        rope(4 * kRows * kMlaRope);
    std::vector<std::uint32_t> cells;
    for (std::uint32_t i = 0; i < kRows; ++i) cells.push_back(100 + i);
    const Memory cell(cells);
    report({"rope_table, 9 rows", kRows * 256.0, 0, 1,
            [&](std::size_t, simt::Stream stream) {
                rope_table({position.as<std::uint32_t>(), freq.as<float>(), rope.as<float>(),
                            n.as<std::uint32_t>(), kRows, 32, 1},
                           stream);
            }},
           machine.copy_bytes_per_s);
    for (const bool fp8 : {false, true}) {
        const KvPlanes planes = mla_planes(fp8);
        const std::size_t layer = std::size_t{kPages} * planes.page_bytes;
        const Memory pages(kLayers * layer);
        const std::string type = fp8 ? "fp8" : "bf16";
        report({"mla_prepare, 9 rows of 8 heads, " + type,
                kRows * (2304.0 + 2048 + planes.token_bytes()), 0, 1,
                [&](std::size_t, simt::Stream stream) {
                    mla_prepare(
                        {kv_in.as<float>(), norm.as<bf16>(), rope.as<float>(), q.as<bf16>(),
                         absorbed.as<bf16>(), pages.as<std::uint8_t>(), cell.as<std::uint32_t>(),
                         n.as<std::uint32_t>(), kRows, 8, 128, fp8, 1e-5F},
                        stream);
                }},
               machine.copy_bytes_per_s);
        report({"kv_compact, 9 tokens of 61 layers, " + type,
                2.0 * kRows * kLayers * planes.token_bytes(), 0, 1,
                [&](std::size_t, simt::Stream stream) {
                    kv_compact({pages.as<std::uint8_t>(), static_cast<std::int64_t>(layer), kLayers,
                                planes, cell.as<std::uint32_t>(), cell.as<std::uint32_t>(),
                                n.as<std::uint32_t>(), kRows},
                               stream);
                }},
               machine.copy_bytes_per_s);
    }
}

void choice(const Machine &machine) {
    constexpr std::uint32_t kVocab = 163'840, kDepth = 7, kK = 63;
    std::mt19937 random(1);
    std::vector<float> logits(std::size_t{kRows} * kVocab);
    for (float &v : logits) v = static_cast<float>(random() % 100'000) * 2e-4F;
    const Memory in(logits), n(std::vector<std::uint32_t>{kRows}),
        one(std::vector<std::uint32_t>{1}), token(4 * kRows * kK), logs(8 * kRows * kK);
    const std::size_t parts = std::size_t{kRows} * top_k_chunks(kVocab);
    const Memory keys(8 * parts * kK), sums(16 * parts), position(4 * kRows);
    for (const float top_p : {0.0F, 0.95F}) {
        for (const float temperature : {0.0F, 1.0F}) {
            const Memory options(std::vector<SampleOptions>(
                kRows,
                {.seed = 1, .temperature = temperature, .top_p = top_p, .min_p = 0, .top_k = 0}));
            report({"sample, 9 rows, temperature " + std::to_string(static_cast<int>(temperature)) +
                        (top_p > 0 ? ", top-p" : ""),
                    4.0 * kRows * kVocab, 0, 1,
                    [&](std::size_t, simt::Stream stream) {
                        sample({in.as<float>(), options.as<SampleOptions>(),
                                position.as<std::uint32_t>(), n.as<std::uint32_t>(), kRows, kVocab,
                                token.as<std::int32_t>()},
                               stream);
                    }},
                   machine.copy_bytes_per_s);
        }
    }
    report({"top_k, 9 rows, k 63", 4.0 * kRows * kVocab, 0, 1,
            [&](std::size_t, simt::Stream stream) {
                top_k({in.as<float>(), n.as<std::uint32_t>(), kRows, kVocab, kK,
                       token.as<std::int32_t>(), logs.as<double>(), keys.as<unsigned long long>(),
                       sums.as<double>()},
                      stream);
            }},
           machine.copy_bytes_per_s);
    const Memory budget(std::vector<std::uint32_t>{63}), first(4),
        rows(std::vector<std::uint32_t>{kTreeRows}), n_nodes(4), node_logs(8 * kTreeRows),
        tree_token(4 * kTreeRows), tree_position(4 * kTreeRows), word(8 * kTreeRows),
        parent(kTreeRows);
    report({"tree_build, 63 nodes", 12.0 * kDepth * kK, 0, 1,
            [&](std::size_t, simt::Stream stream) {
                tree_build(
                    {token.as<std::int32_t>(), logs.as<double>(), kDepth, kK,
                     one.as<std::uint32_t>(), budget.as<std::uint32_t>(), first.as<std::uint32_t>(),
                     rows.as<std::uint32_t>(), token.as<std::int32_t>(), budget.as<std::uint32_t>(),
                     1, n_nodes.as<std::uint32_t>(), node_logs.as<double>(),
                     tree_token.as<std::int32_t>(), tree_position.as<std::uint32_t>(),
                     word.as<std::uint64_t>(), parent.as<std::uint8_t>()},
                    stream);
            }},
           machine.copy_bytes_per_s);
    const Memory target(4 * kTreeRows, 0xff), cell(4 * kTreeRows), committed(4),
        path(4 * kTreeRows), out(4 * kTreeRows), moves(4), from(4 * 63), to(4 * 63);
    report(
        {"tree_accept, 63 nodes", 12.0 * kTreeRows, 0, 1,
         [&](std::size_t, simt::Stream stream) {
             tree_accept(
                 {one.as<std::uint32_t>(), 1, first.as<std::uint32_t>(), rows.as<std::uint32_t>(),
                  tree_token.as<std::int32_t>(), parent.as<std::uint8_t>(),
                  target.as<std::int32_t>(), cell.as<std::uint32_t>(),
                  committed.as<std::uint32_t>(), path.as<std::uint32_t>(), out.as<std::int32_t>(),
                  moves.as<std::uint32_t>(), from.as<std::uint32_t>(), to.as<std::uint32_t>()},
                 stream);
         }},
        machine.copy_bytes_per_s);
}

}  // namespace

void bench_rows(const Machine &machine) {
    norms(machine);
    kv(machine);
    choice(machine);
}

}  // namespace kimi::bench
