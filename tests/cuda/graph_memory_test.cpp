// What graphs take of a GPU, against what the deployment lets them take.
#include "tests/cuda/tiny.h"

using namespace kimi;

TEST_CASE("cuda: graphs that take more memory than the deployment gives them are named") {
    for (const int n : {1, 2}) {
        CAPTURE(n);
        cudart::start({.n_devices = n, .n_sms = 4, .graph_node_bytes = 50'000});
        const auto open = [&](std::uint64_t mib) {
            return test::TinyCuda(cat(R"("ranks": )", n, R"(, "graphs": {"widths": [1, 8],
                "sessions": [1], "memory_mib": )",
                                      mib, "}"))
                .open();
        };
        std::uint64_t taken = 0;  // by one GPU
        {
            const auto engine = open(4096);
            taken = cudart::live().graph_bytes / static_cast<std::uint64_t>(n);
        }
        const std::uint64_t mib = (taken >> 20) + 1;
        CHECK(open(mib) != nullptr);
        const Error error = test::error_of([&] { open(mib - 1); });
        CHECK(error.status == KIMI_DEVICE_OUT_OF_MEMORY);
        CAPTURE(error.text);
        CHECK(test::contains(error.text, cat(": field graphs.memory_mib: is ", mib - 1, ", but ")));
        CHECK(test::contains(error.text, cat(" graphs take ", taken, " bytes, ")));
        CHECK(test::contains(error.text, " of them that of 8 rows x 1 sessions"));
        CHECK(cudart::leaks() == "");
    }
}

TEST_CASE("cuda: a GPU without the memory that graphs may take says what is free") {
    cudart::start({.memory_bytes = 64 << 20, .n_sms = 4});
    const auto error_with = [](int mib) {
        return test::error_of([&] {
            test::TinyCuda(
                cat(R"("graphs": {"widths": [8], "sessions": [1], "memory_mib": )", mib, "}"))
                .open();
        });
    };
    const Error error = error_with(64);
    CHECK(error.status == KIMI_DEVICE_OUT_OF_MEMORY);
    CAPTURE(error.text);
    CHECK(error.text.find("GPU 0: graphs (field graphs.memory_mib) need 67108864 bytes, ") == 0);
    CHECK(error.text.ends_with(" of 67108864 are free"));
    for (const char *call : {"cudaGraphInstantiate", "cudaGraphUpload"}) {
        CAPTURE(call);
        constexpr int kCudaOutOfMemory = 2;
        cudart::fail_nth(call, 1, kCudaOutOfMemory);
        const Error late = error_with(8);
        CHECK(late.status == KIMI_DEVICE_OUT_OF_MEMORY);
        CHECK(late.text.find("GPU 0: graphs (field graphs.memory_mib) need 8388608 bytes, ") == 0);
    }
    CHECK(cudart::leaks() == "");
}
