// What ptxas said of the kernels of one source.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kimi::simt::host {

struct PtxasKernel {
    std::string name;          // mangled
    std::string architecture;  // sm_120
    unsigned registers = 0;
    unsigned stack_bytes = 0, spill_store_bytes = 0, spill_load_bytes = 0;
    unsigned static_shared_bytes = 0;
};

// Reads the output of `ptxas -v`.
std::vector<PtxasKernel> parse_ptxas(std::string_view log);

// The kernels of a source like "kernels/rms_norm.cu". Empty if the build had no nvcc.
std::vector<PtxasKernel> ptxas_of(const std::string &source);

}  // namespace kimi::simt::host
