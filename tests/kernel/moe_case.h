// int4 experts, their routing and their output: on the kernels, and naively.
#pragma once

#include <numeric>

#include "kernels/moe_experts.h"
#include "kernels/moe_repack.h"
#include "kernels/moe_route.h"
#include "tests/kernel/support.h"

namespace kimi::test {

// A matrix as the checkpoint has it.
struct Int4Matrix {
    std::uint32_t rows, inputs;
    std::vector<std::uint32_t> words;
    std::vector<bf16> scales;

    Int4Matrix(std::uint32_t n_rows, std::uint32_t n_inputs, unsigned seed)
        : rows(n_rows), inputs(n_inputs) {
        std::mt19937 random(seed);
        words.resize(std::size_t{rows} * inputs / 8);
        for (auto &word : words) word = static_cast<std::uint32_t>(random());
        for (std::size_t i = 0; i < std::size_t{rows} * inputs / 32; ++i) {
            scales.push_back(to_bf16(0.01F + 0.01F * static_cast<float>(random() % 100) / 100));
        }
    }
    int nibble(std::size_t row, std::size_t input) const {
        return static_cast<int>(words[row * (inputs / 8) + input / 8] >> (4 * (input % 8)) & 15U);
    }
    float scale(std::size_t row, std::size_t input) const {
        return to_float(scales[row * (inputs / 32) + input / 32]);
    }
    double value(std::size_t row, std::size_t input) const {
        return (nibble(row, input) - 8) * double{scale(row, input)};
    }
};

struct RouteCase {
    std::uint32_t n, max_rows, n_experts, top_k;
    std::vector<float> logits = random_floats(std::size_t{n} * n_experts, 1, 3);
    std::vector<float> bias = random_floats(n_experts, 2, 0.2F);
    bool normalize = true;
    float scale = 2.827F;
    std::vector<std::uint32_t> held = {};  // none: all
    std::size_t pairs = std::size_t{max_rows} * top_k;

    Buffer<std::uint32_t> ids{"ids", pairs}, n_tiles{"n_tiles", moe_slices(max_rows)},
        n_groups{"n_groups", moe_slices(max_rows)};
    Buffer<std::uint32_t> pair_row{"pair_row", pairs};
    Buffer<float> weights{"weights", pairs}, pair_weight{"pair_weight", pairs};
    Buffer<MoeTile> tiles{"tiles", pairs};
    Buffer<MoeGroup> groups{"groups", pairs};

    MoePlan plan() const {
        return {n_tiles.data(), n_groups.data(), tiles.data(),
                groups.data(),  pair_row.data(), pair_weight.data()};
    }
    Report run() const {
        Buffer<float> in("logits", std::size_t{max_rows} * n_experts);
        in.upload(logits);
        const Buffer<float> bias_device("bias", bias);
        const Buffer<std::uint32_t> n_rows("n_rows", one(n));
        const Buffer<std::uint32_t> places("held", held.empty() ? one(0) : held);
        return test::run([&] {
            moe_route({in.data(), bias_device.data(), n_rows.data(), max_rows, n_experts, top_k,
                       normalize, scale, ids.data(), weights.data(), plan(),
                       held.empty() ? nullptr : places.data()},
                      stream());
        });
    }
    // The ids of a row, best first, and their weights.
    struct Choice {
        std::vector<std::uint32_t> ids;
        std::vector<double> weights;
    };
    Choice expected(std::uint32_t row) const {
        const auto score = [&](std::uint32_t e) {
            return 1 / (1 + std::exp(-double{logits[std::size_t{row} * n_experts + e]}));
        };
        const auto value = [&](std::uint32_t e) {
            const double v = score(e) + bias[e];
            return std::isnan(v) ? -INFINITY : v;
        };
        std::vector<std::uint32_t> order(n_experts);
        std::iota(order.begin(), order.end(), 0U);
        std::stable_sort(order.begin(), order.end(),
                         [&](auto a, auto b) { return value(a) > value(b); });
        order.resize(top_k);
        Choice c{order, {}};
        double sum = 0;
        for (const std::uint32_t e : order) sum += score(e);
        for (const std::uint32_t e : order)
            c.weights.push_back(score(e) * scale / (normalize ? sum + 1e-20 : 1));
        return c;
    }
};

struct MoeCase {
    std::uint32_t hidden, width;
    RouteCase route;
    bool add = false;
    int n_sms = 188;
    std::vector<Int4Matrix> gate = {}, up = {}, down = {};
    std::vector<bf16> x = random_bf16(std::size_t{route.n} * hidden, 7);
    std::vector<float> before = random_floats(std::size_t{route.n} * hidden, 8);
    std::vector<float> y = {};  // [n, hidden]

