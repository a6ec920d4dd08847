#include "tests/simt/ptxas.h"

#include <charconv>
#include <fstream>
#include <sstream>

namespace kimi::simt::host {
namespace {

// The number that ends right before `unit`, or 0.
unsigned number_before(std::string_view line, std::string_view unit) {
    const std::size_t end = line.find(unit);
    if (end == std::string_view::npos) return 0;
    std::size_t begin = end;
    while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
    unsigned n = 0;
    std::from_chars(line.data() + begin, line.data() + end, n);
    return n;
}

std::string_view between_quotes(std::string_view line, std::size_t from) {
    const std::size_t begin = line.find('\'', from) + 1;
    return line.substr(begin, line.find('\'', begin) - begin);
}

}  // namespace

std::vector<PtxasKernel> parse_ptxas(std::string_view log) {
    constexpr std::string_view kEntry = "Compiling entry function '";
    std::vector<PtxasKernel> kernels;
    while (!log.empty()) {
        const std::size_t length = log.find('\n');
        const std::string_view line = log.substr(0, length);
        log.remove_prefix(length == std::string_view::npos ? log.size() : length + 1);
        if (const std::size_t at = line.find(kEntry); at != std::string_view::npos) {
            PtxasKernel &k = kernels.emplace_back();
            k.name = between_quotes(line, at);
            k.architecture = between_quotes(line, line.find(" for "));
        } else if (kernels.empty()) {
            continue;
        } else if (line.find("bytes stack frame") != std::string_view::npos) {
            PtxasKernel &k = kernels.back();
            k.stack_bytes = number_before(line, " bytes stack frame");
            k.spill_store_bytes = number_before(line, " bytes spill stores");
            k.spill_load_bytes = number_before(line, " bytes spill loads");
        } else if (line.find("Used ") != std::string_view::npos) {
            PtxasKernel &k = kernels.back();
            k.registers = number_before(line, " registers");
            k.static_shared_bytes = number_before(line, " bytes smem");
        }
    }
    return kernels;
}

std::vector<PtxasKernel> ptxas_of(const std::string &source) {
#ifdef KIMI_PTXAS_LOGS
    std::string name = source;
    for (char &c : name) {
        if (c == '/' || c == '.') c = '_';
    }
    std::ifstream in(KIMI_PTXAS_LOGS "/" + name + ".ptxas.txt");
    std::ostringstream text;
    text << in.rdbuf();
    return parse_ptxas(text.str());
#else
    (void)source;
    return {};
#endif
}

}  // namespace kimi::simt::host
