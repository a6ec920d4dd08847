// Functions and layouts as in the NVML API reference guide.
#include "tests/cudart/nvml.h"

#include <cstring>

using kimi::test::NvmlGpu;
using kimi::test::NvmlMachine;

namespace {

constexpr int kNotFound = 6, kNotSupported = 3;             // nvmlReturn_t
constexpr int kUnsignedInt = 1, kUnsignedLongLong = 3;      // nvmlValueType_t
constexpr unsigned kPcieTxBytes = 197, kPcieRxBytes = 198;  // NVML_FI_DEV_PCIE_COUNT_*

NvmlMachine &machine() {
    static NvmlMachine machine;
    return machine;
}

}  // namespace

extern "C" {

struct Rates {
    unsigned gpu, memory;
};

struct Field {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type, status;
    union {
        unsigned u;
        unsigned long long ull;
    } value;
};

NvmlMachine *nvml_machine() {
    return &machine();
}

int nvmlInit_v2() {
    if (machine().init_status == 0) ++machine().n_users;
    return machine().init_status;
}

int nvmlShutdown() {
    --machine().n_users;
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, NvmlGpu **gpu) {
    const char *const known[] = {"0000:01:00.0", "0000:02:00.0"};
    for (int i = 0; i < 2; ++i)
        if (std::strcmp(bus_id, known[i]) == 0) return *gpu = &machine().gpu[i], 0;
    return kNotFound;
}

int nvmlDeviceGetUtilizationRates(const NvmlGpu *gpu, Rates *out) {
    *out = {gpu->gpu_percent, gpu->memory_percent};
    return machine().utilization_status;
}

int nvmlDeviceGetFieldValues(NvmlGpu *gpu, int n, Field *fields) {
    gpu->sent += gpu->more_sent;
    gpu->received += gpu->more_received;
    for (Field *f = fields; f < fields + n; ++f) {
        f->status = static_cast<unsigned>(machine().field_status);
        f->value.ull = ~0ULL;
        if (f->id == kPcieTxBytes) {
            f->type = kUnsignedInt;
            f->value.u = static_cast<unsigned>(gpu->sent);
        } else if (f->id == kPcieRxBytes) {
            f->type = kUnsignedLongLong;
            f->value.ull = gpu->received;
        } else {
            f->status = kNotSupported;
        }
    }
    return 0;
}
}
