// Attention: contexts and widths, the sweep of splits, and the plain kernel beside it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "kernels/attention_merge.h"
#include "kernels/draft_attend.h"
#include "kernels/mla_verify_paged.h"
#include "tools/kernel-bench/cases.h"
#include "tools/kernel-bench/plain_attention.h"

namespace kimi::bench {
namespace {

struct Shape {
    int rows, heads, context, splits;
    bool fp8;
    MlaFold fold = {};
};

// Buffers for one shape, and as many layers of KV as L2 cannot hold.
class MlaBench {
  public:
    MlaBench(const Shape &shape, const Machine &machine)
        : shape_(shape),
          grid_(mla_grid({shape.rows, shape.heads, 1, shape.context + shape.rows}, shape.splits,
                         machine.n_sms, shape.fold)),
          n_pages_((shape.context + shape.rows + 63) / 64),
          page_bytes_(shape.fp8 ? MlaFp8Page::kBytes : MlaBf16Page::kBytes),
          turns_(machine.turns(std::size_t(n_pages_) * page_bytes_)),
          kv_(turns_ * std::size_t(n_pages_) * page_bytes_),
          q_(random_bytes(std::size_t(shape.rows * shape.heads) * kMlaDim * 2)),
          part_out_(std::size_t(grid_.parts() * shape.rows * shape.heads) * kMlaLatent * 4),
          part_lse_(std::size_t(grid_.parts() * shape.rows * shape.heads) * 4),
          n_parts_(std::size_t(shape.rows) * 4),
          out_(std::size_t(shape.rows * shape.heads) * kMlaLatent * 2),
          count_(std::vector<std::uint32_t>{1, static_cast<std::uint32_t>(shape.rows)}),
          sequence_(std::vector<StepSequence>{{0, static_cast<std::uint32_t>(shape.rows), 0,
                                               static_cast<std::uint32_t>(n_pages_)}}),
          base_(std::vector<std::uint32_t>(std::size_t(shape.rows),
                                           static_cast<std::uint32_t>(shape.context))),
          word_(words(shape.rows)) {}

    Work work() const {
        const double tokens = shape_.context + shape_.rows;
        return {"mla_verify + merge, " + name(), tokens * static_cast<double>(page_bytes_) / 64,
                2.0 * (kMlaDim + kMlaLatent) * shape_.rows * shape_.heads * tokens, turns_,
                [this](std::size_t turn, simt::Stream stream) { launch(turn, stream); }};
    }

  private:
    // A chain: row i sees all rows before it.
    static std::vector<std::uint64_t> words(int rows) {
        std::vector<std::uint64_t> w;
        for (int i = 0; i < rows; ++i) w.push_back((std::uint64_t{2} << i) - 1);
        return w;
    }
    std::string name() const {
        return std::to_string(shape_.rows) + " x " + std::to_string(shape_.heads) + ", " +
               std::to_string(shape_.context) + (shape_.fp8 ? " fp8, " : " bf16, ") +
               std::to_string(grid_.splits) + " splits, " + std::to_string(grid_.blocks()) +
               " blocks";
    }
    void launch(std::size_t turn, simt::Stream stream) const {
        mla_verify_paged(
            {.q = q_.as<bf16>(),
             .kv = kv_.as<std::uint8_t>() + turn * std::size_t(n_pages_) * page_bytes_,
             .fp8 = shape_.fp8,
             .n_heads = shape_.heads,
             .scale = 0.1446796F,
             .step = {count_.as<std::uint32_t>(), sequence_.as<StepSequence>(), nullptr, 0,
                      base_.as<std::uint32_t>(), word_.as<std::uint64_t>()},
             .grid = grid_,
             .part_out = part_out_.as<float>(),
             .part_lse = part_lse_.as<float>(),
             .n_parts = n_parts_.as<std::uint32_t>(),
             .row_capacity = shape_.rows},
            stream);
        attention_merge({part_out_.as<float>(), part_lse_.as<float>(), n_parts_.as<std::uint32_t>(),
                         count_.as<std::uint32_t>() + 1, shape_.heads, kMlaLatent, shape_.rows,
                         shape_.rows, out_.as<bf16>(), nullptr, nullptr},
                        stream);
    }

