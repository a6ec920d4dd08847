#include "backend/cuda/nvml.h"

#include <dlfcn.h>

#include <iterator>
#include <utility>

#include "backend/cuda/check.h"

namespace kimi::cuda {
namespace {

// The parts of nvml.h that are used; its ABI is kept. Described in the NVML API reference guide,
// https://docs.nvidia.com/deploy/nvml-api, under "Device Queries" and "Field Value Queries".
struct Utilization {
    unsigned gpu, memory;  // %
};
union Value {
    double real;
    unsigned u32;
    unsigned long long u64;
};
struct FieldValue {
    unsigned field, scope;
    long long timestamp, latency;  // us
    int type, status;
    Value value;
};
static_assert(sizeof(FieldValue) == 40);

constexpr int kSuccess = 0;
constexpr int kUnsignedInt = 1;  // a type of values; counters have this one or 64 bits
// Bytes over PCIe since the driver was loaded, "can be wrapped".
constexpr unsigned kPcieSent = 197, kPcieReceived = 198;

constexpr std::int64_t kInterval = 100'000'000;  // ns

// What a counter has grown by since the last reading, `ns` ago. One of 32 bits is right as long as
// that is below 4 GiB.
std::optional<std::uint64_t> rate(const FieldValue &field, std::int64_t ns,
                                  std::optional<std::uint64_t> &last) {
    const bool narrow = field.type == kUnsignedInt;
    std::optional<std::uint64_t> now;
    if (field.status == kSuccess) now = narrow ? field.value.u32 : field.value.u64;
    const std::optional<std::uint64_t> before = std::exchange(last, now);
    if (!before || !now) return std::nullopt;
    const std::uint64_t bytes = narrow ? static_cast<unsigned>(*now - *before) : *now - *before;
    return static_cast<std::uint64_t>(1e9 * static_cast<double>(bytes) / static_cast<double>(ns));
}

}  // namespace

// The library, opened and initialised.
struct Nvml::Library {
    Library() = default;
    Library(const Library &) = delete;
    ~Library() {
        if (initialised) shutdown();
        if (handle != nullptr) dlclose(handle);
    }

    bool open() {
        handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        const bool found = handle != nullptr && find("nvmlInit_v2", init) &&
                           find("nvmlShutdown", shutdown) &&
                           find("nvmlDeviceGetHandleByPciBusId_v2", device_at) &&
                           find("nvmlDeviceGetUtilizationRates", utilization) &&
                           find("nvmlDeviceGetFieldValues", field_values);
        initialised = found && init() == kSuccess;
        return initialised;
    }
    template <typename F>
    bool find(const char *name, F *&function) const {
        function = reinterpret_cast<F *>(dlsym(handle, name));
        return function != nullptr;
    }

    void *handle = nullptr;
    bool initialised = false;
    int (*init)() = nullptr;
    int (*shutdown)() = nullptr;
    int (*device_at)(const char *bus_id, nvmlDevice_st **) = nullptr;
    int (*utilization)(nvmlDevice_st *, Utilization *) = nullptr;
    int (*field_values)(nvmlDevice_st *, int n, FieldValue *) = nullptr;
};

Nvml::Nvml(int gpu) {
    auto library = std::make_unique<Library>();
    if (!library->open()) return;
    char bus_id[32];
    check(cudaDeviceGetPCIBusId(bus_id, std::size(bus_id), gpu), "asking for a GPU's bus");
    if (library->device_at(bus_id, &device_) != kSuccess) return;
    library_ = std::move(library);
    read();  // what the counters of bytes begin with
}

Nvml::~Nvml() = default;

std::optional<GpuReading> Nvml::read() {
    const std::int64_t now = RecordedTime::now(), ns = now - read_at_;
    if (library_ == nullptr || ns < kInterval) return std::nullopt;
    read_at_ = now;
    GpuReading out{now, {}, {}, {}, {}};
    Utilization used = {};
    if (library_->utilization(device_, &used) == kSuccess) {
        out.gpu_percent = used.gpu;
        out.memory_percent = used.memory;
    }
    FieldValue fields[2] = {};
    fields[0].field = kPcieSent;
    fields[1].field = kPcieReceived;
    if (library_->field_values(device_, 2, fields) != kSuccess)
        fields[0].status = fields[1].status = !kSuccess;
    out.sent_bytes_per_s = rate(fields[0], ns, sent_);
    out.received_bytes_per_s = rate(fields[1], ns, received_);
    return out;
}

}  // namespace kimi::cuda
