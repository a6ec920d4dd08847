// Target and drafter next to the reference's stored results.
#include <algorithm>

#include "model/goldens.h"
#include "model/harness.h"

using namespace kimi;
using test::Goldens;
using test::Harness;

namespace {

constexpr const char *kLongPrompt = "random-5000";

std::size_t best(std::span<const float> logits) {
    return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) -
                                    logits.begin());
}

// fp8 keeps three mantissa bits where bf16 keeps seven: its changes are up to 16 times those of
// bf16, and a token that leads by more stays the best.
void check_fp8(const Json &prompt, std::span<const float> got, std::vector<float> expected) {
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
        worst = std::max(worst, std::fabs(double{got[i]} - double{expected[i]}));
    const double bf16 = prompt.find("largest_change")->find("kv_bf16")->find("last_logits")->real;
    MESSAGE(prompt.find("name")->text, ": fp8 changes a logit by at most ", worst,
            ", the reference's bf16 by ", bf16);
    CHECK(worst <= std::max(0.1, 16 * bf16));
    const std::size_t best_token = best(expected);
    std::nth_element(expected.begin(), expected.begin() + 1, expected.end(), std::greater<>());
    if (expected[0] - expected[1] > 2 * worst) CHECK(best(got) == best_token);
}

void check_prompt(Harness &harness, KvType kv, const Goldens &goldens, const Json &prompt) {
    const std::string &name = prompt.find("name")->text;
    CAPTURE(name);
    CAPTURE(static_cast<int>(kv));
    const std::vector<std::int32_t> ids = test::ints(*prompt.find("ids"));
    const std::span context = std::span(ids).first(ids.size() - 1);
    const auto n = static_cast<std::uint32_t>(context.size());
    harness.prompt_with_context(context);
    if (n > 0 && kv != KvType::fp8)  // without context there is no golden
        test::check_close(harness.draft(ids.back(), n), goldens.tensor(name + ".draft_logits"),
                          Goldens::tolerance(prompt, kv, "draft_logits"));
    const auto logits = harness.run(Harness::Rows::prompt({&ids.back(), 1}, n))[0];
    const std::vector<float> expected = goldens.tensor(name + ".last_logits");
    if (kv == KvType::fp8) return check_fp8(prompt, logits, expected);
    test::check_close(logits, expected, Goldens::tolerance(prompt, kv, "last_logits"));
    const Buffer taps = harness.target->taps();
    test::check_close(harness.device->read(taps, 0, taps.width),
                      goldens.tensor(name + ".last_taps"),
                      Goldens::tolerance(prompt, kv, "last_taps"));
}

void check_prompts(bool is_long) {
    const Goldens goldens;
    for (const KvType kv : {KvType::f32, KvType::bf16, KvType::fp8}) {
        Harness harness(kv);
        for (const Json &prompt : goldens.prompts())
            if ((prompt.find("name")->text == kLongPrompt) == is_long)
                check_prompt(harness, kv, goldens, prompt);
    }
}

}  // namespace

TEST_CASE("reference: logits of target and drafter agree with it for every KV type") {
    check_prompts(false);
}

TEST_CASE("reference: 5,000 tokens agree with it for every KV type" * doctest::test_suite("slow")) {
    check_prompts(true);
}
