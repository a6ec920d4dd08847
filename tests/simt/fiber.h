// Stacks and switching between them.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define KIMI_SIMT_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KIMI_SIMT_ASAN
#endif
#endif
#ifdef KIMI_SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace kimi::simt::host {

// Something that runs on a stack of its own; `at` is where it goes on.
struct Context {
    boost::context::detail::fcontext_t at = nullptr;
#ifdef KIMI_SIMT_ASAN
    const void *stack = nullptr;
    std::size_t stack_bytes = 0;
    void *fake_stack = nullptr;
#endif
};

// AddressSanitizer has to know of every switch.
inline void announce_switch([[maybe_unused]] Context &from, [[maybe_unused]] Context &to) {
#ifdef KIMI_SIMT_ASAN
    __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
#endif
}

// To be called first by a fiber's function, and by nobody else.
inline void arrived_from(boost::context::detail::transfer_t from,
                         [[maybe_unused]] Context *self = nullptr) {
    auto *context = static_cast<Context *>(from.data);
    context->at = from.fctx;
#ifdef KIMI_SIMT_ASAN
    __sanitizer_finish_switch_fiber(self == nullptr ? nullptr : self->fake_stack, &context->stack,
                                    &context->stack_bytes);
#endif
}

// Returns when somebody switches back.
inline void switch_context(Context &from, Context &to) {
    announce_switch(from, to);
    arrived_from(boost::context::detail::jump_fcontext(to.at, &from), &from);
}

// A slab of equal stacks, each with a guard page at its lower end.
class Stacks {
  public:
    Stacks(std::size_t count, std::size_t bytes_each);
    Stacks(const Stacks &) = delete;
    Stacks &operator=(const Stacks &) = delete;
    ~Stacks();

    std::size_t count() const { return count_; }
    std::size_t bytes_each() const { return bytes_each_; }
    // A context that starts `entry` on stack i.
    Context start(std::size_t i, void (*entry)(boost::context::detail::transfer_t)) const;

  private:
    std::size_t count_, bytes_each_;
    std::byte *base_;
};

}  // namespace kimi::simt::host
