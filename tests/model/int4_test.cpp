// Products with stored weights: the device's kernels against unpacking one value at a time.
#include <cstring>
#include <random>

#include "backend/cpu/cpu_device.h"
#include "backend/cpu/kernels.h"
#include "base/bf16.h"
#include "check.h"

using namespace kimi;

namespace {

constexpr std::uint32_t kMaxTokens = 9;
constexpr std::uint32_t kWidths[] = {32, 96, 128, 256, 7168};

// A weight in the checkpoint's format; the bytes lie at odd addresses, as they may in a file.
class Weight {
  public:
    Weight(WeightType type, std::uint32_t rows, std::uint32_t cols)
        : type_(type),
          rows_(rows),
          cols_(cols),
          values_(1 + std::size_t{rows} * cols * (type == WeightType::bf16 ? 4 : 1) / 2),
          scales_(1 + std::size_t{rows} * cols / 32 * 2) {}

    // Input k of a row: of a bf16 weight, its value; of an int4 weight, the stored nibble 0..15.
    void set(std::uint32_t row, std::uint32_t k, float value) {
        const std::size_t at = std::size_t{row} * cols_ + k;
        if (type_ == WeightType::bf16) {
            put(values_, at, value);
        } else {
            std::byte &byte = values_[1 + at / 2];
            byte |= static_cast<std::byte>(static_cast<int>(value) << (k % 2 == 0 ? 0 : 4));
        }
    }
    void set_scale(std::uint32_t row, std::uint32_t group, float value) {
        put(scales_, std::size_t{row} * (cols_ / 32) + group, value);
    }

    // Word w of an int4 row holds inputs 8w..8w+7, the first in its lowest bits; they stand for
    // -8..7.
    double value(std::uint32_t row, std::uint32_t k) const {
        const std::size_t at = std::size_t{row} * cols_ + k;
        if (type_ == WeightType::bf16) return get(values_, at);
        std::uint32_t word;
        std::memcpy(&word, values_.data() + 1 + at / 8 * 4, sizeof word);
        const int nibble = static_cast<int>(word >> (4 * (k % 8)) & 15);
        return (nibble - 8) * double{get(scales_, at / 32)};
    }

    Matrix matrix() const {
        if (type_ == WeightType::bf16)
            return {type_, rows_, cols_, values_.data() + 1, std::size_t{cols_} * 2};
        return {type_,         rows_, cols_, values_.data() + 1, cols_ / 2, scales_.data() + 1,
                cols_ / 32 * 2};
    }

  private:
    static void put(std::vector<std::byte> &to, std::size_t i, float value) {
        const bf16 narrow = to_bf16(value);
        REQUIRE(to_float(narrow) == value);
        std::memcpy(to.data() + 1 + 2 * i, &narrow, sizeof narrow);
    }
    static float get(const std::vector<std::byte> &from, std::size_t i) {
        bf16 narrow;
        std::memcpy(&narrow, from.data() + 1 + 2 * i, sizeof narrow);
        return to_float(narrow);
    }

    WeightType type_;
    std::uint32_t rows_, cols_;
    std::vector<std::byte> values_, scales_;
};

std::mt19937 rng(7);

int draw(int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(rng);
}

// Values with all 8 bits of a bf16 mantissa and one exponent, so that sums of them with inputs
// -1, 0 and 1 are exact in fp32, in any order.
Weight random_weight(WeightType type, std::uint32_t rows, std::uint32_t cols) {
    Weight w(type, rows, cols);
    const auto mantissa = [] { return static_cast<float>(draw(128, 255)) * 0x1p-14f; };
    for (std::uint32_t r = 0; r < rows; ++r) {
        for (std::uint32_t k = 0; k < cols; ++k)
            w.set(r, k,
                  type == WeightType::int4 ? static_cast<float>(draw(0, 15))
                                           : mantissa() * static_cast<float>(draw(0, 1) * 2 - 1));
        for (std::uint32_t g = 0; g < cols / 32; ++g) w.set_scale(r, g, mantissa());
    }
    return w;
}

using Vectors = std::vector<std::vector<float>>;

Vectors random_inputs(std::uint32_t n, std::uint32_t width, bool exact) {
    Vectors x(n, std::vector<float>(width));
    for (auto &row : x)
        for (float &v : row)
            v = exact ? static_cast<float>(draw(-1, 1))
                      : static_cast<float>(draw(-9999, 9999)) / 7777;
    return x;
}

struct TestDevice {
    std::unique_ptr<Device> device;
    Buffer in, out, logits;

