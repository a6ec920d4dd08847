// Stacks and switching between them.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace kimi::simt::host {

// Something that runs on a stack of its own; `at` is where it goes on.
struct Context {
    boost::context::detail::fcontext_t at = nullptr;
};

// To be called first by a fiber's function, and by nobody else.
inline void arrived_from(boost::context::detail::transfer_t from) {
    static_cast<Context *>(from.data)->at = from.fctx;
}

// Returns when somebody switches back.
inline void switch_context(Context &from, Context &to) {
    arrived_from(boost::context::detail::jump_fcontext(to.at, &from));
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
