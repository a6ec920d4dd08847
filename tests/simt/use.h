// Who used device memory last, where several streams share it: uses of two streams, one of them a
// write, need an order.
#pragma once

#include <cstdint>
#include <string>

namespace kimi::simt::host {

// A launch, copy or other operation of a stream while it runs.
class User {
  public:
    explicit User(std::uint32_t id) : id_(id) {}
    User(const User &) = delete;
    virtual ~User() = default;

    std::uint32_t id() const { return id_; }
    // Whether another one ended before this one began. 0 is nobody.
    bool follows(std::uint32_t other) {
        if (other == 0 || other == id_ || other == last_ || other == last_but_one_) return true;
        if (!is_after(other)) return false;
        last_but_one_ = last_;
        last_ = other;
        return true;
    }
    virtual std::string name_of(std::uint32_t other) const = 0;

  protected:
    virtual bool is_after(std::uint32_t other) const = 0;

  private:
    std::uint32_t id_, last_ = 0, last_but_one_ = 0;
};

// The last users of 4 bytes. Of several readers that nothing orders, one is kept.
struct Use {
    static constexpr std::size_t kBytes = 4;
    std::uint32_t writer, reader;
};

// Records a use of a range and returns an earlier user that nothing orders before it, or 0.
inline std::uint32_t use(Use *uses, std::size_t offset, std::size_t bytes, User &user, bool write) {
    Use *const end = uses + (offset + bytes + Use::kBytes - 1) / Use::kBytes;
    for (Use *u = uses + offset / Use::kBytes; u < end; ++u) {
        if (!user.follows(u->writer)) return u->writer;
        if (write) {
            if (!user.follows(u->reader)) return u->reader;
            u->writer = user.id();
        } else {
            u->reader = user.id();
        }
    }
    return 0;
}

}  // namespace kimi::simt::host
