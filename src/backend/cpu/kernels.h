// The inner loops of the CPU backend, one table per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/matrix.h"

namespace kimi {

// int4 products read their input in blocks of 128 values, transposed so that the inputs of nibble j
// of sixteen words lie together: permuted[128 b + 16 j + w] = x[128 b + 8 w + j], zero beyond the
// end.
inline constexpr std::uint32_t kInt4Block = 128;

// Softmax weights are never below exp(kExpFloor) of the largest.
inline constexpr float kExpFloor = -60.0f;

struct CpuKernels {
    const char *name;

    // y[i][r] = sum over k of w[r][k] * x[i][k], for the rows [begin, end) and n inputs. Where w is
    // int4, x is permuted. The order of the sum depends on neither n nor the rows.
    void (*linear)(const Matrix &w, std::uint32_t begin, std::uint32_t end, const float *const *x,
                   std::uint32_t n, float *const *y);
    void (*permute_int4)(const float *x, std::uint32_t cols, float *permuted);

    void (*rms_norm)(const float *x, const std::byte *w, std::uint32_t n, float eps, float *y);
    void (*swiglu)(float *gate, const float *up, std::uint32_t n);  // gate = silu(gate) * up
    void (*add)(float *x, const float *y, std::uint32_t n);         // x += y
    void (*add_scaled)(float *x, float a, const float *y, std::uint32_t n);  // x += a * y
    void (*scale)(float *x, float a, std::uint32_t n);                       // x *= a
    void (*widen)(const std::byte *bf16, std::uint32_t n, float *y);
    void (*narrow)(const float *x, std::uint32_t n, std::byte *bf16);

    void (*widen_e4m3)(const std::byte *codes, std::uint32_t n, float scale, float *y);

    // s[q * s_stride + t] = scale * dot(queries[q], keys[t]) over dim values; queries are dense,
    // keys lie key_stride values apart. n_keys is a multiple of 4.
    void (*scores)(const float *queries, std::uint32_t n_queries, const float *keys,
                   std::size_t key_stride, std::uint32_t n_keys, std::uint32_t dim, float scale,
                   float *s, std::size_t s_stride);
    // One step of the online softmax over scores: those of [begin, end), which is not empty, become
    // exp(s - max), the others up to the next multiple of 16 become 0. Updates max and sum, and
    // returns what earlier results must be multiplied by.
    float (*softmax_tile)(float *s, std::uint32_t begin, std::uint32_t end, float *max, float *sum);
    // y[q][c] += sum over t, in order, of a[q * a_stride + t] * rows[t][c], for n_cols columns.
    void (*weighted_sum)(const float *a, std::size_t a_stride, std::uint32_t n_queries,
                         const float *rows, std::size_t row_stride, std::uint32_t n_rows,
                         std::uint32_t n_cols, float *y, std::size_t y_stride);
    // The same for bf16 rows, starting from 0.
    void (*weighted_sum_bf16)(const float *a, std::size_t a_stride, std::uint32_t n_queries,
                              const std::byte *rows, std::size_t row_bytes, std::uint32_t n_rows,
                              std::uint32_t n_cols, float *y, std::size_t y_stride);
};

enum class CpuIsa { scalar, avx2, avx512 };

bool is_supported(CpuIsa isa);
const CpuKernels &cpu_kernels(CpuIsa isa);
CpuIsa best_cpu_isa();

}  // namespace kimi
