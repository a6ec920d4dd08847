// One safetensors file: 8 bytes of header length (little-endian), a JSON header, then the data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"

namespace kimi {

enum class DType : std::uint8_t {
    bf16,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    boolean,
    f8_e4m3,
    f8_e5m2
};

std::string_view dtype_name(DType dtype);
std::size_t dtype_size(DType dtype);

// A tensor inside a mapped file.
struct Tensor {
    std::string name;
    DType dtype = DType::bf16;
    std::uint8_t rank = 0;
    std::array<std::uint64_t, 4> shape{};
    const std::byte *data = nullptr;  // not necessarily aligned
    std::uint64_t bytes = 0;
};

// "[2, 3]"
std::string shape_text(const Tensor &tensor);

// Reads and checks the header: every tensor has a known dtype, at most four dimensions, the size
// that its shape says, and its own place inside the file. Throws KIMI_CORRUPT with the file, the
// tensor and both values. The tensors point into `file`, which must outlive them.
std::vector<Tensor> read_safetensors(const MappedFile &file);

}  // namespace kimi
