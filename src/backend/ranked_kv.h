// The KV memory of several devices as one.
#pragma once

#include <memory>
#include <vector>

#include "backend/device.h"

namespace kimi {

class RankedKv final : public KvMemory {
  public:
    // The devices, in order of their ranks, have been reserved; `shape` is one of their KV's.
    RankedKv(std::vector<Device *> devices, const KvShape &shape);

    void move_slots(std::span<const std::uint32_t> pages, std::span<const std::uint32_t> from,
                    std::span<const std::uint32_t> to) override;
    std::size_t page_bytes() const override { return devices_[0]->page_bytes(); }
    std::size_t ring_bytes() const override { return devices_[0]->ring_bytes(); }
    void copy_page(std::uint32_t from, std::uint32_t to) override;
    void copy_ring(std::uint32_t from, std::uint32_t to) override;
    void read_page(std::uint32_t page, std::byte *out) override;
    void write_page(std::uint32_t page, const std::byte *in) override;
    void read_ring(std::uint32_t ring, std::byte *out) override;
    void write_ring(std::uint32_t ring, const std::byte *in) override;

  private:
    std::vector<Device *> devices_;
    KvShape shape_;
    std::vector<std::byte> slot_;  // on its way between two devices
};

}  // namespace kimi
