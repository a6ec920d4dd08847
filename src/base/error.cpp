#include "base/error.h"

#include <exception>
#include <new>
#include <system_error>

namespace kimi {

// All but copies of texts are short enough to need no allocation.
Error current_error() noexcept {
    try {
        try {
            throw;
        } catch (const Error &error) {
            return error;
        } catch (const std::system_error &) {
            return {KIMI_OUT_OF_MEMORY, "no threads"};  // the only use of system_error: std::thread
        }
    } catch (const std::bad_alloc &) {
        return {KIMI_OUT_OF_MEMORY, "out of memory"};
    } catch (...) {
        return {KIMI_INTERNAL, "unexpected"};
    }
}

}  // namespace kimi
