#include "backend/cuda/self_check.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cuda/memory.h"
#include "backend/cuda/stream.h"
#include "base/bf16.h"
#include "kernels/attention_merge.h"
#include "kernels/mla_verify_paged.h"
#include "kernels/moe_experts.h"
#include "kernels/moe_repack.h"
#include "kernels/moe_route.h"
#include "kernels/rms_norm.h"
#include "kernels/skinny_gemm.h"

namespace kimi::cuda {
namespace {

// Of the largest expected value: a few roundings to bf16.
constexpr float kTolerance = 0.02F;

// Memory and stream of the cases.
class Bench {
  public:
    explicit Bench(int gpu) {
        check(cudaDeviceGetAttribute(&n_sms_, cudaDevAttrMultiProcessorCount, gpu),
              "asking for multiprocessors");
    }
    int n_sms() const { return n_sms_; }
    cudaStream_t stream() const { return stream_; }

    template <typename T>
    T *put(const std::vector<T> &values) {
        T *const to = room<T>(values.size());
        check(cudaMemcpyAsync(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice,
                              stream_),
              "checking a GPU");
        return to;
    }
    // n zeros.
    template <typename T>
    T *room(std::size_t n) {
        arrays_.emplace_back(std::max<std::size_t>(n, 1) * sizeof(T), "checks of the GPU");
        arrays_.back().zero(stream_);
        return reinterpret_cast<T *>(arrays_.back().data());
    }
    template <typename T>
    std::vector<T> get(const T *from, std::size_t n) {
        std::vector<T> values(n);
        check(cudaMemcpyAsync(values.data(), from, n * sizeof(T), cudaMemcpyDeviceToHost, stream_),
              "checking a GPU");
        check(cudaStreamSynchronize(stream_), "checking a GPU");
        return values;
    }

  private:
    std::vector<DeviceArray<std::byte>> arrays_;
    Stream stream_;
    int n_sms_ = 0;
};

// Multiples of 1/8 from -1 to 1, which bf16 holds.
float value(std::size_t i, unsigned seed) {
    return static_cast<float>((i * 7919 + seed * 104729) % 1009 % 17) / 8 - 1;
}
std::vector<float> values(std::size_t n, unsigned seed) {
    std::vector<float> out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = value(i, seed);
    return out;
}
std::vector<bf16> narrow(const std::vector<float> &from) {
    std::vector<bf16> out(from.size());
    std::transform(from.begin(), from.end(), out.begin(), to_bf16);
    return out;
}
std::vector<float> wide(const std::vector<bf16> &from) {
    std::vector<float> out(from.size());
    std::transform(from.begin(), from.end(), out.begin(), to_float);
    return out;
}

struct Outcome {
    std::vector<float> got, expected;
};

Outcome rms_norm_outcome(Bench &b) {
    constexpr std::uint32_t kRows = 3, kWidth = 256;
    const std::vector<float> x = values(kRows * kWidth, 1), w = values(kWidth, 2);
    bf16 *const y = b.room<bf16>(x.size());
    rms_norm({b.put(x), nullptr, nullptr, b.put(narrow(w)), y, b.put<std::uint32_t>({kRows}), kRows,
              kWidth, 1e-5F},
             b.stream());
    std::vector<float> expected(x.size());
    for (std::uint32_t r = 0; r < kRows; ++r) {
        float squares = 0;
        for (std::uint32_t i = 0; i < kWidth; ++i) squares += x[r * kWidth + i] * x[r * kWidth + i];
        for (std::uint32_t i = 0; i < kWidth; ++i)
            expected[r * kWidth + i] = x[r * kWidth + i] / std::sqrt(squares / kWidth) * w[i];
    }
    return {wide(b.get(y, x.size())), expected};
}

Outcome skinny_gemm_outcome(Bench &b) {
    constexpr std::uint32_t kRows = 9, kInputs = 512, kOutputs = 64;
    const std::vector<float> x = values(kRows * kInputs, 3), w = values(kOutputs * kInputs, 4);
    float *const y = b.room<float>(kRows * kOutputs);
    SkinnyGemmParams p = {};
    p.x = b.put(narrow(x));
    p.n_rows = b.put<std::uint32_t>({kRows});
    p.max_rows = kRows;
    p.inputs = kInputs;
    p.n_jobs = 1;
    p.jobs[0].weight = b.put(narrow(w));
    p.jobs[0].y_f32 = y;
    p.jobs[0].outputs = kOutputs;
    p.tiles = skinny_gemm_tiles(kRows, kOutputs, kInputs, static_cast<std::uint32_t>(b.n_sms()));
    p.partial = b.room<float>(skinny_gemm_workspace(p).partial);
    p.arrived = b.room<std::uint32_t>(skinny_gemm_workspace(p).arrived);
    skinny_gemm(p, b.stream());
    std::vector<float> expected(kRows * kOutputs);
    for (std::uint32_t r = 0; r < kRows; ++r)
        for (std::uint32_t o = 0; o < kOutputs; ++o)
            for (std::uint32_t i = 0; i < kInputs; ++i)
                expected[r * kOutputs + o] += x[r * kInputs + i] * w[o * kInputs + i];
    return {b.get(y, expected.size()), expected};
}

// [rows, inputs] in int4, as checkpoints have it.
struct Int4 {
    Int4(std::uint32_t n_rows, std::uint32_t n_inputs, unsigned seed)
        : rows(n_rows), inputs(n_inputs), words(n_rows * n_inputs / 8) {
        for (std::size_t i = 0; i < words.size(); ++i)
            words[i] = static_cast<std::uint32_t>((i + seed) * 2654435761U);
        for (std::uint32_t i = 0; i < rows * inputs / 32; ++i)
            scales.push_back(to_bf16(0.0625F / static_cast<float>(1 + i % 3)));
    }
    Int4Rows put(Bench &b) const { return {b.put(words), b.put(scales), inputs / 8, inputs / 32}; }
    std::vector<float> times(const float *x) const {
        std::vector<float> y(rows);
        for (std::uint32_t r = 0; r < rows; ++r)
            for (std::uint32_t i = 0; i < inputs; ++i) {
                const std::uint32_t at = r * inputs + i;
                const int nibble = static_cast<int>(words[at / 8] >> (4 * (at % 8)) & 15U);
                y[r] += static_cast<float>(nibble - 8) * to_float(scales[at / 32]) * x[i];
            }
        return y;
    }

