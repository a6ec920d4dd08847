// Pointers into device memory on the CPU: every access is checked. They do what a plain pointer
// does except unary * and ->; `T v = p[i]` and `p[i] = v` copy whole elements.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/simt/access.h"

namespace kimi::simt {

// An index, and the place in the source where it is used.
struct Index {
    std::ptrdiff_t value;
    Site site;

    template <std::integral I>
    Index(I i, Site here = Site::here()) : value(static_cast<std::ptrdiff_t>(i)), site(here) {}
};

namespace host {

template <typename V, typename Place>
V load_from(const Place &place, Touch how, Site site) {
    static_assert(std::is_trivially_copyable_v<V>);
    V value;
    std::memcpy(&value, touch(place, sizeof(V), how, site), sizeof(V));
    return value;
}
template <typename V, typename Place>
void store_to(const Place &place, const V &value, Touch how, Site site) {
    static_assert(std::is_trivially_copyable_v<V>);
    std::memcpy(touch(place, sizeof(V), how, site), &value, sizeof(V));
}

// What p[i] gives. Only a temporary can be read or assigned: `auto x = p[i]` is of no use.
template <typename T, typename Place>
class Element {
  public:
    using Value = std::remove_const_t<T>;

    Element(const Place &place, Site site) : place_(place), site_(site) {}
    Element(const Element &) = delete;

    operator Value() const && { return load_from<Value>(place_, Touch::kLoad, site_); }
    void operator=(const Value &value) const &&requires(!std::is_const_v<T>) {
        store_to(place_, value, Touch::kStore, site_);
    }
    void operator=(Element &&other) && { std::move(*this) = static_cast<Value>(std::move(other)); }
    void operator+=(const Value &value) && {
        std::move(*this) = static_cast<Value>(read() + value);
    }
    void operator-=(const Value &value) && {
        std::move(*this) = static_cast<Value>(read() - value);
    }
    void operator*=(const Value &value) && {
        std::move(*this) = static_cast<Value>(read() * value);
    }

  private:
    Value read() const { return load_from<Value>(place_, Touch::kLoad, site_); }

    Place place_;
    Site site_;
};

}  // namespace host

// A pointer into global memory. Made from a raw device pointer where a kernel is launched.
template <typename T>
class Global {
  public:
    using Value = std::remove_const_t<T>;

    Global() = default;
    Global(std::nullptr_t) {}
    Global(T *p) : place_{reinterpret_cast<std::uintptr_t>(p), host::find_memory(p)} {}
    explicit Global(const host::GlobalPlace &place) : place_(place) {}

    operator Global<const T>() const requires(!std::is_const_v<T>) {
        return Global<const T>(place_);
    }
    explicit operator bool() const { return place_.address != 0; }

    host::Element<T, host::GlobalPlace> operator[](Index i) const {
        return {(*this + i.value).place_, i.site};
    }
    Global operator+(std::ptrdiff_t n) const {
        return Global({place_.address + static_cast<std::uintptr_t>(n) * sizeof(T), place_.memory});
    }
    Global operator-(std::ptrdiff_t n) const { return *this + -n; }
    Global &operator+=(std::ptrdiff_t n) { return *this = *this + n; }
    Global &operator-=(std::ptrdiff_t n) { return *this = *this - n; }
    Global &operator++() { return *this += 1; }
    std::ptrdiff_t operator-(const Global &other) const {
        return static_cast<std::ptrdiff_t>(place_.address - other.place_.address) /
               static_cast<std::ptrdiff_t>(sizeof(T));
    }
    bool operator==(const Global &other) const { return place_.address == other.place_.address; }
    auto operator<=>(const Global &other) const { return place_.address <=> other.place_.address; }

    const host::GlobalPlace &place() const { return place_; }

  private:
    host::GlobalPlace place_;
};

// A pointer into the shared memory of the running block.
template <typename T>
class Shared {
  public:
    using Value = std::remove_const_t<T>;

    Shared() = default;
    Shared(std::nullptr_t) {}
    explicit Shared(const host::SharedPlace &place) : place_(place) {}

    operator Shared<const T>() const requires(!std::is_const_v<T>) {
        return Shared<const T>(place_);
    }

    host::Element<T, host::SharedPlace> operator[](Index i) const {
        return {(*this + i.value).place_, i.site};
    }
    Shared operator+(std::ptrdiff_t n) const {
        Shared p = *this;
        p.place_.at += static_cast<std::uint32_t>(n) * static_cast<std::uint32_t>(sizeof(T));
        return p;
    }
    Shared operator-(std::ptrdiff_t n) const { return *this + -n; }
    Shared &operator+=(std::ptrdiff_t n) { return *this = *this + n; }
    Shared &operator-=(std::ptrdiff_t n) { return *this = *this - n; }
    Shared &operator++() { return *this += 1; }
    std::ptrdiff_t operator-(const Shared &other) const {
        return static_cast<std::int32_t>(place_.at - other.place_.at) /
               static_cast<std::ptrdiff_t>(sizeof(T));
    }
    bool operator==(const Shared &other) const { return place_.at == other.place_.at; }

    const host::SharedPlace &place() const { return place_; }

  private:
    host::SharedPlace place_;
};

template <typename U, typename T>
Global<U> reinterpret(const Global<T> &p) {
    return Global<U>(p.place());
}
template <typename U, typename T>
Shared<U> reinterpret(const Shared<T> &p) {
    return Shared<U>(p.place());
}

}  // namespace kimi::simt
