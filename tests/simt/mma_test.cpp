// Tensor-core operations against the formulas of the PTX documentation, written here once more.
#include <algorithm>
#include <cmath>
#include <random>

#include "tests/simt/testing.h"

namespace kimi::simt::host {
namespace {

// An operand type: how many bits, and the value of a pattern.
struct Type {
    const char *name;
    int bits;
    float (*value)(std::uint32_t);
    void (*multiply)(FragC &, const FragA &, const FragB &, Site);
};
const Type kTypes[] = {
    {"bf16", 16, [](std::uint32_t v) { return bf16_to_float(static_cast<bf16>(v)); }, mma_bf16},
    {"f16", 16, [](std::uint32_t v) { return f16_to_float(static_cast<f16>(v)); }, mma_f16},
    {"e4m3", 8, [](std::uint32_t v) { return e4m3_to_float(static_cast<e4m3>(v)); }, mma_e4m3},
};

// m16n8kK: patterns of A [16, k] and B [k, 8], values of C [16, 8].
struct Case {
    const Type &type;
    int k = type.bits == 16 ? 16 : 32;
    std::vector<std::uint32_t> a = std::vector<std::uint32_t>(16 * k);
    std::vector<std::uint32_t> b = std::vector<std::uint32_t>(k * 8);
    std::vector<float> c = std::vector<float>(16 * 8);
};

// PTX, "Matrix Fragments for mma.m16n8k16 with floating point type", and m16n8k32: element i of a
// lane. 16-bit: row = groupID for 0 <= i < 2 or 4 <= i < 6, else groupID + 8;
//         col = threadID_in_group * 2 + (i & 1), + 8 for i >= 4.
// 8-bit:  row = groupID for 0 <= i < 4 or 8 <= i < 12, else groupID + 8;
//         col = threadID_in_group * 4 + (i & 3), + 16 for i >= 8.
std::uint32_t element_a(const Case &t, int lane, int i) {
    const int group = lane >> 2, in_group = lane % 4;
    if (t.type.bits == 16) {
        const int row = (i < 2 || (i >= 4 && i < 6)) ? group : group + 8;
        const int col = in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
        return t.a[row * t.k + col];
    }
    const int row = (i < 4 || (i >= 8 && i < 12)) ? group : group + 8;
    const int col = in_group * 4 + (i & 3) + (i >= 8 ? 16 : 0);
    return t.a[row * t.k + col];
}
// 16-bit: row = threadID_in_group * 2 + (i & 1), + 8 for i >= 2; col = groupID.
// 8-bit:  row = threadID_in_group * 4 + (i & 3), + 16 for i >= 4; col = groupID.
std::uint32_t element_b(const Case &t, int lane, int i) {
    const int in_group = lane % 4, col = lane >> 2;
    const int row = t.type.bits == 16 ? in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0)
                                      : in_group * 4 + (i & 3) + (i >= 4 ? 16 : 0);
    return t.b[row * 8 + col];
}
// row = groupID for i < 2, else groupID + 8; col = threadID_in_group * 2 + (i & 1).
int element_c(int lane, int i) {
    return ((lane >> 2) + (i < 2 ? 0 : 8)) * 8 + lane % 4 * 2 + (i & 1);
}

std::vector<float> run_case(const Case &t) {
    std::vector<float> d(16 * 8);
    check_clean(run_body({1}, {32}, [&] {
        const int lane = static_cast<int>(tid()), per_register = 32 / t.type.bits;
        FragA a = {};
        FragB b = {};
        FragC acc;
        for (int i = 0; i < 4 * per_register; ++i) {
            a[i / per_register] |= element_a(t, lane, i) << t.type.bits * (i % per_register);
        }
        for (int i = 0; i < 2 * per_register; ++i) {
            b[i / per_register] |= element_b(t, lane, i) << t.type.bits * (i % per_register);
        }
        for (int i = 0; i < 4; ++i) acc[i] = t.c[element_c(lane, i)];
        t.type.multiply(acc, a, b, Site::here());
        for (int i = 0; i < 4; ++i) d[element_c(lane, i)] = acc[i];
    }));
    return d;
}

// In order of k, in double, rounded once: as mma.cpp promises.
void check_case(const Case &t) {
    const std::vector<float> d = run_case(t);
    for (int m = 0; m < 16; ++m) {
        for (int n = 0; n < 8; ++n) {
            double sum = t.c[m * 8 + n];
            for (int k = 0; k < t.k; ++k) {
                sum += double{t.type.value(t.a[m * t.k + k])} * t.type.value(t.b[k * 8 + n]);
            }
            const auto expected = static_cast<float>(sum);
            INFO(t.type.name, " row ", m, " column ", n, ": got ", d[m * 8 + n], ", expected ",
                 expected);
            CHECK((std::isnan(expected) ? std::isnan(d[m * 8 + n]) : d[m * 8 + n] == expected));
        }
    }
}

TEST_CASE("simt: mma equals a scalar product for each type and all bit patterns") {
    std::mt19937 random(1);
    for (const Type &type : kTypes) {
        for (int round = 0; round < 20; ++round) {
            Case t{type};
            std::uniform_int_distribution<std::uint32_t> pattern(0, (1U << type.bits) - 1);
            // Half of the rounds without NaN and infinities.
            const auto draw = [&] {
                for (;;) {
                    const std::uint32_t v = pattern(random);
                    if (round % 2 == 1 || std::isfinite(type.value(v))) return v;
                }
            };
            std::generate(t.a.begin(), t.a.end(), draw);
            std::generate(t.b.begin(), t.b.end(), draw);
            std::uniform_real_distribution<float> c(-1e3F, 1e3F);
            std::generate(t.c.begin(), t.c.end(), [&] { return c(random); });
            check_case(t);
        }
    }
}

TEST_CASE("simt: every element of mma's operands goes to its own place") {
    for (const Type &type : kTypes) {
        const std::uint32_t one = type.bits == 8 ? 0x38 : type.value(0x3f80) == 1 ? 0x3f80 : 0x3c00;
        REQUIRE(type.value(one) == 1);
        for (int k = 0; k < Case{type}.k; k += 3) {
            Case t{type};
            for (int m = 0; m < 16; ++m) t.a[m * t.k + k] = m % 2 == 0 ? one : 0;
            for (int n = 0; n < 8; ++n) t.b[k * 8 + n] = n % 3 == 0 ? one : 0;
            check_case(t);
        }
    }
}

TEST_CASE("simt: NaN from mma is the one that the GPU writes, and sums keep their infinities") {
    Case t{kTypes[0]};
    t.a[0] = 0x7f80, t.b[0] = 0;        // infinity times 0
    t.a[16] = 0x7f80, t.b[1] = 0x3f80;  // row 1, column 1: infinity
    const auto d = run_case(t);
    CHECK(bits<std::uint32_t>(d[0]) == 0x7fffffffU);
    CHECK(d[8 + 1] == INFINITY);
}

TEST_CASE("simt: mma reads fragments that are pending, its own result among them") {
    std::vector<float> got(32 * 4), expected(32 * 4);
    const auto body = [](bool look_between) {
        FragA a = {};
        FragB b = {};
        FragC acc = {};
        for (int i = 0; i < 4; ++i) a[i] = pack_bf16(static_cast<float>(tid()), 1);
        b[0] = pack_bf16(1, 2);
        b[1] = pack_bf16(0.5F, 3);
        for (int i = 0; i < 100; ++i) {
            mma_bf16(acc, a, b);
            FragC copy = acc;
            if (look_between || i % 7 == static_cast<int>(tid()) % 7) acc[0] += 0;
            if (i % 10 == 9) copy = FragC(), acc = copy;
            if (i % 3 == 0) a[0] = a[1];
        }
        return acc;
    };
    for (const bool look : {false, true}) {
        auto &to = look ? expected : got;
        check_clean(run_body({1}, {32}, [&] {
            const FragC acc = body(look);
            for (int i = 0; i < 4; ++i) to[4 * tid() + static_cast<unsigned>(i)] = acc[i];
        }));
    }
    CHECK(got == expected);
}

// PTX, ldmatrix: thread T holds of each 8x8 matrix row T / 4, columns 2 * (T % 4) and + 1; with
// .trans of the transposed matrix.
template <int N, typename Load>
void check_ldmatrix(bool transposed, Load &&load) {
    constexpr unsigned kStride = 24;  // elements from row to row
    check_clean(run_body({1}, {32}, 4096, [&] {
        const auto s = dynamic_shared<std::uint16_t>(0, 2048);
        for (unsigned i = tid(); i < 32 * kStride; i += 32) s[i] = static_cast<std::uint16_t>(i);
        __syncwarp();
        std::uint32_t r[4] = {};
        load(s + kStride * (tid() % (8 * N)), r);
        const unsigned row = tid() / 4, column = tid() % 4 * 2;
        for (unsigned i = 0; i < N; ++i) {
            const auto element = [&](unsigned y, unsigned x) { return (8 * i + y) * kStride + x; };
            const unsigned low = transposed ? element(column, row) : element(row, column);
            const unsigned high = transposed ? element(column + 1, row) : element(row, column + 1);
            CHECK(r[i] == (high << 16 | low));
        }
    }));
}

TEST_CASE("simt: ldmatrix gives every lane its elements") {
    using Row = Shared<std::uint16_t>;
    using One = Fragment<std::uint32_t, 1>;
    const auto take = [](std::uint32_t *r, const auto &f, int n) {
        for (int i = 0; i < n; ++i) r[i] = f[i];
    };
    check_ldmatrix<1>(false, [&](Row p, std::uint32_t *r) {
        One f;
        ldmatrix_x1(f, p);
        take(r, f, 1);
    });
    check_ldmatrix<1>(true, [&](Row p, std::uint32_t *r) {
        One f;
        ldmatrix_x1_trans(f, p);
        take(r, f, 1);
    });
    check_ldmatrix<2>(false, [&](Row p, std::uint32_t *r) {
        FragB f;
        ldmatrix_x2(f, p);
        take(r, f, 2);
    });
    check_ldmatrix<2>(true, [&](Row p, std::uint32_t *r) {
        FragB f;
        ldmatrix_x2_trans(f, p);
        take(r, f, 2);
    });
    check_ldmatrix<4>(false, [&](Row p, std::uint32_t *r) {
        FragA f;
        ldmatrix_x4(f, p);
        take(r, f, 4);
    });
    check_ldmatrix<4>(true, [&](Row p, std::uint32_t *r) {
        FragA f;
        ldmatrix_x4_trans(f, p);
        take(r, f, 4);
    });
    check_ldmatrix<4>(false, [&](Row p, std::uint32_t *r) {
        FragB f, g;
        ldmatrix_x4(f, g, p);
        take(r, f, 2);
        take(r + 2, g, 2);
    });
    check_ldmatrix<4>(true, [&](Row p, std::uint32_t *r) {
        FragB f, g;
        ldmatrix_x4_trans(f, g, p);
        take(r + 2, g, 2);
        take(r, f, 2);
    });
}

TEST_CASE("simt: ldmatrix reads what is there when it is called") {
    check_clean(run_body({1}, {32}, 512, [] {
        const auto s = dynamic_shared<std::uint32_t>(0, 128);
        for (unsigned i = 0; i < 4; ++i) s[4 * tid() + i] = 1;
        __syncwarp();
        FragA f;
        ldmatrix_x4(f, s + 4 * tid());
        __syncwarp();
        for (unsigned i = 0; i < 4; ++i) s[4 * tid() + i] = 2;
        CHECK(f[0] == 1);
        CHECK(f[3] == 1);
    }));
}

}  // namespace
}  // namespace kimi::simt::host
