// kimi_has_feature("cuda"), of a libkimi.so beside which there is a backend or none. The backend
// runs on the CUDA runtime of tests/cudart, which has the machine that a case wants.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <kimi/kimi.h>

#include <filesystem>

#include "check.h"
#include "tests/cudart/control.h"

namespace {

namespace cudart = kimi::cudart;

// A folder with libkimi.so alone; what the feature is there.
struct Installed {
    kimi::test::TempDir dir;
    decltype(&kimi_has_feature) has_feature = nullptr;

    Installed() {
        std::filesystem::create_symlink(KIMI_LIBRARY, dir.file("libkimi.so"));
        void *const library = dlopen(dir.file("libkimi.so").c_str(), RTLD_NOW | RTLD_LOCAL);
        REQUIRE(library != nullptr);
        has_feature = reinterpret_cast<decltype(has_feature)>(dlsym(library, "kimi_has_feature"));
        REQUIRE((has_feature != nullptr));
    }
    int32_t on(const cudart::Machine &machine) const {
        cudart::start(machine);
        const int32_t has = has_feature("cuda");
        CHECK(cudart::leaks() == "");
        return has;
    }
};

}  // namespace

TEST_CASE("version: cuda is a feature where its library is, and finds a driver and a GPU for it") {
    const Installed installed;
    const cudart::Machine fine;
    CHECK(installed.on(fine) == 0);
    const std::string backend = installed.dir.write("libkimi-cuda.so", "not a library");
    CHECK(installed.on(fine) == 0);
    std::filesystem::remove(backend);
    std::filesystem::create_symlink(KIMI_CUDA_SIMT, backend);
    CHECK(installed.on(fine) == 1);

    cudart::Machine no_gpu, no_driver, old_driver, old_gpu;
    no_gpu.n_devices = 0;
    no_driver.driver_version = 0;
    old_driver.driver_version = 12040;
    old_gpu.compute_major = 8;
    for (const cudart::Machine &machine : {no_gpu, no_driver, old_driver, old_gpu})
        CHECK(installed.on(machine) == 0);
    CHECK(installed.on(fine) == 1);
}
