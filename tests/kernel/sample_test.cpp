#include "kernels/sample.h"

#include "backend/cpu/top_k.h"
#include "kernels/top_k.h"
#include "spec/sampler.h"
#include "tests/kernel/ptxas_budget.h"
#include "tests/kernel/support.h"

namespace kimi::test {
namespace {

// Of the row in its sequence.
std::uint32_t position(std::size_t row) {
    return static_cast<std::uint32_t>(row % 2 == 0 ? 262'142 - row : 4'000'000'000 + row);
}

std::vector<std::int32_t> sampled(const std::vector<float> &logits, std::uint32_t vocab,
                                  const std::vector<SampleOptions> &options) {
    const auto n = static_cast<std::uint32_t>(options.size());
    const Buffer<float> in("logits", logits);
    Buffer<SampleOptions> options_device("options", n + 2);
    options_device.upload(options);
    std::vector<std::uint32_t> positions;
    for (std::size_t row = 0; row < n; ++row) positions.push_back(position(row));
    Buffer<std::uint32_t> position_device("position", n + 2);
    position_device.upload(positions);
    const Buffer<std::uint32_t> n_rows("n_rows", one(n));
    Buffer<std::int32_t> token("token", n + 2);
    check_clean(run([&] {
        sample({in.data(), options_device.data(), position_device.data(), n_rows.data(), n + 2,
                vocab, token.data()},
               stream());
    }));
    auto out = token.download();
    out.resize(n);
    return out;
}

// The host's sampler is another implementation of the same definition.
std::int32_t expected(const std::vector<float> &logits, std::uint32_t vocab, std::size_t row,
                      const SampleOptions &o) {
    return Sampler(vocab).sample({logits.data() + row * vocab, vocab},
                                 {o.seed, o.temperature, o.top_p, o.min_p, o.top_k},
                                 std::uint64_t{position(row)} + 1);
}

void check_sample(const std::vector<float> &logits, std::uint32_t vocab,
                  const std::vector<SampleOptions> &options) {
    const auto got = sampled(logits, vocab, options);
    for (std::size_t row = 0; row < got.size(); ++row) {
        CAPTURE(row);
        CHECK(got[row] == expected(logits, vocab, row, options[row]));
    }
}

TEST_CASE("kernel: sample chooses what the host's sampler chooses, under every filter") {
    const std::uint32_t vocab = 4096;
    std::vector<SampleOptions> options;
    for (const float temperature : {0.0F, 0.6F, 1.0F, 1.7F}) {
        for (const float top_p : {0.0F, 0.3F, 0.95F}) {
            for (const std::uint32_t top_k : {0U, 1U, 40U}) {
                options.push_back({.seed = 77 + options.size(),
                                   .temperature = temperature,
                                   .top_p = top_p,
                                   .min_p = options.size() % 2 == 0 ? 0.0F : 0.05F,
                                   .top_k = top_k});
            }
        }
    }
    check_sample(random_floats(options.size() * vocab, 1, 6), vocab, options);
}

TEST_CASE("kernel: sample takes lower ids first among equal logits") {
    const std::uint32_t vocab = 260;
    std::vector<float> logits(8 * vocab, -1.5F);
    for (std::size_t row = 4; row < 8; ++row) logits[row * vocab + 3] = logits[row * vocab + 9] = 2;
    std::vector<SampleOptions> options;
    for (std::uint64_t i = 0; i < 8; ++i) {
        options.push_back({.seed = i,
                           .temperature = i % 4 == 0 ? 0.0F : 1.0F,
                           .top_p = i % 4 == 2 ? 0.5F : 0.0F,
                           .min_p = 0,
                           .top_k = i % 4 == 1 ? 5U : 0U});
    }
    check_sample(logits, vocab, options);
    CHECK(sampled(logits, vocab, options)[4] == 3);
}

TEST_CASE("kernel: sample of the smallest vocabularies, and of K2.6's") {
    for (const std::uint32_t vocab : {4U, 8U, 1028U}) {
        check_sample(random_floats(vocab, vocab, 3), vocab,
                     {{.seed = 3, .temperature = 1, .top_p = 0.9F, .min_p = 0, .top_k = 3}});
    }
    const std::uint32_t vocab = 163'840;
    check_sample(random_floats(vocab, 5, 9), vocab,
                 {{.seed = 11, .temperature = 1, .top_p = 0.95F, .min_p = 0, .top_k = 0}});
}

TEST_CASE("kernel: sample reports logits that are not finite") {
    const std::uint32_t vocab = 64;
    std::vector<float> logits = random_floats(3 * vocab, 1);
    logits[5] = std::nanf("");
    logits[vocab + 63] = INFINITY;
    const SampleOptions options{.seed = 1, .temperature = 1, .top_p = 0, .min_p = 0, .top_k = 0};
    const auto got = sampled(logits, vocab, {options, {.temperature = 0}, options});
    CHECK(got[0] == -1);
    CHECK(got[1] == -1);
    CHECK(got[2] >= 0);
}

struct TopK {
    std::uint32_t n, max_rows, vocab, k;
    std::vector<float> logits = random_floats(std::size_t{n} * vocab, 1, 9);
    Buffer<std::int32_t> token{"token", std::size_t{max_rows} * k};
    Buffer<double> log_probability{"log_probability", std::size_t{max_rows} * k};

