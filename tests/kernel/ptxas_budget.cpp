#include "tests/kernel/ptxas_budget.h"

#include <cstdio>

#include "tests/check.h"
#include "tests/simt/ptxas.h"

#ifdef KIMI_OCCUPANCY
#include <cstring>

#include "cuda_occupancy.h"
#endif

namespace kimi::test {
namespace {

constexpr std::size_t kSharedPerBlock = 101'376;

#ifdef KIMI_OCCUPANCY
unsigned blocks_per_sm(const simt::host::PtxasKernel &k, const Budget &budget) {
    cudaOccDeviceProp device{};
    const bool blackwell = k.architecture == "sm_120";
    device.computeMajor = blackwell ? 12 : 9;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = blackwell ? 1536 : 2048;
    device.regsPerBlock = device.regsPerMultiprocessor = 65'536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 49'152;
    device.sharedMemPerBlockOptin = blackwell ? kSharedPerBlock : 232'448;
    device.sharedMemPerMultiprocessor = device.sharedMemPerBlockOptin + 1024;
    device.reservedSharedMemPerBlock = 1024;
    device.numSms = blackwell ? 188 : 132;
    cudaOccFuncAttributes attributes{};
    attributes.maxThreadsPerBlock = 1024;
    attributes.numRegs = static_cast<int>(k.registers);
    attributes.sharedSizeBytes = k.static_shared_bytes;
    attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
    attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    attributes.maxDynamicSharedSizeBytes = budget.shared_bytes;
    attributes.numBlockBarriers = 1;
    const cudaOccDeviceState state{};
    cudaOccResult result{};
    const auto status = cudaOccMaxActiveBlocksPerMultiprocessor(
        &result, &device, &attributes, &state, static_cast<int>(budget.threads),
        budget.shared_bytes);
    REQUIRE(status == CUDA_OCC_SUCCESS);
    return static_cast<unsigned>(result.activeBlocksPerMultiprocessor);
}
#endif

}  // namespace

void check_budget(const std::string &source, const Budget &budget) {
    bool found = false;
    const auto kernels = simt::host::ptxas_of(source);
    for (const auto &k : kernels) {
        if (!contains(k.name, budget.kernel)) continue;
        found = true;
        INFO(k.name, " for ", k.architecture);
        CHECK(k.spill_store_bytes == 0);
        CHECK(k.spill_load_bytes == 0);
        CHECK(k.static_shared_bytes + budget.shared_bytes <= kSharedPerBlock);
#ifdef KIMI_OCCUPANCY
        const unsigned blocks = blocks_per_sm(k, budget);
        CHECK(blocks >= budget.blocks_per_sm);
        std::printf(
            "kernel: %s %s: %u registers, stack %u, shared %zu B, %u blocks of %u threads per SM\n",
            budget.kernel.c_str(), k.architecture.c_str(), k.registers, k.stack_bytes,
            k.static_shared_bytes + budget.shared_bytes, blocks, budget.threads);
#endif
    }
    if (kernels.empty()) {
        MESSAGE(source, ": built without nvcc, so registers and spills go unchecked");
    } else {
        INFO(source, " has no kernel ", budget.kernel);
        CHECK(found);
    }
}

}  // namespace kimi::test
