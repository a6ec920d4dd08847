#include "backend/cuda/kv.h"

#include <bit>

#include "kernels/kv_commit.h"

namespace kimi::cuda {
namespace {

constexpr std::uint32_t kMaxMoves = kMaxTreeNodes;

}  // namespace

CudaKv::Pool::Pool(std::uint32_t layers, std::uint32_t n_units, std::size_t bytes,
                   cudaStream_t stream)
    : n_layers(layers),
      unit_bytes(bytes),
      layer_bytes(n_units * bytes),
      memory(layers * n_units * bytes, "KV pages") {
    memory.zero(stream);
}

CudaKv::CudaKv(const KvShape &shape, const DraftShape &draft, cudaStream_t stream)
    : shape_(shape),
      draft_(draft),
      stream_(stream),
      pages_(shape.n_layers, shape.n_pages, shape.page_bytes(), stream),
      moves_host_(1 + 2 * kMaxMoves, "KV moves"),
      moves_(1 + 2 * kMaxMoves, "KV moves") {
    if (in_shards()) fresh_ = Pool(shape.n_layers, 1, kPageTokens * shape.token_bytes(), stream);
    const std::size_t token = 2 * std::size_t{draft.kv_dim()} * sizeof(bf16);
    if (draft.n_full > 0)
        draft_pages_ = Pool(draft.n_full, shape.n_pages, kPageTokens * token, stream);
    if (draft.n_sliding > 0)
        rings_ = Pool(draft.n_sliding, draft.n_rings, draft.ring_slots * token, stream);
}

KvShard CudaKv::shard() const {
    return {static_cast<std::uint32_t>(std::countr_zero(shape_.page_tokens())), shape_.shard};
}

void CudaKv::move_slots(std::span<const std::uint32_t> pages, std::span<const std::uint32_t> from,
                        std::span<const std::uint32_t> to) {
    const auto n = static_cast<std::uint32_t>(from.size());
    KIMI_CHECK(n <= kMaxMoves && !in_shards());
    const auto cell = [&](std::uint32_t slot) {
        return pages[slot / kPageTokens] * kPageTokens + slot % kPageTokens;
    };
    moved_.wait();
    std::uint32_t *const host = moves_host_.data();
    host[0] = n;
    for (std::uint32_t i = 0; i < n; ++i) {
        host[1 + i] = cell(from[i]);
        host[1 + kMaxMoves + i] = cell(to[i]);
    }
    check(cudaMemcpyAsync(moves_.data(), host, moves_.bytes(), cudaMemcpyHostToDevice, stream_),
          "copying KV moves");
    moved_.record(stream_);
    compact(moves_.data(), moves_.data() + 1, moves_.data() + 1 + kMaxMoves, n);
}

void CudaKv::compact(const std::uint32_t *n_moves, const std::uint32_t *from,
                     const std::uint32_t *to, std::uint32_t max_moves) const {
    if (in_shards())
        return kv_commit({fresh_.memory.data(), pages_.memory.data(),
                          static_cast<std::int64_t>(pages_.layer_bytes), pages_.n_layers, fp8(),
                          shard(), from, to, n_moves, max_moves},
                         stream_);
    kv_compact({pages_.memory.data(), static_cast<std::int64_t>(pages_.layer_bytes),
                pages_.n_layers, mla_planes(fp8()), from, to, n_moves, max_moves},
               stream_);
}

std::size_t CudaKv::draft_token_bytes() const {
    return 2 * std::size_t{draft_.whole_kv_heads} * draft_.head_dim * sizeof(bf16);
}

std::size_t CudaKv::page_bytes() const {
    return shape_.n_layers * kPageTokens * shape_.token_bytes() +
           draft_.n_full * kPageTokens * draft_token_bytes();
}

std::size_t CudaKv::ring_bytes() const {
    return std::size_t{draft_.n_sliding} * draft_.ring_slots * draft_token_bytes();
}

void CudaKv::copy_unit(const Pool &pool, std::uint32_t from, std::uint32_t to) {
    if (pool.n_layers == 0) return;
    check(cudaMemcpy2DAsync(pool.at(0, to), pool.layer_bytes, pool.at(0, from), pool.layer_bytes,
                            pool.unit_bytes, pool.n_layers, cudaMemcpyDeviceToDevice, stream_),
          "copying KV");
}

void CudaKv::copy_page(std::uint32_t from, std::uint32_t to) {
    copy_unit(pages_, from, to);
    copy_unit(draft_pages_, from, to);
}

void CudaKv::copy_ring(std::uint32_t from, std::uint32_t to) {
    copy_unit(rings_, from, to);
}

// Keys and values of a token are two rows of the KV heads; this rank has some of them.
void CudaKv::transfer(std::uint8_t *mine, std::uint32_t n_tokens, std::byte *whole,
                      cudaMemcpyKind direction) {
    const std::size_t head = draft_.head_dim * sizeof(bf16), row = draft_.n_kv_heads * head,
                      whole_row = draft_.whole_kv_heads * head;
    std::byte *const part = whole + draft_.first_kv_head * head;
    const bool reads = direction == cudaMemcpyDeviceToHost;
    void *const to = reads ? static_cast<void *>(part) : mine;
    const void *const from = reads ? static_cast<const void *>(mine) : part;
    check(cudaMemcpy2DAsync(to, reads ? whole_row : row, from, reads ? row : whole_row, row,
                            std::size_t{2} * n_tokens, direction, stream_),
          "copying KV");
}

void CudaKv::transfer(const Pool &pool, std::uint32_t unit, std::uint32_t n_tokens,
                      std::byte *whole, cudaMemcpyKind direction) {
    for (std::uint32_t i = 0; i < pool.n_layers; ++i)
        transfer(pool.at(i, unit), n_tokens, whole + i * n_tokens * draft_token_bytes(), direction);
}

void CudaKv::transfer_tokens(std::uint32_t page, std::uint32_t first, std::uint32_t n,
                             std::byte *host, std::uint32_t host_tokens, std::uint32_t host_first,
                             cudaMemcpyKind direction) {
    const bool reads = direction == cudaMemcpyDeviceToHost;
    const KvPlanes planes = mla_planes(fp8(), shape_.page_tokens());
    const std::size_t host_layer = host_tokens * shape_.token_bytes();
    for (const KvPlane &plane : planes.plane) {
        if (plane.token_bytes == 0) continue;
        std::uint8_t *const mine = pages_.at(0, page) + plane.offset + first * plane.token_bytes;
        std::byte *const theirs = host + host_first * plane.token_bytes;
        check(cudaMemcpy2DAsync(reads ? static_cast<void *>(theirs) : mine,
                                reads ? host_layer : pages_.layer_bytes,
                                reads ? static_cast<const void *>(mine) : theirs,
                                reads ? pages_.layer_bytes : host_layer,
                                std::size_t{n} * plane.token_bytes, pages_.n_layers, direction,
                                stream_),
              "copying KV");
        host += host_tokens * plane.token_bytes;
    }
}

void CudaKv::transfer_slot(std::uint32_t page, std::uint32_t offset, std::byte *slot,
                           cudaMemcpyKind direction) {
    KIMI_CHECK(shard().holds(offset));
    transfer_tokens(page, offset % shape_.page_tokens(), 1, slot, 1, 0, direction);
    check(cudaStreamSynchronize(stream_), "copying KV");
}

void CudaKv::read_slot(std::uint32_t page, std::uint32_t offset, std::byte *out) {
    transfer_slot(page, offset, out, cudaMemcpyDeviceToHost);
}

void CudaKv::write_slot(std::uint32_t page, std::uint32_t offset, const std::byte *in) {
    transfer_slot(page, offset, const_cast<std::byte *>(in), cudaMemcpyHostToDevice);
}

void CudaKv::transfer_page(std::uint32_t page, std::byte *whole, cudaMemcpyKind direction) {
    const std::uint32_t n = shape_.page_tokens();
    transfer_tokens(page, 0, n, whole, kPageTokens, shape_.shard * n, direction);
    transfer(draft_pages_, page, kPageTokens,
             whole + shape_.n_layers * kPageTokens * shape_.token_bytes(), direction);
    check(cudaStreamSynchronize(stream_), "copying KV");
}

void CudaKv::read_page(std::uint32_t page, std::byte *out) {
    transfer_page(page, out, cudaMemcpyDeviceToHost);
}

void CudaKv::write_page(std::uint32_t page, const std::byte *in) {
    transfer_page(page, const_cast<std::byte *>(in), cudaMemcpyHostToDevice);
}

void CudaKv::read_ring(std::uint32_t ring, std::byte *out) {
    transfer(rings_, ring, draft_.ring_slots, out, cudaMemcpyDeviceToHost);
    check(cudaStreamSynchronize(stream_), "copying KV");
}

void CudaKv::write_ring(std::uint32_t ring, const std::byte *in) {
    transfer(rings_, ring, draft_.ring_slots, const_cast<std::byte *>(in), cudaMemcpyHostToDevice);
    check(cudaStreamSynchronize(stream_), "copying KV");
}

}  // namespace kimi::cuda