    Report run() const {
        Buffer<float> in("logits", std::size_t{max_rows} * vocab);
        in.upload(logits);
        const Buffer<std::uint32_t> n_rows("n_rows", one(n));
        const std::size_t parts = std::size_t{max_rows} * top_k_chunks(vocab);
        const Buffer<unsigned long long> keys("part_keys", parts * k);
        const Buffer<double> sums("part_sums", 2 * parts);
        return test::run([&] {
            top_k({in.data(), n_rows.data(), max_rows, vocab, k, token.data(),
                   log_probability.data(), keys.data(), sums.data()},
                  stream());
        });
    }
    void check() const {
        const auto got = token.download();
        const auto got_log = log_probability.download();
        for (std::size_t row = 0; row < n; ++row) {
            std::vector<std::int32_t> tokens(k);
            std::vector<double> logs(k);
            kimi::TopK found;
            find_top_k({logits.data() + row * vocab, vocab}, 0, k, found);
            const kimi::TopK *rank = &found;
            merge_top_k({&rank, 1}, k, tokens.data(), logs.data());
            for (std::size_t i = 0; i < k; ++i) {
                CHECK(got[row * k + i] == tokens[i]);
                if (std::isnan(logs[i])) {
                    CHECK(std::isnan(got_log[row * k + i]));
                } else {
                    CHECK(got_log[row * k + i] == doctest::Approx(logs[i]).epsilon(1e-6));
                }
            }
        }
    }
};

TEST_CASE("kernel: top_k finds the best tokens and their log-softmax") {
    for (const std::uint32_t vocab : {64U, 2047U, 2048U, 2049U}) {
        for (const std::uint32_t k : {1U, 7U, 63U}) {
            TopK t{2, 3, vocab, k};
            check_clean(t.run());
            t.check();
        }
    }
    TopK large{1, 1, 70'000, 63};  // more than one round of merging
    check_clean(large.run());
    large.check();
}

TEST_CASE("kernel: top_k of equal logits, of zeros with either sign, and of NaN") {
    TopK t{3, 3, 3000, 5};
    std::fill_n(t.logits.begin(), 3000, 1.0F);
    for (std::size_t i = 3000; i < 6000; ++i) t.logits[i] = i % 2 == 0 ? 0.0F : -0.0F;
    t.logits[7000] = std::nanf("");
    check_clean(t.run());
    t.check();
}

TEST_CASE("kernel: sample and top_k fit their budgets") {
    check_budget("kernels/sample.cu", {"sample_kernel", 1024, 0, 1});
    check_budget("kernels/top_k.cu", {"top_k_part_kernel", 1024, 0, 1});
    check_budget("kernels/top_k.cu", {"top_k_merge_kernel", 1024, 0, 1});
}

}  // namespace
}  // namespace kimi::test
