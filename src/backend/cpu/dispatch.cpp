#include <initializer_list>

#include "backend/cpu/kernels.h"

namespace kimi {

namespace scalar {
extern const CpuKernels kTable;
}
namespace avx2 {
extern const CpuKernels kTable;
}
namespace avx512 {
extern const CpuKernels kTable;
}

bool is_supported(CpuIsa isa) {
    switch (isa) {
        case CpuIsa::scalar:
            return true;
        case CpuIsa::avx2:
            return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        case CpuIsa::avx512:
            return __builtin_cpu_supports("avx512f");
    }
    return false;
}

const CpuKernels &cpu_kernels(CpuIsa isa) {
    switch (isa) {
        case CpuIsa::avx512:
            return avx512::kTable;
        case CpuIsa::avx2:
            return avx2::kTable;
        case CpuIsa::scalar:
            break;
    }
    return scalar::kTable;
}

CpuIsa best_cpu_isa() {
    for (const CpuIsa isa : {CpuIsa::avx512, CpuIsa::avx2})
        if (is_supported(isa)) return isa;
    return CpuIsa::scalar;
}

}  // namespace kimi
