// Memory of devices and of the host, copies and fills.
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "tests/cudart/runtime.h"

using namespace kimi;
using namespace kimi::cudart;

namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kHost = -1;

// Fresh bytes are unwritten. One more unit, so that the end of one allocation is never the start
// of another.
void *allocate(Runtime &r, int device, std::size_t bytes) {
    void *base = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
    if (base == nullptr) throw std::bad_alloc();
    std::string name = cat(device == kHost ? std::string("host memory") : cat("device ", device),
                           " allocation ", r.n_allocated++);
    simt::host::Memory *memory = simt::host::register_memory(base, bytes, std::move(name));
    if (r.machine.check_order) simt::host::track_uses(*memory);
    if (device == kHost) {
        memory->of_host = true;
        std::memset(base, 0xff, bytes);
        memory->mark_written(0, bytes, true);
    } else {
        memory->visible_to = r.visible_to(device);
        r.device(device).used += bytes;
    }
    r.allocations[base] = {device, memory};
    return base;
}

// Waits for all work that may use it, as CUDA does.
cudaError_t free_from(Runtime &r, Lock &lock, void *base, bool host) {
    if (base == nullptr) return r.current().error;
    const auto found = r.allocations.find(base);
    if (found == r.allocations.end() || (found->second.device == kHost) != host) {
        return r.refused(cudaErrorInvalidValue, "freeing what is not allocated");
    }
    r.wait_device(lock, host ? Runtime::of_thread().device : found->second.device);
    r.engine.between_rounds(lock, [&] { r.release(base); });
    return r.current().error;
}

cudaError_t malloc_host(Runtime &r, void **out, std::size_t bytes) {
    if (bytes == 0) return *out = nullptr, cudaSuccess;
    *out = allocate(r, kHost, bytes);
    return cudaSuccess;
}

// ---- copies

struct Copy {
    Pointer to, from;
    std::size_t to_pitch, from_pitch, width, height;
    std::string name = {};

    std::size_t to_bytes() const { return height == 0 ? 0 : (height - 1) * to_pitch + width; }
    std::size_t from_bytes() const { return height == 0 ? 0 : (height - 1) * from_pitch + width; }
};

bool on_device(const Pointer &p) {
    return p.memory != nullptr && !p.memory->of_host;
}
bool pageable(const Pointer &p) {
    return p.memory == nullptr;
}

// "" or why CUDA would refuse the copy.
std::string refusal(const Copy &c, cudaMemcpyKind kind, int device) {
    if (c.width == 0 || c.height == 0) return "";
    if (c.width > c.to_pitch || c.width > c.from_pitch) return "a row is wider than the pitch";
    const bool to_device = on_device(c.to), from_device = on_device(c.from);
    if (kind != cudaMemcpyDefault) {
        const bool to_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
        const bool from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
        if (to_host == to_device || from_host == from_device) {
            return "a pointer is not where the copy's kind says";
        }
    }
    for (const auto &[p, bytes] : {std::pair{c.to, c.to_bytes()}, {c.from, c.from_bytes()}}) {
        if (!p.holds(bytes)) {
            return cat(bytes, " bytes at byte ", p.offset(), " of ", p.memory->name, ", which has ",
                       p.memory->bytes);
        }
        if (p.memory != nullptr && !p.anywhere && (p.memory->visible_to >> device & 1U) == 0) {
            return cat(p.memory->name, " is out of reach of device ", device);
        }
    }
    return "";
}

void copy_rows(Running &running, const Copy &c) {
    for (std::size_t row = 0; row < c.height; ++row)
        running.copy(c.to + row * c.to_pitch, c.from + row * c.from_pitch, c.width);
}

// The host's pageable source is read now, as CUDA may; a graph reads it whenever it runs.
cudaError_t append(Runtime &r, Stream &stream, const Copy &c) {
    Task task{Task::Kind::kCopy, c.name};
    if (!pageable(c.from) || stream.captured) {
        task.run = [c](Running &running) { copy_rows(running, c); };
    } else {
        task.run = [c, bytes = std::vector<std::byte>(c.from.at, c.from.at + c.from_bytes())](
                       Running &running) {
            Copy staged = c;
            staged.from.at = const_cast<std::byte *>(bytes.data());
            copy_rows(running, staged);
        };
    }
    return r.append(stream, std::move(task));
}

