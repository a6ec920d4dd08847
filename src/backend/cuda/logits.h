// What is wanted of logits: lists of the likeliest tokens, and rows on the host.
#pragma once

#include <span>

#include "backend/cuda/collectives.h"
#include "backend/cuda/memory.h"

namespace kimi::cuda {

class Logits {
  public:
    Logits(const DeviceLimits &limits, Collectives &collectives, cudaStream_t stream);

    // n rows, at most kMaxRows, with the logits of all ranks: this one has own [n, part].
    const float *whole(const float *own, std::uint32_t part, std::uint32_t n);

    // Lists the k likeliest of such rows, from row `first` of the lists on. n_rows lies on the
    // device.
    void list(const float *whole, const std::uint32_t *n_rows, std::uint32_t max_rows,
              std::uint32_t k, std::uint32_t first);
    const std::int32_t *tokens() const { return tokens_.data(); }  // [rows, k]
    const double *log_probabilities() const { return log_p_.data(); }
    // Brings the lists of n rows to the host.
    void read_lists(std::uint32_t n, std::uint32_t k, std::int32_t *tokens, double *log_p);

    // This rank's part of a row of n, as Device::read() says. Rows come in lots of kMaxRows, with
    // the first that is asked for.
    std::span<const float> read(Buffer logits, std::uint32_t row, std::uint32_t n);
    // What has been read changes.
    void forget() { read_ = nullptr; }

  private:
    void copy_back(void *to, const void *from, std::size_t bytes) const;

    Collectives &collectives_;
    cudaStream_t stream_;
    std::uint32_t vocab_;
    DeviceArray<float> whole_;
    DeviceArray<std::int32_t> tokens_;
    DeviceArray<double> log_p_, part_sums_;
    DeviceArray<unsigned long long> part_keys_;
    PinnedArray<std::int32_t> tokens_host_;
    PinnedArray<double> log_p_host_;
    PinnedArray<float> rows_host_;
    const float *read_ = nullptr;  // where those in rows_host_ come from
};

}  // namespace kimi::cuda
