#include "engine/estimate.h"

#include "backend/cpu/cpu_device.h"
#include "base/host_memory.h"
#include "engine/runner.h"
#include "kv/page_pool.h"
#include "model/dims.h"

namespace kimi {
namespace {

// Blocks that a layer's attention is split into at most, where that depends on the device.
constexpr std::uint32_t kGpuMultiprocessors = 188;

}  // namespace

Estimate estimate(const Deployment &deployment, std::uint64_t memory_bytes) {
    const bool cpu = deployment.backend == Deployment::Backend::cpu;
    const ModelDims dims = read_model_dims(deployment.checkpoint, deployment.drafter);
    const Placement placement = placement_of(deployment, dims);
    const std::uint32_t context = context_limit_of(deployment, dims.target.max_position);
    Machine machine;
    machine.devices = placement.ranks;
    machine.multiprocessors = cpu ? 1 : kGpuMultiprocessors;
    machine.memory_bytes =
        cpu && memory_bytes == 0 ? physical_memory() / placement.ranks : memory_bytes;
    const std::uint64_t split_bytes =
        cpu ? cpu_split_bytes(dims.target.n_heads, dims.target.kv_rank, context,
                              threads_per_rank(deployment))
            : 0;
    machine.reserved_bytes = split_bytes;

    // Memory does not depend on what is routed where.
    const ExpertMap experts = ExpertMap::in_order(dims.target, placement.expert_groups);
    const CostModel model(dims, placement, machine, kv_format(deployment.kv_type),
                          Routing(dims.target, experts, 1));
    Estimate out;
    out.devices = placement.ranks;
    out.device =
        model.memory({deployment.prefill_chunk, deployment.max_nodes + 1, deployment.draft_sessions,
                      cpu ? 0 : deployment.graph_bytes(), context, !cpu});
    out.device.workspace += split_bytes;
    const std::uint64_t tokens =
        deployment.kv_capacity_tokens > 0 ? deployment.kv_capacity_tokens : context;
    out.kv_bytes = pages_for(tokens) * kPageTokens * out.device.token;
    return out;
}

}  // namespace kimi