    explicit TestDevice(CpuIsa isa, std::uint32_t hidden) : device(make_cpu_device(isa, 2)) {
        DeviceLimits limits;
        limits.rows = kMaxTokens;
        limits.width = 7168;
        limits.hidden = hidden;
        limits.top_k = 2, limits.n_experts = 3, limits.expert_width = 256;
        limits.context = 64;
        limits.mla = {1, 16, 16, 16, 32, 1};
        limits.kv = {KvType::bf16, 1, 1, 32, 16};
        device->reserve(limits);
        in = device->alloc(kMaxTokens, 7168);
        out = device->alloc(kMaxTokens, 7168);
        logits = device->alloc(kMaxTokens, 3);
    }
    void put(const Vectors &x, Buffer to) const {
        for (std::size_t r = 0; r < x.size(); ++r) std::copy(x[r].begin(), x[r].end(), to.row(r));
    }
    Vectors get(std::size_t n, std::uint32_t width) const {
        Vectors y;
        for (std::size_t r = 0; r < n; ++r) y.emplace_back(out.row(r), out.row(r) + width);
        return y;
    }
    Vectors linear(const Weight &w, const Vectors &x) const {
        const Matrix m = w.matrix();
        put(x, in);
        const std::vector<std::uint32_t> positions(x.size());
        device->begin(DraftPlan{{}, positions, {}, {}});
        device->linear({{{&m, in, out}}}, Rows::all);
        return get(x.size(), m.rows);
    }
};

std::vector<double> multiply(const Weight &w, std::span<const double> x) {
    std::vector<double> y(w.matrix().rows);
    for (std::uint32_t r = 0; r < y.size(); ++r)
        for (std::uint32_t k = 0; k < x.size(); ++k) y[r] += w.value(r, k) * x[k];
    return y;
}

std::vector<double> widen(const std::vector<float> &x) {
    return {x.begin(), x.end()};
}
std::vector<float> narrow(const std::vector<double> &x) {
    return {x.begin(), x.end()};
}

struct Mlp {
    Weight gate, up, down;
};

constexpr float kRoutedScale = 2.5f;

// The two best of three experts by score + bias: all but the worst.
std::vector<float> naive_experts(const std::vector<Mlp> &mlps, const std::vector<float> &logits,
                                 const float *bias, const std::vector<double> &x) {
    double score[3], sum = 0;
    std::uint32_t worst = 0;
    for (std::uint32_t e = 0; e < 3; ++e) {
        score[e] = 1 / (1 + std::exp(-double{logits[e]}));
        if (score[e] + bias[e] < score[worst] + bias[worst]) worst = e;
    }
    for (std::uint32_t e = 0; e < 3; ++e) sum += e == worst ? 0 : score[e];
    std::vector<double> y(x.size());
    for (std::uint32_t e = 0; e < 3; ++e) {
        if (e == worst) continue;
        std::vector<double> inner = multiply(mlps[e].gate, x);
        const std::vector<double> up = multiply(mlps[e].up, x);
        for (std::size_t i = 0; i < inner.size(); ++i)
            inner[i] *= up[i] / (1 + std::exp(-inner[i]));
        const std::vector<double> part = multiply(mlps[e].down, inner);
        for (std::size_t i = 0; i < y.size(); ++i) y[i] += kRoutedScale * score[e] / sum * part[i];
    }
    return narrow(y);
}

// f(device) for every instruction set of this machine; the device's experts have `hidden` inputs.
template <typename F>
void each_isa(F &&f, std::uint32_t hidden = 7168) {
    for (const CpuIsa isa : {CpuIsa::scalar, CpuIsa::avx2, CpuIsa::avx512}) {
        if (!is_supported(isa)) continue;
        CAPTURE(static_cast<int>(isa));
        f(TestDevice(isa, hidden));
    }
}

}  // namespace

TEST_CASE("int4: every nibble at every place is itself minus eight, times its group's scale") {
    constexpr std::uint32_t kCols = 160;
    Weight w(WeightType::int4, 16, kCols);
    for (std::uint32_t row = 0; row < 16; ++row) {
        for (std::uint32_t k = 0; k < kCols; ++k) w.set(row, k, static_cast<float>((row + k) % 16));
        for (std::uint32_t g = 0; g < kCols / 32; ++g)
            w.set_scale(row, g, static_cast<float>(129 + row * 7 + g) * 0x1p-10f);
    }
    each_isa([&](const TestDevice &device) {
        for (std::uint32_t k = 0; k < kCols; ++k) {
            Vectors one_hot(1, std::vector<float>(kCols));
            one_hot[0][k] = 1;
            const std::vector<float> y = device.linear(w, one_hot)[0];
            for (std::uint32_t row = 0; row < 16; ++row) {
                CAPTURE(k);
                CAPTURE(row);
                const float scale = static_cast<float>(129 + row * 7 + k / 32) * 0x1p-10f;
                CHECK(y[row] == (static_cast<float>((row + k) % 16) - 8) * scale);
            }
        }
    });
}

