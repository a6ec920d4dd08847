// cuBLAS: bf16 products with fp32 accumulation.
#include <cublas_v2.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"
#include "tests/cudart/runtime.h"

using namespace kimi;
using namespace kimi::cudart;

struct cublasContext {
    int device;
    cudaStream_t stream = nullptr;
};

namespace {

template <typename Body>
cublasStatus_t call_blas(const char *name, Body &&body) {
    Runtime &r = runtime();
    const Lock lock(r.mutex());
    const int injected = r.count(name);
    return injected != 0 ? static_cast<cublasStatus_t>(injected) : body(r);
}

// A matrix in memory, of bf16 unless it is the result.
struct Matrix {
    Pointer p;
    std::size_t rows, columns, stride;  // elements from column to column
    std::size_t element = sizeof(bf16);

    Pointer column(std::size_t c) const { return p + c * stride * element; }
    std::size_t column_bytes() const { return rows * element; }
    std::size_t bytes() const {
        return columns == 0 ? 0 : ((columns - 1) * stride + rows) * element;
    }
};

// One operand: the m or n vectors of length k that are multiplied with each other.
struct Vectors {
    std::size_t n, k;
    std::vector<float> at;      // [k, n]
    std::vector<bool> written;  // [n]
};

// `by_column`: the vectors are the columns of the matrix.
Vectors read(Running &user, const Matrix &a, bool by_column) {
    Vectors v{by_column ? a.columns : a.rows, by_column ? a.rows : a.columns, {}, {}};
    v.at.resize(v.n * v.k);
    v.written.assign(v.n, true);
    for (std::size_t c = 0; c < a.columns; ++c) {
        const std::byte *column = user.read(a.column(c), a.column_bytes());
        const bool whole = Running::is_written(a.column(c), a.column_bytes());
        for (std::size_t r = 0; r < a.rows; ++r) {
            bf16 x;
            std::memcpy(&x, column + r * sizeof x, sizeof x);
            const std::size_t vector = by_column ? c : r, place = by_column ? r : c;
            v.at[place * v.n + vector] = to_float(x);
            if (!whole && !Running::is_written(a.column(c) + r * sizeof x, sizeof x)) {
                v.written[vector] = false;
            }
        }
    }
    return v;
}

float element(const std::byte *p, std::size_t bytes) {
    if (bytes == sizeof(bf16)) {
        bf16 x;
        std::memcpy(&x, p, sizeof x);
        return to_float(x);
    }
    float x;
    std::memcpy(&x, p, sizeof x);
    return x;
}

void set_element(std::byte *p, std::size_t bytes, float value) {
    const bf16 narrow = to_bf16(value);
    std::memcpy(p, bytes == sizeof(bf16) ? static_cast<const void *>(&narrow) : &value, bytes);
}

// Sums in the order of k. What comes from bytes that nobody wrote stays unwritten.
void multiply(Running &user, const Vectors &a, const Vectors &b, float alpha, float beta,
              const Matrix &c) {
    std::vector<float> sum(a.n);
    for (std::size_t j = 0; j < b.n; ++j) {
        std::fill(sum.begin(), sum.end(), 0.0F);
        for (std::size_t l = 0; l < a.k; ++l) {
            const float factor = b.at[l * b.n + j];
            const float *row = &a.at[l * a.n];
            for (std::size_t i = 0; i < a.n; ++i) sum[i] += factor * row[i];
        }
        const Pointer column = c.column(j);
        bool written = true;
        if (beta != 0) {
            user.read(column, c.column_bytes());
            written = Running::is_written(column, c.column_bytes());
        }
        std::byte *out = user.write(column, c.column_bytes());
        for (std::size_t i = 0; i < a.n; ++i) {
            std::byte *p = out + i * c.element;
            const float before = beta == 0 ? 0 : beta * element(p, c.element);
            set_element(p, c.element, alpha * sum[i] + before);
            if (!written || !a.written[i] || !b.written[j]) {
                Running::forget(column + i * c.element, c.element);
            }
        }
    }
}

bool is_operation(cublasOperation_t op) {
    return op == CUBLAS_OP_N || op == CUBLAS_OP_T;
}

bool is_inside(const Matrix &a, int device) {
    return a.p.memory != nullptr && a.p.holds(a.bytes()) &&
           (a.p.memory->visible_to >> device & 1U) != 0;
}

cublasStatus_t refused(Runtime &r, cublasStatus_t status, const std::string &why) {
    r.fault = cat("cublasGemmEx: ", why);
    return status;
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    return call_blas("cublasCreate", [&](Runtime &r) {
        if (r.breaks_captures() || r.current().error != cudaSuccess) {
            return CUBLAS_STATUS_NOT_INITIALIZED;
        }
        auto context = std::make_unique<cublasContext>();
        context->device = Runtime::of_thread().device;
        r.blas_handles.insert(context.get());
        *handle = context.release();
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    return call_blas("cublasDestroy", [&](Runtime &r) {
        if (r.blas_handles.erase(handle) == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
        delete handle;
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    return call_blas("cublasSetStream", [&](Runtime &r) {
        if (r.blas_handles.count(handle) == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
        handle->stream = stream;
        return CUBLAS_STATUS_SUCCESS;
    });
}

// Checked, not used.
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, std::size_t bytes) {
    return call_blas("cublasSetWorkspace", [&](Runtime &r) {
        if (r.blas_handles.count(handle) == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
        const Matrix all{workspace, bytes, 1, bytes, 1};
        const bool aligned = reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0;
        if (!aligned || !is_inside(all, handle->device)) return CUBLAS_STATUS_INVALID_VALUE;
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t) {
    return call_blas(__func__, [&](Runtime &r) {
        return r.blas_handles.count(handle) != 0 ? CUBLAS_STATUS_SUCCESS
                                                 : CUBLAS_STATUS_NOT_INITIALIZED;
    });
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void *alpha, const void *a,
                            cudaDataType a_type, int lda, const void *b, cudaDataType b_type,
                            int ldb, const void *beta, void *c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
    return call_blas(__func__, [&](Runtime &r) {
        if (r.blas_handles.count(handle) == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
        if (a_type != CUDA_R_16BF || b_type != CUDA_R_16BF || compute != CUBLAS_COMPUTE_32F ||
            (c_type != CUDA_R_16BF && c_type != CUDA_R_32F) || !is_operation(op_a) ||
            !is_operation(op_b)) {
            return refused(r, CUBLAS_STATUS_NOT_SUPPORTED, "types or operations");
        }
        const bool a_turned = op_a == CUBLAS_OP_T, b_turned = op_b == CUBLAS_OP_T;
        if (m < 0 || n < 0 || k < 0 || lda < std::max(1, a_turned ? k : m) ||
            ldb < std::max(1, b_turned ? n : k) || ldc < std::max(1, m)) {
            return refused(r, CUBLAS_STATUS_INVALID_VALUE, "extents or strides");
        }
        if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
        const auto size = [](int i) { return static_cast<std::size_t>(i); };
        const Matrix in_a{a, size(a_turned ? k : m), size(a_turned ? m : k), size(lda)},
            in_b{b, size(b_turned ? n : k), size(b_turned ? k : n), size(ldb)},
            out{c, size(m), size(n), size(ldc), c_type == CUDA_R_16BF ? sizeof(bf16) : 4};
        Stream *stream = r.find(handle->stream);
        if (stream == nullptr) return CUBLAS_STATUS_EXECUTION_FAILED;
        for (const Matrix &matrix : {in_a, in_b, out}) {
            if (is_inside(matrix, handle->device)) continue;
            return refused(r, CUBLAS_STATUS_EXECUTION_FAILED, "a matrix is not inside memory");
        }
        float factor_ab, factor_c;
        std::memcpy(&factor_ab, alpha, sizeof factor_ab);
        std::memcpy(&factor_c, beta, sizeof factor_c);
        const cudaError_t status = r.append(
            *stream, {Task::Kind::kGemm, cat("GEMM ", m, 'x', n, 'x', k), {}, [=](Running &user) {
                          multiply(user, read(user, in_a, a_turned), read(user, in_b, !b_turned),
                                   factor_ab, factor_c, out);
                      }});
        return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
    });
}

const char *cublasGetStatusString(cublasStatus_t status) {
    switch (status) {
        case CUBLAS_STATUS_SUCCESS:
            return "the operation completed successfully";
        case CUBLAS_STATUS_NOT_INITIALIZED:
            return "the library was not initialized";
        case CUBLAS_STATUS_ALLOC_FAILED:
            return "the resource allocation failed";
        case CUBLAS_STATUS_INVALID_VALUE:
            return "an invalid value was used as an argument";
        case CUBLAS_STATUS_EXECUTION_FAILED:
            return "the function failed to launch on the GPU";
        case CUBLAS_STATUS_INTERNAL_ERROR:
            return "an internal operation failed";
        case CUBLAS_STATUS_NOT_SUPPORTED:
            return "the functionality is not supported";
        default:
            return "unknown status";
    }
}
}
