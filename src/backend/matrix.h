// Weights as the forward passes see them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kimi {

enum class WeightType : std::uint8_t {
    bf16,
    int4,  // compressed-tensors pack-quantized: offset-binary nibbles, lowest first, bf16 scale per
           // 32 inputs
};

// A [rows, cols] weight, row-major, y = x W^T. A slice of a mapped tensor is again a Matrix. The
// data need not be aligned.
struct Matrix {
    WeightType type = WeightType::bf16;
    std::uint32_t rows = 0, cols = 0;
    const std::byte *data = nullptr;
    std::size_t row_bytes = 0;  // from one row to the next
    const std::byte *scales = nullptr;
    std::size_t scale_row_bytes = 0;

    const std::byte *row(std::size_t r) const { return data + r * row_bytes; }
    const std::byte *scale_row(std::size_t r) const { return scales + r * scale_row_bytes; }

    // Bytes of weights and scales that a product reads.
    std::size_t bytes() const {
        const std::size_t n = std::size_t{rows} * cols;
        return type == WeightType::bf16 ? 2 * n : n / 2 + n / 32 * 2;
    }
    Matrix slice_rows(std::uint32_t begin, std::uint32_t n) const {
        Matrix out = *this;
        out.rows = n;
        out.data = row(begin);
        if (scales != nullptr) out.scales = scale_row(begin);
        return out;
    }
    // begin and n are multiples of 32 for int4.
    Matrix slice_cols(std::uint32_t begin, std::uint32_t n) const {
        Matrix out = *this;
        out.cols = n;
        out.data += type == WeightType::bf16 ? std::size_t{begin} * 2 : begin / 2;
        if (scales != nullptr) out.scales += begin / 32 * 2;
        return out;
    }
};

// A [n] vector of bf16 values (norm weights), not necessarily aligned.
struct Vector {
    std::uint32_t n = 0;
    const std::byte *data = nullptr;
};

}  // namespace kimi