TEST_CASE("linear: int4 and bf16 products are exact for any width, row count and token count") {
    for (const WeightType type : {WeightType::int4, WeightType::bf16})
        for (const std::uint32_t cols : kWidths)
            for (const std::uint32_t rows : {1U, 7U, 37U}) {
                const Weight w = random_weight(type, rows, cols);
                const Vectors x = random_inputs(kMaxTokens, cols, true);
                Vectors expected;
                for (const auto &row : x) expected.push_back(narrow(multiply(w, widen(row))));
                each_isa([&](const TestDevice &device) {
                    for (std::uint32_t n = 1; n <= kMaxTokens; ++n) {
                        CAPTURE(static_cast<int>(type));
                        CAPTURE(cols);
                        CAPTURE(rows);
                        CAPTURE(n);
                        CHECK(device.linear(w, Vectors(x.begin(), x.begin() + n)) ==
                              Vectors(expected.begin(), expected.begin() + n));
                    }
                });
            }
}

TEST_CASE("linear: a token's bits do not depend on the tokens beside it") {
    for (const WeightType type : {WeightType::int4, WeightType::bf16})
        for (const std::uint32_t cols : kWidths) {
            CAPTURE(static_cast<int>(type));
            CAPTURE(cols);
            const Weight w = random_weight(type, 21, cols);
            const Vectors x = random_inputs(kMaxTokens, cols, false);
            each_isa([&](const TestDevice &device) {
                Vectors alone;
                for (const auto &row : x) alone.push_back(device.linear(w, {row})[0]);
                // fp32 rounding of a sum whose terms have this root mean square
                const double tolerance =
                    1e-6 * std::sqrt(cols) * (type == WeightType::int4 ? 0.05 : 0.01);
                test::check_close(alone[0], narrow(multiply(w, widen(x[0]))), tolerance);
                for (std::uint32_t n = 2; n <= kMaxTokens; ++n) {
                    CAPTURE(n);
                    CHECK(device.linear(w, Vectors(x.end() - n, x.end())) ==
                          Vectors(alone.end() - n, alone.end()));
                }
            });
        }
}

TEST_CASE("experts: int4 and bf16 experts side by side, on one rank and shared by two") {
    for (const auto &size : {std::pair{32U, 32U}, {96U, 128U}, {256U, 96U}, {7168U, 256U}}) {
        const std::uint32_t hidden = size.first;
        const std::uint32_t width = size.second;
        CAPTURE(hidden);
        std::vector<Mlp> mlps;
        for (const WeightType type : {WeightType::int4, WeightType::bf16, WeightType::int4})
            mlps.push_back({random_weight(type, width, hidden), random_weight(type, width, hidden),
                            random_weight(type, hidden, width)});
        const Vectors x = random_inputs(kMaxTokens, hidden, false);
        const Vectors logits = random_inputs(kMaxTokens, 3, false);
        const float bias[] = {0.125f, -0.25f, 0.0f};
        Vectors expected;
        for (std::uint32_t t = 0; t < kMaxTokens; ++t)
            expected.push_back(naive_experts(mlps, logits[t], bias, widen(x[t])));
        each_isa(
            [&](const TestDevice &device) {
                std::vector<Expert> experts;
                for (const Mlp &mlp : mlps)
                    experts.push_back({mlp.gate.matrix(), mlp.up.matrix(), mlp.down.matrix()});
                // Two ranks: one has the first expert, the other the last, both the second.
                std::vector<Expert> shards[2] = {experts, experts};
                shards[0][2].n_copies = shards[1][0].n_copies = 0;
                shards[0][1].n_copies = shards[1][1].n_copies = 2;
                shards[1][1].copy = 1;
                for (std::uint32_t n = 1; n <= kMaxTokens; n += 4) {
                    std::vector<std::uint32_t> position(n);
                    for (std::uint32_t i = 0; i < n; ++i) position[i] = 5 + 3 * i;
                    const auto run = [&](const std::vector<Expert> &held) {
                        device.put(x, device.in);
                        device.put(logits, device.logits);
                        device.put(Vectors(n, std::vector<float>(hidden)), device.out);
                        device.device->begin(DraftPlan{{}, position, {}, {}});
                        device.device->experts({3, 2, true, kRoutedScale}, device.logits, bias,
                                               held, device.in, device.out);
                        return device.get(n, hidden);
                    };
                    const auto check = [&](const Vectors &y) {
                        for (std::uint32_t t = 0; t < n; ++t) {
                            float largest = 0;
                            for (const float v : expected[t])
                                largest = std::max(largest, std::fabs(v));
                            test::check_close(y[t], expected[t], 2e-6 * largest);
                        }
                    };
                    check(run(experts));
                    Vectors sum = run(shards[0]);
                    const Vectors other = run(shards[1]);
                    for (std::uint32_t t = 0; t < n; ++t)
                        for (std::uint32_t i = 0; i < hidden; ++i) sum[t][i] += other[t][i];
                    check(sum);
                }
            },
            hidden);
    }
}
