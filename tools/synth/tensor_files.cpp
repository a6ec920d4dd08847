#include "tools/synth/tensor_files.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace kimi::synth {
namespace {

// Place among the types in the safetensors library's order, largest first.
int type_order(DType dtype) {
    return dtype == DType::f32 ? 0 : dtype == DType::i32 ? 1 : 2;
}

std::string join(std::span<const std::uint64_t> numbers) {
    std::string text;
    for (const std::uint64_t n : numbers) text += cat(text.empty() ? "" : ",", n);
    return text;
}

}  // namespace

std::uint64_t TensorSpec::bytes() const {
    std::uint64_t n = dtype_size(dtype);
    for (const std::uint64_t dim : shape) n *= dim;
    return n;
}

std::uint64_t Shard::data_bytes() const {
    std::uint64_t n = 0;
    for (const TensorSpec &tensor : tensors) n += tensor.bytes();
    return n;
}

Shard make_shard(std::string file, std::vector<TensorSpec> tensors) {
    std::sort(tensors.begin(), tensors.end(), [](const TensorSpec &a, const TensorSpec &b) {
        const int order = type_order(a.dtype) - type_order(b.dtype);
        return order != 0 ? order < 0 : a.name < b.name;
    });
    return {std::move(file), std::move(tensors)};
}

std::string safetensors_header(std::span<const TensorSpec> tensors) {
    std::string header(sizeof(std::uint64_t), '\0');
    std::uint64_t at = 0;
    for (const TensorSpec &tensor : tensors) {
        const std::uint64_t end = at + tensor.bytes();
        header +=
            cat(at == 0 ? '{' : ',', '"', tensor.name, R"(":{"dtype":")", dtype_name(tensor.dtype),
                R"(","shape":[)", join(tensor.shape), R"(],"data_offsets":[)", at, ',', end, "]}");
        at = end;
    }
    header += '}';
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = header.size() - sizeof length;
    std::memcpy(header.data(), &length, sizeof length);
    return header;
}

std::string index_json(std::span<const Shard> shards) {
    std::uint64_t total = 0;
    std::string map;
    for (const Shard &shard : shards) {
        total += shard.data_bytes();
        for (const TensorSpec &tensor : shard.tensors)
            map += cat(map.empty() ? "" : ",", "\n    \"", tensor.name, "\": \"", shard.file, '"');
    }
    return cat("{\n  \"metadata\": {\n    \"total_size\": ", total, "\n  },\n  \"weight_map\": {",
               map, "\n  }\n}");
}

}  // namespace kimi::synth
