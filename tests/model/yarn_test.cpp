#include "model/yarn.h"

#include "check.h"

using namespace kimi;

TEST_CASE("yarn: frequencies, softmax scale and amplitude agree with the published tables") {
    const Json goldens = test::read_json(test::data("kimi-tokenizer/goldens.json"));
    REQUIRE(goldens.find("yarn")->members.size() == 3);
    for (const auto &member : goldens.find("yarn")->members) {
        const auto &name = member.first;
        const auto &golden = member.second;
        CAPTURE(name);
        const auto number = [&](const char *key) { return golden.find(key)->real; };
        ModelConfig config{};
        config.nope_dim = 128;
        config.rope_dim = 64;
        config.yarn = {50000.0, number("factor"), number("beta_fast"), number("beta_slow"), 1, 1,
                       4096};
        const std::vector<float> got = yarn_inv_freq(64, config.yarn);
        const std::vector<Json> &expected = golden.find("inv_freq")->items;
        REQUIRE(got.size() == expected.size());
        for (std::size_t i = 0; i < got.size(); ++i)
            CHECK(got[i] == doctest::Approx(expected[i].real).epsilon(1e-6));
        CHECK(config.softmax_scale() == doctest::Approx(number("softmax_scale")).epsilon(1e-7));
        CHECK(yarn_amplitude(config.yarn) == number("rope_amplitude"));
    }
}

TEST_CASE("yarn: factor 1 is plain rope") {
    const std::vector<float> got = yarn_inv_freq(8, {10000.0});
    CHECK(got[0] == 1.0f);
    CHECK(got[1] == doctest::Approx(0.1));
    CHECK(got[3] == doctest::Approx(0.001));
    CHECK(yarn_amplitude({10000.0}) == 1.0f);
}
