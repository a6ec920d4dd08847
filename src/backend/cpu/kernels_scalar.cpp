#include "backend/cpu/kernels.h"
#include "backend/cpu/simd_scalar.h"

#define KIMI_ISA_NAME "scalar"

namespace kimi::scalar {
namespace {
#include "backend/cpu/kernels.inc"
}  // namespace

extern const CpuKernels kTable;
const CpuKernels kTable = kKernels;

}  // namespace kimi::scalar
