// kimi-plan: what a deployment costs on a machine, and which placement suits it.
#include <cstdio>

#include "base/error.h"
#include "tools/plan/plan.h"

int main(int argc, char **argv) {
    try {
        std::fputs(kimi::plan::run(std::span(argv + 1, argv + argc)).c_str(), stdout);
        return 0;
    } catch (...) {
        std::fprintf(stderr, "kimi-plan: %s\n", kimi::current_error().text.c_str());
        return 1;
    }
}
