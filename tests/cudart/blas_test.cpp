#include <cublas_v2.h>

#include <cmath>

#include "base/bf16.h"
#include "tests/cudart/testing.h"

namespace kimi::cudart::test {
namespace {

std::vector<bf16> values(std::size_t n, unsigned seed) {
    std::vector<bf16> v(n);
    for (std::size_t i = 0; i < n; ++i)
        v[i] = to_bf16(static_cast<float>((i * 29 + seed * 7) % 23) / 11 - 1);
    return v;
}

// Strides are larger than they have to be.
struct Product {
    static constexpr int kM = 5, kN = 3, kK = 18, kLda = 20, kLdb = 19, kLdc = 7;

    bool a_turned, b_turned;
    std::vector<bf16> a_ = values(kLda * kK, 1), b_ = values(kLdb * kK, 2);
    cudaStream_t stream = new_stream();
    cublasHandle_t handle = nullptr;
    bf16 *a = on_device(a_), *b = on_device(b_);

    Product(bool turn_a, bool turn_b) : a_turned(turn_a), b_turned(turn_b) {
        CHECK(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
        CHECK(cublasSetStream(handle, stream) == CUBLAS_STATUS_SUCCESS);
        CHECK(cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH) == CUBLAS_STATUS_SUCCESS);
    }
    void free() const {
        CHECK(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
        ok(cudaStreamDestroy(stream));
        ok(cudaFree(a));
        ok(cudaFree(b));
    }
    cublasStatus_t run(float alpha, float beta, void *c, cudaDataType type, int m = kM) const {
        return cublasGemmEx(handle, a_turned ? CUBLAS_OP_T : CUBLAS_OP_N,
                            b_turned ? CUBLAS_OP_T : CUBLAS_OP_N, m, kN, kK, &alpha, a, CUDA_R_16BF,
                            kLda, b, CUDA_R_16BF, kLdb, &beta, c, type, kLdc, CUBLAS_COMPUTE_32F,
                            CUBLAS_GEMM_DEFAULT);
    }
    double exact(int i, int j) const {
        double sum = 0;
        for (int l = 0; l < kK; ++l) {
            const int at = a_turned ? l + i * kLda : i + l * kLda;
            const int bt = b_turned ? j + l * kLdb : l + j * kLdb;
            sum += double{to_float(a_[static_cast<std::size_t>(at)])} *
                   to_float(b_[static_cast<std::size_t>(bt)]);
        }
        return sum;
    }
};

TEST_CASE("cuda: GEMM multiplies all four ways, adds, and leaves what is between the columns") {
    const Session session;
    for (const bool a_turned : {false, true}) {
        for (const bool b_turned : {false, true}) {
            const Product p(a_turned, b_turned);
            constexpr std::size_t kSize = Product::kLdc * Product::kN;
            float *f32 = on_device(std::vector<float>(kSize, 2));
            bf16 *b16 = on_device(std::vector<bf16>(kSize, to_bf16(4)));
            CHECK(p.run(0.5F, 3, f32, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
            CHECK(p.run(1, 0, b16, CUDA_R_16BF) == CUBLAS_STATUS_SUCCESS);
            ok(cudaStreamSynchronize(p.stream));
            const std::vector<float> c = download(f32, kSize);
            const std::vector<bf16> d = download(b16, kSize);
            for (int j = 0; j < Product::kN; ++j) {
                for (int i = 0; i < Product::kLdc; ++i) {
                    const auto at = static_cast<std::size_t>(i + j * Product::kLdc);
                    const bool inside = i < Product::kM;
                    CHECK(c[at] == doctest::Approx(inside ? 0.5 * p.exact(i, j) + 6 : 2));
                    const double exact = inside ? p.exact(i, j) : 4;
                    CHECK(std::fabs(to_float(d[at]) - exact) <= std::fabs(exact) / 256 + 1e-5);
                }
            }
            ok(cudaFree(f32));
            ok(cudaFree(b16));
            p.free();
        }
    }
}

TEST_CASE("cuda: GEMM refuses what cuBLAS does, and matrices that are not inside memory") {
    const Session session({.n_devices = 2});
    const Product p(false, false);
    float *c = on_device<float>(Product::kLdc * Product::kN - 2);
    CHECK(p.run(1, 0, c, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);  // the last column is shorter
    CHECK(p.run(1, 0, c, CUDA_R_32F, 6) == CUBLAS_STATUS_EXECUTION_FAILED);
    CHECK(p.run(1, 0, c, CUDA_R_32F, 8) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(p.run(1, 0, c, CUDA_R_32F, -1) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(p.run(1, 0, c, CUDA_R_16F) == CUBLAS_STATUS_NOT_SUPPORTED);
    std::vector<float> host(100);
    CHECK(p.run(1, 0, host.data(), CUDA_R_32F) == CUBLAS_STATUS_EXECUTION_FAILED);
    CHECK(cublasSetStream(p.handle, nullptr) == CUBLAS_STATUS_SUCCESS);
    CHECK(p.run(1, 0, c, CUDA_R_32F) == CUBLAS_STATUS_EXECUTION_FAILED);
    CHECK(contains(last_fault(), "default stream"));
    CHECK(cublasSetWorkspace(p.handle, c, 16) == CUBLAS_STATUS_SUCCESS);
    CHECK(cublasSetWorkspace(p.handle, c, 1000) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(cublasSetWorkspace(p.handle, c + 1, 16) == CUBLAS_STATUS_INVALID_VALUE);
    fail_nth("cublasGemmEx", 1, CUBLAS_STATUS_INTERNAL_ERROR);
    CHECK(p.run(1, 0, c, CUDA_R_32F) == CUBLAS_STATUS_INTERNAL_ERROR);
    CHECK(std::string(cublasGetStatusString(CUBLAS_STATUS_INTERNAL_ERROR)) ==
          "an internal operation failed");
    ok(cudaFree(c));
    p.free();
}

TEST_CASE("cuda: what GEMM makes of unwritten rows is unwritten, the rest is not") {
    const Session session;
    Product p(true, false);
    ok(cudaFree(p.b));
    p.b = on_device<bf16>(Product::kLdb * Product::kN);
    ok(cudaMemcpy(p.b, p.b_.data(), 2 * Product::kLdb * sizeof(bf16), cudaMemcpyHostToDevice));
    float *c = on_device<float>(Product::kLdc * Product::kN);
    CHECK(p.run(1, 0, c, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
    ok(cudaStreamSynchronize(p.stream));
    const std::vector<float> got = download(c, Product::kLdc * Product::kN);
    CHECK(got[Product::kLdc] == doctest::Approx(p.exact(0, 1)));
    CHECK(std::isnan(got[2 * Product::kLdc]));
    ok(cudaFree(c));
    p.free();
}

TEST_CASE("cuda: GEMM is captured, and ordered with other streams") {
    const Session session;
    const Product p(true, false);
    constexpr std::size_t kSize = Product::kLdc * Product::kN;
    float *c = on_device(std::vector<float>(kSize));
    ok(cudaStreamBeginCapture(p.stream, cudaStreamCaptureModeThreadLocal));
    CHECK(p.run(1, 1, c, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
    cudaGraph_t graph = nullptr;
    ok(cudaStreamEndCapture(p.stream, &graph));
    cudaGraphExec_t exec = nullptr;
    ok(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) ok(cudaGraphLaunch(exec, p.stream));
    ok(cudaStreamSynchronize(p.stream));
    CHECK(download(c, 1)[0] == doctest::Approx(3 * p.exact(0, 0)));
    ok(cudaGraphExecDestroy(exec));
    ok(cudaGraphDestroy(graph));

    const cudaStream_t other = new_stream();
    CHECK(p.run(1, 0, c, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
    ok(cudaMemsetAsync(c, 0, 4, other));
    expect(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    CHECK(contains(last_fault(), "nothing orders"));
    CHECK(cublasDestroy(p.handle) == CUBLAS_STATUS_SUCCESS);
    ok(cudaDeviceReset());
}

}  // namespace
}  // namespace kimi::cudart::test