    Shape shape_;
    MlaGrid grid_;
    int n_pages_;
    std::size_t page_bytes_, turns_;
    Memory kv_, q_, part_out_, part_lse_, n_parts_, out_, count_, sequence_, base_, word_;
};

void plain(int rows, int heads, int context, std::uint32_t splits, const Machine &machine) {
    const std::size_t queries = std::size_t(rows * heads);
    const std::size_t turns = machine.turns(std::size_t(context) * kMlaDim * 2);
    const Memory kv(turns * std::size_t(context) * kMlaDim * 2),
        q(random_bytes(queries * kMlaDim * 2));
    std::vector<std::uint32_t> order(static_cast<std::size_t>(context));
    std::iota(order.begin(), order.end(), 0U);
    const Memory table(order), out(splits * queries * kMlaLatent * 4), lse(splits * queries * 4),
        n_parts(std::size_t(rows) * 4);
    report({"plain attention, " + std::to_string(rows) + " x " + std::to_string(heads) + ", " +
                std::to_string(context) + " bf16, " + std::to_string(splits) + " splits",
            context * 2.0 * kMlaDim, 2.0 * (kMlaDim + kMlaLatent) * rows * heads * context, turns,
            [&](std::size_t turn, simt::Stream stream) {
                plain_attention(
                    {q.as<bf16>(), kv.as<bf16>() + turn * std::size_t(context) * kMlaDim,
                     table.as<std::uint32_t>(), static_cast<std::uint32_t>(context), splits,
                     static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(heads),
                     0.1446796F, out.as<float>(), lse.as<float>(), n_parts.as<std::uint32_t>()},
                    stream);
            }},
           machine.copy_bytes_per_s);
}

void draft(std::uint32_t context, const Machine &machine) {
    constexpr std::uint32_t kRows = 8, kHeads = 8, kDim = 128, kSplits = 64;
    const std::size_t pages = (context + 63) / 64, entry = 2 * kDim;
    const std::size_t turns = machine.turns(pages * 64 * entry * 2);
    const Memory kv(turns * pages * 64 * entry * 2), q(random_bytes(kRows * kHeads * kDim * 2)),
        block(random_bytes(kRows * entry * 2));
    std::vector<std::uint32_t> ids(pages);
    std::iota(ids.begin(), ids.end(), 0U);
    const Memory table(ids), count(std::vector<std::uint32_t>{1}),
        span(std::vector<DraftSpan>{{0, kRows, context, 0, 0, {}}});
    const Memory out((kSplits + 1) * kRows * kHeads * kDim * 4),
        lse((kSplits + 1) * kRows * kHeads * 4), n_parts(kRows * 4);
    report({"draft_attend, 8 x 8, " + std::to_string(context), context * 2.0 * entry,
            4.0 * kDim * kRows * kHeads * context, turns,
            [&](std::size_t turn, simt::Stream stream) {
                draft_attend({q.as<bf16>(),
                              block.as<bf16>(),
                              kv.as<bf16>() + turn * pages * 64 * entry,
                              count.as<std::uint32_t>(),
                              span.as<DraftSpan>(),
                              table.as<std::uint32_t>(),
                              static_cast<std::uint32_t>(pages),
                              0,
                              0,
                              1,
                              kRows,
                              context,
                              kSplits,
                              kHeads,
                              1,
                              kDim,
                              out.as<float>(),
                              lse.as<float>(),
                              n_parts.as<std::uint32_t>(),
                              kRows},
                             stream);
            }},
           machine.copy_bytes_per_s);
}

}  // namespace

void bench_attention(const Machine &machine) {
    const auto run = [&](const Shape &shape) {
        report(MlaBench(shape, machine).work(), machine.copy_bytes_per_s);
    };
    for (const bool fp8 : {false, true}) {
        for (const int rows : {1, 4, 9, 16, 32, 64}) {
            for (const int context : {4096, 46'000, 185'000})
                run({rows, 8, context, mla_splits(machine.n_sms, 8, 1), fp8});
        }
        run({1, 64, 23'000, mla_splits(machine.n_sms, 64, 1), fp8});
        run({9, 64, 23'000, mla_splits(machine.n_sms, 64, 1), fp8});
    }
    std::printf("\nsplits, 9 x 8, folded and one query per block\n");
    for (const int context : {4096, 8192, 16'384, 32'768, 65'536}) {
        for (const int splits : {16, 32, 64}) {
            run({9, 8, context, splits, false});
            run({9, 8, context, splits, false, {.queries_per_block = 1, .splits_per_block = 1}});
        }
    }
    std::printf("\nbaseline: page size 1, one row and head per block, scalar loads\n");
    for (const int context : {4096, 16'384, 65'536}) {
        for (const std::uint32_t splits : {16U, 64U}) plain(9, 8, context, splits, machine);
    }
    for (const std::uint32_t context : {4096U, 65'536U}) draft(context, machine);
}

}  // namespace kimi::bench