    void make_experts() {
        for (std::uint32_t e = 0; e < route.n_experts; ++e) {
            gate.emplace_back(width, hidden, 10 + 3 * e);
            up.emplace_back(width, hidden, 11 + 3 * e);
            down.emplace_back(hidden, width, 12 + 3 * e);
        }
    }
    Report run() {
        if (gate.empty()) make_experts();
        const std::size_t gate_up_bytes = moe_matrix_bytes(2 * width, hidden),
                          down_bytes = moe_matrix_bytes(hidden, width);
        const Buffer<std::uint8_t> gate_up("gate_up", route.n_experts * gate_up_bytes);
        const Buffer<std::uint8_t> down_device("down", route.n_experts * down_bytes);
        for (std::uint32_t e = 0; e < route.n_experts; ++e)
            repack(e, gate_up.data() + e * gate_up_bytes, down_device.data() + e * down_bytes);
        check_clean(route.run());
        Buffer<bf16> x_device("x", std::size_t{route.max_rows} * hidden);
        x_device.upload(x);
        const Buffer<bf16> act("act", route.pairs * width);
        Buffer<float> y_device("y", std::size_t{route.max_rows} * hidden);
        if (add) y_device.upload(before);
        const Buffer<std::uint32_t> n_rows("n_rows", one(route.n));
        const Report r = test::run([&] {
            moe_experts({x_device.data(), route.plan(), route.max_rows, route.top_k,
                         route.n_experts, hidden, width, gate_up.data(), down_device.data(),
                         act.data(), y_device.data(), n_rows.data(), add, n_sms},
                        stream());
        });
        y = y_device.download();
        for (std::size_t i = std::size_t{route.n} * hidden; i < y.size(); ++i)
            REQUIRE(std::isnan(y[i]));
        y.resize(std::size_t{route.n} * hidden);
        return r;
    }
    void check() const {
        std::vector<float> expected;
        double largest = 0;
        for (std::uint32_t row = 0; row < route.n; ++row) {
            std::vector<double> out(hidden);
            const auto choice = route.expected(row);
            for (std::size_t k = 0; k < choice.ids.size(); ++k) {
                const std::uint32_t e = choice.ids[k];
                std::vector<double> act(width);
                for (std::uint32_t i = 0; i < width; ++i) {
                    double g = 0, u = 0;
                    for (std::uint32_t c = 0; c < hidden; ++c) {
                        const double in = to_float(x[std::size_t{row} * hidden + c]);
                        g += gate[e].value(i, c) * in;
                        u += up[e].value(i, c) * in;
                    }
                    act[i] = g / (1 + std::exp(-g)) * u * choice.weights[k];
                }
                for (std::uint32_t o = 0; o < hidden; ++o) {
                    for (std::uint32_t i = 0; i < width; ++i)
                        out[o] += down[e].value(o, i) * act[i];
                }
            }
            for (std::uint32_t o = 0; o < hidden; ++o) {
                largest = std::max(largest, std::fabs(out[o]));
                expected.push_back(
                    static_cast<float>(out[o] + (add ? before[std::size_t{row} * hidden + o] : 0)));
            }
        }
        check_close(y, expected, 0.01 * largest + 1e-6);
    }

  private:
    void repack(std::uint32_t e, std::uint8_t *gate_up, std::uint8_t *down_to) const {
        const auto rows = [](const Int4Matrix &m, const Buffer<std::uint32_t> &words,
                             const Buffer<bf16> &scales) {
            return Int4Rows{words.data(), scales.data(), m.inputs / 8, m.inputs / 32};
        };
        const Buffer<std::uint32_t> gate_words("w", gate[e].words), up_words("w", up[e].words),
            down_words("w", down[e].words);
        const Buffer<bf16> gate_scales("s", gate[e].scales), up_scales("s", up[e].scales),
            down_scales("s", down[e].scales);
        check_clean(test::run([&] {
            moe_repack({rows(gate[e], gate_words, gate_scales), rows(up[e], up_words, up_scales),
                        2 * width, hidden, gate_up},
                       stream());
            moe_repack({rows(down[e], down_words, down_scales), {}, hidden, width, down_to},
                       stream());
        }));
    }
};

}  // namespace kimi::test
