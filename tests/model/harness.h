// A loaded target with one sequence, for tests of the forward pass below the engine.
#pragma once

#include <numeric>
#include <vector>

#include "backend/cpu/cpu_device.h"
#include "backend/cpu/kernels.h"
#include "check.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/drafter.h"
#include "model/target.h"
#include "model/target_weights.h"

namespace kimi::test {

struct Harness {
    static constexpr std::uint32_t kMaxRows = 256, kContext = 8192;

    ModelConfig config;
    Checkpoint checkpoint;
    TargetWeights weights;
    std::unique_ptr<Device> device;
    DrafterConfig drafter_config;
    Checkpoint drafter_checkpoint;
    DrafterWeights drafter_weights;
    std::unique_ptr<Target> target;
    std::unique_ptr<Drafter> drafter;
    std::vector<std::uint32_t> pages;

    explicit Harness(KvType kv = KvType::bf16, CpuIsa isa = best_cpu_isa(), unsigned n_threads = 2)
        : config(read_model_config(nano() + "/config.json")),
          checkpoint(Checkpoint::open_target(nano())),
          weights(load_target_weights(checkpoint, config, config.rms_eps)),
          device(make_cpu_device(isa, n_threads)),
          drafter_config(read_drafter_config(nano() + "/drafter/config.json", config)),
          drafter_checkpoint(Checkpoint::open_drafter(nano() + "/drafter")),
          drafter_weights(load_drafter_weights(drafter_checkpoint, drafter_config)),
          target(std::make_unique<Target>(*device, config, weights, kMaxRows, kMaxRows,
                                          drafter_config.taps)),
          drafter(std::make_unique<Drafter>(*device, drafter_config, drafter_weights, *target,
                                            kMaxRows, 0.0f)),
          pages(kContext / kPageTokens) {
        // Not in order, so that a mistake in the block table shows.
        std::iota(pages.rbegin(), pages.rend(), 0U);
        DeviceLimits limits = target->limits();
        limits.rows = kMaxRows;
        limits.context = kContext;
        limits.width = std::max(limits.width, drafter->width());
        limits.draft = drafter->shape(1);
        limits.kv.type = kv;
        limits.kv.n_pages = static_cast<std::uint32_t>(pages.size());
        device->reserve(limits);
    }

    // Rows of any shape; every row wants logits.
    struct Rows {
        std::vector<std::int32_t> token;
        std::vector<std::uint32_t> position, slot, base;
        std::vector<std::uint64_t> word;

        void add(std::int32_t t, std::uint32_t p, std::uint32_t s, std::uint32_t b,
                 std::uint64_t w) {
            token.push_back(t), position.push_back(p), slot.push_back(s), base.push_back(b),
                word.push_back(w);
        }
        static Rows prompt(std::span<const std::int32_t> tokens, std::uint32_t first) {
            Rows rows;
            for (std::uint32_t i = 0; i < tokens.size(); ++i)
                rows.add(tokens[i], first + i, first + i, first + i + 1, 0);
            return rows;
        }
    };

    // Runs the rows in one pass over a target or a runner and returns the logits of the last
    // `n_logits` rows.
    template <typename Model>
    static std::vector<std::vector<float>> run_on(Model &model, const Rows &rows,
                                                  std::span<const std::uint32_t> pages,
                                                  std::uint32_t n_logits) {
        const auto n = static_cast<std::uint32_t>(rows.token.size());
        std::vector<std::uint32_t> logit_rows(n_logits);
        std::iota(logit_rows.begin(), logit_rows.end(), n - n_logits);
        const PlanSequence sequence{0, n, pages};
        model.forward({rows.token,
                       rows.position,
                       rows.slot,
                       rows.base,
                       rows.word,
                       {&sequence, 1},
                       logit_rows});
        std::vector<std::vector<float>> out;
        for (std::uint32_t i = 0; i < n_logits; ++i)
            out.emplace_back(model.logits(i).begin(), model.logits(i).end());
        return out;
    }
    std::vector<std::vector<float>> run(const Rows &rows, std::uint32_t n_logits = 1) {
        return run_on(*target, rows, pages, n_logits);
    }

    // The drafter's logits at all offsets behind a root.
    std::vector<float> draft(std::int32_t root, std::uint32_t position) {
        const DraftRequest request{root, context(position)};
        drafter->draft({&request, 1}, 1);
        std::vector<float> out;
        for (std::uint32_t j = 1; j < drafter->block_size(); ++j) {
            const std::span<const float> row = drafter->logits(0, j);
            out.insert(out.end(), row.begin(), row.end());
        }
        return out;
    }

    // Processes the tokens from an empty sequence and extends the drafter's context with them.
    void prompt_with_context(std::span<const std::int32_t> tokens, std::uint32_t chunk = kMaxRows) {
        std::vector<std::uint32_t> rows(chunk);
        std::iota(rows.begin(), rows.end(), 0U);
        for (std::uint32_t at = 0; at < tokens.size(); at += chunk) {
            const std::size_t n = std::min<std::size_t>(chunk, tokens.size() - at);
            run(Rows::prompt(tokens.subspan(at, n), at));
            const DraftExtension extension{std::span(rows).first(n), context(at)};
            drafter->extend({&extension, 1});
        }
    }
    DraftSequence context(std::uint32_t position) const {
        DraftSequence sequence;
        sequence.first_position = position;
        sequence.pages = pages;
        return sequence;
    }

    // Logits after the last of the tokens, computed in chunks from an empty sequence.
    std::vector<float> prompt(std::span<const std::int32_t> tokens,
                              std::uint32_t chunk = kMaxRows) {
        std::vector<float> last;
        for (std::uint32_t at = 0; at < tokens.size(); at += chunk)
            last = run(Rows::prompt(
                tokens.subspan(at, std::min<std::size_t>(chunk, tokens.size() - at)), at))[0];
        return last;
    }
};

inline std::vector<std::int32_t> ints(const Json &array) {
    std::vector<std::int32_t> out;
    for (const Json &item : array.items) out.push_back(static_cast<std::int32_t>(item.real));
    return out;
}

}  // namespace kimi::test
