#include "backend/cuda_backend.h"

#include <dlfcn.h>

#include "base/error.h"

namespace kimi {
namespace {

constexpr const char *kLibrary = "libkimi-cuda.so";

// Beside the file that this code is in; the loader's own places where that cannot be told.
std::string beside_this_library() {
    Dl_info info;
    if (dladdr(reinterpret_cast<const void *>(&open_cuda_backend), &info) == 0 ||
        info.dli_fname == nullptr)
        return kLibrary;
    const std::string own = info.dli_fname;
    const std::size_t slash = own.rfind('/');
    return slash == std::string::npos ? kLibrary : own.substr(0, slash + 1) + kLibrary;
}

}  // namespace

const CudaBackend &open_cuda_backend(const std::string &path) {
    const std::string file = path.empty() ? beside_this_library() : path;
    void *const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char *const why = dlerror();
        fail(KIMI_NOT_FOUND, "field backend: cuda needs the library ", file, ": ",
             why != nullptr ? why : "it cannot be opened");
    }
    const auto function =
        reinterpret_cast<CudaBackendFunction *>(dlsym(library, kCudaBackendSymbol));
    const CudaBackend *const backend =
        function != nullptr ? function(KIMI_VERSION_NUMBER) : nullptr;
    if (backend == nullptr)
        fail(KIMI_VERSION_MISMATCH, file, ": is not the CUDA backend of this version of libkimi");
    return *backend;
}

bool has_cuda() noexcept {
    try {
        return open_cuda_backend({}).has_gpu();
    } catch (...) {
        return false;
    }
}

}  // namespace kimi
