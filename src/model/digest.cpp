#include "model/digest.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/mapped_file.h"

namespace kimi {

Digest checkpoint_digest(const Checkpoint &checkpoint) {
    constexpr std::size_t kEdge = 16;
    Digester digest;
    digest.add(read_file(checkpoint.folder() + "/config.json", 1 << 24));
    std::vector<const Tensor *> tensors;
    checkpoint.each([&](const Tensor &tensor) { tensors.push_back(&tensor); });
    std::sort(tensors.begin(), tensors.end(),
              [](const Tensor *a, const Tensor *b) { return a->name < b->name; });
    for (const Tensor *tensor : tensors) {
        digest.add(tensor->name);
        digest.add(&tensor->dtype, sizeof tensor->dtype);
        digest.add(tensor->shape.data(), tensor->rank * sizeof tensor->shape[0]);
        // Experts are many and alike: their bytes would be read from all over a disk.
        if (tensor->name.find(".experts.") != std::string::npos) continue;
        const std::size_t n = std::min<std::size_t>(kEdge, tensor->bytes);
        digest.add(tensor->data, n);
        digest.add(tensor->data + tensor->bytes - n, n);
    }
    return digest.value();
}

}  // namespace kimi
