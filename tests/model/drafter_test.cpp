#include "model/drafter.h"

#include "model/goldens.h"
#include "model/harness.h"

using namespace kimi;
using test::Goldens;
using test::Harness;

TEST_CASE("drafter: the chunks in which its context was written do not matter") {
    const Goldens goldens;
    std::vector<std::int32_t> ids = test::ints(*goldens.prompts()[5].find("ids"));
    Harness harness;
    harness.prompt_with_context(ids);
    const auto whole = harness.draft(300, static_cast<std::uint32_t>(ids.size()));
    harness.prompt_with_context(ids, 7);
    CHECK(harness.draft(300, static_cast<std::uint32_t>(ids.size())) == whole);
}

// A sanitizer that knows no unwritten memory sees nothing here that it does not see above.
TEST_CASE("drafter: context that was never written is not read" *
          doctest::skip(test::kInstrumented)) {
    // Everything before position 500 is missing. It must not matter what the memory holds.
    const Goldens goldens;
    std::vector<std::int32_t> ids = test::ints(*goldens.prompts()[5].find("ids"));
    const auto position = static_cast<std::uint32_t>(ids.size());
    const auto drafted = [&](std::int32_t other) {
        Harness harness;
        std::vector<std::int32_t> changed(ids);
        std::vector<std::uint32_t> rows(Harness::kMaxRows);
        std::iota(rows.begin(), rows.end(), 0U);
        // Context of other tokens in the first 500 positions, then the target's own states of the
        // real ones.
        std::fill_n(changed.begin(), 500, other);
        harness.prompt_with_context(std::span(changed).first(500), 250);
        harness.prompt(std::span(ids).first(500), 250);
        harness.run(Harness::Rows::prompt(std::span(ids).subspan(500), 500));
        const DraftExtension extension{std::span(rows).first(position - 500), harness.context(500)};
        harness.drafter->extend({&extension, 1});
        DraftRequest request{300, harness.context(position)};
        request.sequence.full_begin = request.sequence.ring_begin = 500;
        harness.drafter->draft({&request, 1}, 1);
        return std::vector<float>(harness.drafter->logits(0, 1).begin(),
                                  harness.drafter->logits(0, 1).end());
    };
    CHECK(drafted(300) == drafted(301));
}
