// Deployments of nano-k2 on several ranks, and passes over them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "engine/engine.h"
#include "model/harness.h"

namespace kimi::test {

// Every rank count, every way to split attention and experts, and every option, in few engines.
inline constexpr const char *kPlacements[] = {
    R"("ranks": 2, "placement": {"experts": "expert"})",
    R"("ranks": 4, "placement": {"attention": "context", "experts": "groups", "expert_groups": 2,
        "expert_counts": "counts.json", "expert_replicas": 8})",
    R"("ranks": 8, "placement": {"q_a": "split", "kv_a": "split", "router": "split"})",
    R"("ranks": 8, "placement": {"attention": "context", "experts": "expert"})",
};

// A deployment file with these fields more.
inline std::string deployment(const TempDir &dir, const std::string &fields) {
    std::string counts, layer;  // expert e of each of the four layers got 100 + 7 e tokens
    for (int e = 0; e < 32; ++e) layer += cat(e > 0 ? ", " : "", 100 + 7 * e);
    for (int i = 0; i < 4; ++i) counts += cat(i > 0 ? ", [" : "[", layer, "]");
    dir.write("counts.json", cat(R"({"expert_counts": [)", counts, "]}"));
    return dir.write("d.json", cat(R"({"checkpoint": ")", nano(), R"(", "drafter": ")", nano(),
                                   R"(/drafter", "context_limit": 4096, )", fields, "}"));
}

inline std::shared_ptr<Engine> open_engine(const std::string &fields, const Host &host = {}) {
    const TempDir dir;
    return std::make_shared<Engine>(deployment(dir, fields), Progress(), host);
}

// A loaded model with one sequence, below the engine. Its KV is fp32, so that only the order of
// sums differs from one rank's.
struct RankedSequence {
    TempDir dir;
    Runner runner;
    std::vector<std::uint32_t> pages;

    explicit RankedSequence(const std::string &fields)
        : runner(read_deployment(deployment(dir, R"("kv": {"type": "f32"}, )" + fields)),
                 Progress()),
          pages(runner.kv().n_pages) {
        // Not in order, so that a mistake in the block table shows.
        std::iota(pages.rbegin(), pages.rend(), 0U);
    }

    // Runs the rows in one pass and returns the logits of the last `n_logits` rows.
    std::vector<std::vector<float>> run(const Harness::Rows &rows, std::uint32_t n_logits = 1) {
        return Harness::run_on(runner, rows, pages, n_logits);
    }
    // Logits after the last of the tokens, from an empty sequence.
    std::vector<float> prompt(std::span<const std::int32_t> tokens) {
        std::vector<float> last;
        const std::size_t chunk = runner.max_rows();
        for (std::size_t at = 0; at < tokens.size(); at += chunk) {
            const auto part = tokens.subspan(at, std::min(chunk, tokens.size() - at));
            last = run(Harness::Rows::prompt(part, static_cast<std::uint32_t>(at)))[0];
        }
        return last;
    }
};

}  // namespace kimi::test
