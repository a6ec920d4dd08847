#include "engine/summary.h"

#include "backend/cpu/kernels.h"
#include "base/host_memory.h"
#include "kv/page_pool.h"

namespace kimi {
namespace {

const char *name(CpuIsa isa) {
    switch (isa) {
        case CpuIsa::avx512:
            return "AVX-512";
        case CpuIsa::avx2:
            return "AVX2";
        case CpuIsa::scalar:
            break;
    }
    return "plain x86-64";
}

const char *name(KvType type) {
    switch (type) {
        case KvType::bf16:
            return "bf16";
        case KvType::fp8:
            return "fp8";
        case KvType::f32:
            break;
    }
    return "f32";
}

std::string megabytes(std::uint64_t bytes) {
    return cat((bytes + 500'000) / 1'000'000, " MB");
}

std::uint64_t capacity_of(const Runner &runner) {
    return std::uint64_t{runner.kv().n_pages} * kPageTokens;
}

void warn_of_capacity(const Log &log, const Runner &runner) {
    const std::uint64_t capacity = capacity_of(runner);
    if (capacity < runner.context_limit())
        log.warning("the KV cache holds ", capacity, " tokens, fewer than the context limit of ",
                    runner.context_limit(), ": longer sessions will be refused as busy");
}

void warn_of_cpu(const Log &log, const Runner &runner, std::uint64_t memory_bytes) {
    if (best_cpu_isa() == CpuIsa::scalar)
        log.warning("the CPU has no AVX2: the engine computes slowly");
    const std::uint64_t needed = runner.weight_bytes() + memory_bytes;
    if (needed > physical_memory())
        log.warning("weights, KV cache and buffers take ", megabytes(needed), ", the machine has ",
                    megabytes(physical_memory()),
                    ": weights will be read from disk again and again");
}

}  // namespace

void log_summary(const Log &log, const Deployment &deployment, const Runner &runner,
                 std::uint64_t memory_bytes) {
    const ModelConfig &c = runner.config();
    log.info("model ", deployment.checkpoint, ": ", c.n_layers, " layers, ", c.n_experts,
             " experts, ", c.vocab, " tokens; ", megabytes(runner.weight_bytes()), " of weights");
    const bool cpu = deployment.backend == Deployment::Backend::cpu;
    if (cpu)
        log.info("cpu: ", runner.n_ranks(), " ranks of ", threads_per_rank(deployment),
                 " threads, ", name(best_cpu_isa()));
    else
        log.info("cuda: ", runner.n_ranks(), " ranks, a GPU each");
    if (runner.drafter() == nullptr)
        log.info("no drafter");
    else
        log.info("drafter ", deployment.drafter, ": blocks of ", runner.drafter()->block_size(),
                 " tokens, ", deployment.draft_sessions, " sessions at a time");
    log.info("KV cache: ", capacity_of(runner), " tokens in ", name(runner.kv().type),
             ", the context limit is ", runner.context_limit());
    log.info("memory: ", megabytes(memory_bytes),
             " of the host are reserved for KV cache and buffers");
    warn_of_capacity(log, runner);
    if (cpu) warn_of_cpu(log, runner, memory_bytes);
}

}  // namespace kimi
