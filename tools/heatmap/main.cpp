// kimi-heatmap: a trace of the engine as a picture of who is busy when.
#include <cstdio>
#include <cstring>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "tools/heatmap/picture.h"

namespace {

constexpr const char *kUsage =
    "usage: kimi-heatmap TRACE PICTURE.svg\n"
    "\n"
    "Draws a trace that kimi_engine_save_trace or kimi-bench --trace wrote: time from left to\n"
    "right, prefill above decode, and for every rank how busy its compute units and its link\n"
    "were.\n";
constexpr std::size_t kMaxTrace = std::size_t{1} << 30;

}  // namespace

int main(int argc, char **argv) {
    try {
        if (argc == 2 && std::strcmp(argv[1], "--help") == 0) return std::fputs(kUsage, stdout), 0;
        if (argc != 3) return std::fputs(kUsage, stderr), 2;
        const std::string svg = kimi::heatmap::draw(
            kimi::heatmap::parse_trace(kimi::read_file(argv[1], kMaxTrace), argv[1]));
        kimi::AtomicFile file(argv[2]);
        file.write(svg.data(), svg.size());
        file.commit();
        return 0;
    } catch (...) {
        std::fprintf(stderr, "kimi-heatmap: %s\n", kimi::current_error().text.c_str());
        return 1;
    }
}
