#include "backend/cuda/logits.h"

#include <algorithm>

#include "backend/cuda/pass_tables.h"
#include "kernels/top_k.h"

namespace kimi::cuda {

Logits::Logits(const DeviceLimits &limits, Collectives &collectives, cudaStream_t stream)
    : collectives_(collectives), stream_(stream), vocab_(limits.vocab) {
    const std::size_t listed = std::size_t{limits.rows} * kTopKMax,
                      parts = std::size_t{kMaxRows} * top_k_chunks(vocab_);
    tokens_ = {listed, "drafted tokens"};
    log_p_ = {listed, "drafted tokens"};
    tokens_host_ = {listed, "drafted tokens"};
    log_p_host_ = {listed, "drafted tokens"};
    part_keys_ = {parts * kTopKMax, "drafted tokens"};
    part_sums_ = {parts * 2, "drafted tokens"};
    const std::uint32_t n_ranks = collectives.n_ranks();
    rows_host_ = {std::size_t{kMaxRows} * vocab_ / n_ranks, "logits"};
    if (n_ranks > 1) whole_ = {std::size_t{kMaxRows} * vocab_, "logits of all ranks"};
}

const float *Logits::whole(const float *own, std::uint32_t part, std::uint32_t n) {
    if (part == vocab_) return own;
    collectives_.gather(own, part, n, whole_.data());
    return whole_.data();
}

void Logits::list(const float *whole, const std::uint32_t *n_rows, std::uint32_t max_rows,
                  std::uint32_t k, std::uint32_t first) {
    const std::size_t at = std::size_t{first} * k;
    top_k({whole, n_rows, max_rows, vocab_, k, tokens_.data() + at, log_p_.data() + at,
           part_keys_.data(), part_sums_.data()},
          stream_);
}

void Logits::copy_back(void *to, const void *from, std::size_t bytes) const {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "copying results");
}

void Logits::read_lists(std::uint32_t n, std::uint32_t k, std::int32_t *tokens, double *log_p) {
    const std::size_t listed = std::size_t{n} * k;
    copy_back(tokens_host_.data(), tokens_.data(), listed * sizeof(std::int32_t));
    copy_back(log_p_host_.data(), log_p_.data(), listed * sizeof(double));
    collectives_.finish();
    std::copy_n(tokens_host_.data(), listed, tokens);
    std::copy_n(log_p_host_.data(), listed, log_p);
}

std::span<const float> Logits::read(Buffer logits, std::uint32_t row, std::uint32_t n) {
    const std::uint32_t first = row / kMaxRows * kMaxRows;
    const float *const from = logits.row(first);
    if (read_ != from) {
        copy_back(rows_host_.data(), from,
                  std::size_t{std::min(n - first, kMaxRows)} * logits.width * sizeof(float));
        collectives_.finish();
        read_ = from;
    }
    return {rows_host_.data() + std::size_t{row - first} * logits.width, logits.width};
}

}  // namespace kimi::cuda
