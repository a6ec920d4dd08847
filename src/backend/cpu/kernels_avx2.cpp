#include "backend/cpu/kernels.h"
#include "backend/cpu/simd_avx2.h"

#define KIMI_ISA_NAME "avx2"

namespace kimi::avx2 {
namespace {
#include "backend/cpu/kernels.inc"
}  // namespace

extern const CpuKernels kTable;
const CpuKernels kTable = kKernels;

}  // namespace kimi::avx2