    std::uint32_t rows, inputs;
    std::vector<std::uint32_t> words;
    std::vector<bf16> scales;
};

// Two experts, both chosen by all rows with half the weight.
Outcome experts_outcome(Bench &b) {
    constexpr std::uint32_t kRows = 3, kHidden = 128, kWidth = 64, kExperts = 2;
    const std::vector<float> x = values(kRows * kHidden, 5);
    const std::size_t gate_up_bytes = moe_matrix_bytes(2 * kWidth, kHidden),
                      down_bytes = moe_matrix_bytes(kHidden, kWidth), pairs = kRows * kExperts;
    auto *const gate_up = b.room<std::uint8_t>(kExperts * gate_up_bytes);
    auto *const down = b.room<std::uint8_t>(kExperts * down_bytes);
    std::vector<float> expected(x.size());
    for (std::uint32_t e = 0; e < kExperts; ++e) {
        const Int4 g(kWidth, kHidden, 3 * e), u(kWidth, kHidden, 3 * e + 1),
            d(kHidden, kWidth, 3 * e + 2);
        moe_repack({g.put(b), u.put(b), 2 * kWidth, kHidden, gate_up + e * gate_up_bytes},
                   b.stream());
        moe_repack({d.put(b), {}, kHidden, kWidth, down + e * down_bytes}, b.stream());
        for (std::uint32_t r = 0; r < kRows; ++r) {
            std::vector<float> act = g.times(&x[r * kHidden]);
            const std::vector<float> factor = u.times(&x[r * kHidden]);
            for (std::uint32_t i = 0; i < kWidth; ++i)
                act[i] *= 0.5F * factor[i] / (1 + std::exp(-act[i]));
            const std::vector<float> y = d.times(act.data());
            for (std::uint32_t i = 0; i < kHidden; ++i) expected[r * kHidden + i] += y[i];
        }
    }
    const std::uint32_t *const n_rows = b.put<std::uint32_t>({kRows});
    const MoePlan plan{b.room<std::uint32_t>(1),     b.room<std::uint32_t>(1),
                       b.room<MoeTile>(pairs),       b.room<MoeGroup>(pairs),
                       b.room<std::uint32_t>(pairs), b.room<float>(pairs)};
    moe_route({b.room<float>(pairs), b.room<float>(kExperts), n_rows, kRows, kExperts, kExperts,
               true, 1, b.room<std::uint32_t>(pairs), b.room<float>(pairs), plan, nullptr},
              b.stream());
    float *const y = b.room<float>(x.size());
    moe_experts({b.put(narrow(x)), plan, kRows, kExperts, kExperts, kHidden, kWidth, gate_up, down,
                 b.room<bf16>(pairs * kWidth), y, n_rows, false, b.n_sms()},
                b.stream());
    return {b.get(y, x.size()), expected};
}

// One row of two heads over 200 tokens, on four pages that do not follow each other.
Outcome attention_outcome(Bench &b) {
    constexpr std::uint32_t kHeads = 2, kTokens = 200, kPages = 4;
    constexpr float kScale = 0.05F;
    const std::vector<std::uint32_t> pages = {2, 0, 3, 1};
    const std::vector<float> q = values(kHeads * kMlaDim, 6);
    const std::vector<float> kv = values(kPages * kMlaPageTokens * kMlaDim, 7);
    MlaVerifyParams p = {};
    p.q = b.put(narrow(q));
    p.kv = reinterpret_cast<const std::uint8_t *>(b.put(narrow(kv)));
    p.n_heads = kHeads;
    p.scale = kScale;
    p.step = {b.put<std::uint32_t>({1}),
              b.put<StepSequence>({{0, 1, 0, 0}}),
              b.put(pages),
              kPages,
              b.put<std::uint32_t>({kTokens}),
              b.room<std::uint64_t>(1)};
    p.grid = mla_grid({1, kHeads, 1, kTokens}, mla_splits(b.n_sms(), kHeads, 1), b.n_sms());
    const auto parts = static_cast<std::size_t>(p.grid.parts());
    float *const part_out = b.room<float>(parts * kHeads * kMlaLatent);
    float *const part_lse = b.room<float>(parts * kHeads);
    std::uint32_t *const n_parts = b.room<std::uint32_t>(1);
    p.part_out = part_out;
    p.part_lse = part_lse;
    p.n_parts = n_parts;
    p.row_capacity = 1;
    mla_verify_paged(p, b.stream());
    float *const out = b.room<float>(kHeads * kMlaLatent);
    attention_merge({part_out, part_lse, n_parts, b.put<std::uint32_t>({1}), kHeads, kMlaLatent, 1,
                     1, nullptr, out, nullptr},
                    b.stream());
    std::vector<float> expected(kHeads * kMlaLatent);
    for (std::uint32_t h = 0; h < kHeads; ++h) {
        float sum = 0;
        float *const to = &expected[h * kMlaLatent];
        for (std::uint32_t t = 0; t < kTokens; ++t) {
            const float *const token =
                &kv[(pages[t / kMlaPageTokens] * kMlaPageTokens + t % kMlaPageTokens) * kMlaDim];
            float score = 0;
            for (int i = 0; i < kMlaDim; ++i) score += q[h * kMlaDim + i] * token[i];
            const float weight = std::exp(score * kScale);
            sum += weight;
            for (int i = 0; i < kMlaLatent; ++i) to[i] += weight * token[i];
        }
        for (int i = 0; i < kMlaLatent; ++i) to[i] /= sum;
    }
    return {b.get(out, expected.size()), expected};
}

struct Case {
    const char *kernels;
    Outcome (*outcome)(Bench &bench);
};
constexpr Case kCases[] = {{"rms_norm", rms_norm_outcome},
                           {"skinny_gemm", skinny_gemm_outcome},
                           {"moe_repack, moe_route and moe_experts", experts_outcome},
                           {"mla_verify_paged and attention_merge", attention_outcome}};

// NaN is wrong too.
bool is_right(const Outcome &outcome) {
    float largest = 0;
    for (const float x : outcome.expected) largest = std::max(largest, std::fabs(x));
    for (std::size_t i = 0; i < outcome.got.size(); ++i)
        if (!(std::fabs(outcome.got[i] - outcome.expected[i]) <= kTolerance * largest))
            return false;
    return true;
}

}  // namespace

void self_check(int gpu) {
    check(cudaSetDevice(gpu), "choosing a GPU");
    Bench bench(gpu);
    for (const Case &c : kCases)
        if (!is_right(c.outcome(bench)))
            fail(KIMI_DEVICE_LOST, "GPU ", gpu, " computes wrongly: ", c.kernels);
}

}  // namespace kimi::cuda