cudaError_t copy_async(Runtime &r, Lock &lock, cudaStream_t handle, Copy c, cudaMemcpyKind kind) {
    Stream *stream = r.find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const std::string why = refusal(c, kind, stream->device);
    if (!why.empty()) return r.refused(cudaErrorInvalidValue, cat("copy: ", why));
    c.name = cat("copy ", r.n_copies++);
    const cudaError_t status = append(r, *stream, c);
    if (status != cudaSuccess || stream->captured || !pageable(c.to)) return status;
    const int device = stream->device;
    r.engine.wait(lock, OpPtr(stream->last));
    return r.device(device).error;
}

cudaError_t copy_now(Runtime &r, Lock &lock, Copy c, cudaMemcpyKind kind) {
    const int device = Runtime::of_thread().device;
    const std::string why = refusal(c, kind, device);
    if (!why.empty()) return r.refused(cudaErrorInvalidValue, cat("copy: ", why));
    c.name = cat("copy ", r.n_copies++);
    Stream &legacy = *r.device(device).legacy;
    append(r, legacy, c);
    const bool inside = on_device(c.to) && on_device(c.from);
    if (!inside) r.engine.wait(lock, OpPtr(legacy.last));
    return r.device(device).error;
}

cudaError_t fill(Runtime &r, Stream &stream, void *p, int value, std::size_t bytes) {
    const Pointer to = p;
    if (!on_device(to) || !to.holds(bytes) || (to.memory->visible_to >> stream.device & 1U) == 0) {
        return r.refused(cudaErrorInvalidValue, "fill of what is not the device's memory");
    }
    return r.append(stream, {Task::Kind::kFill, "fill", {}, [=](Running &running) {
                                 std::memset(running.write(to, bytes), value, bytes);
                             }});
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void **p, std::size_t bytes) {
    return call(__func__, Needs::kDeviceAndNoCapture, [&](Runtime &r, Lock &) {
        if (bytes == 0) return *p = nullptr, cudaSuccess;
        if (bytes > r.machine.memory_bytes - r.current().used) return cudaErrorMemoryAllocation;
        *p = allocate(r, Runtime::of_thread().device, bytes);
        return cudaSuccess;
    });
}

cudaError_t cudaFree(void *p) {
    return call(__func__, Needs::kNoCapture,
                [&](Runtime &r, Lock &lock) { return free_from(r, lock, p, false); });
}

cudaError_t cudaMallocHost(void **p, std::size_t bytes) {
    return call(__func__, Needs::kDeviceAndNoCapture,
                [&](Runtime &r, Lock &) { return malloc_host(r, p, bytes); });
}

cudaError_t cudaHostAlloc(void **p, std::size_t bytes, unsigned) {
    return call(__func__, Needs::kDeviceAndNoCapture,
                [&](Runtime &r, Lock &) { return malloc_host(r, p, bytes); });
}

cudaError_t cudaFreeHost(void *p) {
    return call(__func__, Needs::kNoCapture,
                [&](Runtime &r, Lock &lock) { return free_from(r, lock, p, true); });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &lock) {
        return copy_async(r, lock, stream, {to, from, bytes, bytes, bytes, 1}, kind);
    });
}

cudaError_t cudaMemcpy2DAsync(void *to, std::size_t to_pitch, const void *from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &lock) {
        return copy_async(r, lock, stream, {to, from, to_pitch, from_pitch, width, height}, kind);
    });
}

// Needs no peer access: it goes through the host.
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                std::size_t bytes, cudaStream_t stream) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &lock) {
        if (!r.has(to_device) || !r.has(from_device)) return cudaErrorInvalidDevice;
        Copy c = {to, from, bytes, bytes, bytes, 1};
        c.to.anywhere = c.from.anywhere = true;
        return copy_async(r, lock, stream, c, cudaMemcpyDeviceToDevice);
    });
}

cudaError_t cudaMemcpy(void *to, const void *from, std::size_t bytes, cudaMemcpyKind kind) {
    return call(__func__, Needs::kDeviceAndNoCapture, [&](Runtime &r, Lock &lock) {
        return copy_now(r, lock, {to, from, bytes, bytes, bytes, 1}, kind);
    });
}

cudaError_t cudaMemsetAsync(void *p, int value, std::size_t bytes, cudaStream_t handle) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &) {
        Stream *stream = r.find(handle);
        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
        return fill(r, *stream, p, value, bytes);
    });
}

// Returns before it is done, as CUDA's does.
cudaError_t cudaMemset(void *p, int value, std::size_t bytes) {
    return call(__func__, Needs::kDeviceAndNoCapture,
                [&](Runtime &r, Lock &) { return fill(r, *r.current().legacy, p, value, bytes); });
}
}
