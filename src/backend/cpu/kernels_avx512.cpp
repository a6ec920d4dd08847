#include "backend/cpu/kernels.h"
#include "backend/cpu/simd_avx512.h"

#define KIMI_ISA_NAME "avx512"

namespace kimi::avx512 {
namespace {
#include "backend/cpu/kernels.inc"
}  // namespace

extern const CpuKernels kTable;
const CpuKernels kTable = kKernels;

}  // namespace kimi::avx512
