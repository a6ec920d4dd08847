#include "backend/ranked_kv.h"

namespace kimi {

RankedKv::RankedKv(std::vector<Device *> devices, const KvShape &shape)
    : devices_(std::move(devices)), shape_(shape), slot_(shape.n_layers * shape.token_bytes()) {}

void RankedKv::move_slots(std::span<const std::uint32_t> pages, std::span<const std::uint32_t> from,
                          std::span<const std::uint32_t> to) {
    if (shape_.n_shards == 1) {
        for (Device *device : devices_) device->move_slots(pages, from, to);
        return;
    }
    for (std::size_t i = 0; i < from.size(); ++i) {
        devices_[shape_.shard_of(from[i])]->read_slot(pages[from[i] / kPageTokens],
                                                      from[i] % kPageTokens, slot_.data());
        devices_[shape_.shard_of(to[i])]->write_slot(pages[to[i] / kPageTokens],
                                                     to[i] % kPageTokens, slot_.data());
    }
}

void RankedKv::copy_page(std::uint32_t from, std::uint32_t to) {
    for (Device *device : devices_) device->copy_page(from, to);
}

void RankedKv::copy_ring(std::uint32_t from, std::uint32_t to) {
    for (Device *device : devices_) device->copy_ring(from, to);
}

void RankedKv::read_page(std::uint32_t page, std::byte *out) {
    for (Device *device : devices_) device->read_page(page, out);
}

void RankedKv::write_page(std::uint32_t page, const std::byte *in) {
    for (Device *device : devices_) device->write_page(page, in);
}

void RankedKv::read_ring(std::uint32_t ring, std::byte *out) {
    for (Device *device : devices_) device->read_ring(ring, out);
}

void RankedKv::write_ring(std::uint32_t ring, const std::byte *in) {
    for (Device *device : devices_) device->write_ring(ring, in);
}

}  // namespace kimi
