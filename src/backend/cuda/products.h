// Products of activations with weights: linear layers, the heads of absorbed attention, experts.
#pragma once

#include <span>

#include "backend/cuda/activations.h"
#include "backend/cuda/weights.h"
#include "kernels/moe_layout.h"
#include "kernels/skinny_gemm.h"

namespace kimi::cuda {

// A product per head: y[r, h] = weight[h] x[r, h].
struct HeadProducts {
    const bf16 *x;  // [rows, heads, x_stride], of which the first `inputs` are read
    std::uint32_t x_stride;
    const bf16 *weight;  // [heads, outputs, inputs]
    std::uint32_t inputs, outputs;
    bf16 *y;  // [rows, heads, y_stride], of which the first `outputs` are written
    std::uint32_t y_stride;
    std::uint32_t n_heads;
};

class Products {
  public:
    Products(const DeviceLimits &limits, int n_sms, cudaStream_t stream);

    // At most kSkinnyGemmMaxJobs with one input. n_rows lies on the device.
    void linear(std::span<const LinearJob> jobs, const Activations &activations,
                const std::uint32_t *n_rows, std::uint32_t max_rows);
    void heads(const HeadProducts &products, const std::uint32_t *n_rows, std::uint32_t max_rows);
    // y += what the chosen ones of this rank's experts give, for any number of rows
    void experts(const RouterShape &shape, const ExpertWeights &w, const float *logits,
                 const float *bias, const bf16 *x, float *y, const std::uint32_t *n_rows,
                 std::uint32_t max_rows);

  private:
    void run(SkinnyGemmParams &params);

    cudaStream_t stream_;
    int n_sms_;
    std::uint32_t hidden_;
    // What blocks that share an output leave for the last of them.
    DeviceArray<float> partial_;
    DeviceArray<std::uint32_t> arrived_;
    // Routing of a layer.
    DeviceArray<std::uint32_t> ids_, pair_row_, n_tiles_, n_groups_;
    DeviceArray<float> weights_, pair_weight_;
    DeviceArray<MoeTile> tiles_;
    DeviceArray<MoeGroup> groups_;
    DeviceArray<bf16> act_;
};

}  // namespace kimi::cuda
