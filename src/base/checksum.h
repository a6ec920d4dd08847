// XXH3 checksums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace kimi {

std::uint64_t checksum(const void *data, std::size_t bytes);

// 128 bits of data that comes in pieces.
class Digester {
  public:
    Digester();
    ~Digester();
    void add(const void *data, std::size_t bytes);
    void add(std::string_view text) { add(text.data(), text.size()); }
    std::array<std::uint64_t, 2> value() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace kimi
