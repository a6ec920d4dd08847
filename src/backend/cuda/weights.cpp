#include "backend/cuda/weights.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/moe_repack.h"

namespace kimi::cuda {
namespace {

constexpr std::size_t kStageBytes = std::size_t{16} << 20;

const Expert &first_held(std::span<const Expert> layer) {
    const auto held =
        std::find_if(layer.begin(), layer.end(), [](const Expert &e) { return e.n_copies > 0; });
    KIMI_CHECK(held != layer.end());
    return *held;
}

}  // namespace

std::byte *CudaWeights::stage(std::size_t bytes) {
    KIMI_CHECK(bytes <= kStageBytes);
    Stage &s = stages_[turn_];
    if (s.memory.data() == nullptr)
        s.memory = PinnedArray<std::byte>(kStageBytes, "buffers for loading");
    s.free.wait();
    return s.memory.data();
}

void CudaWeights::release() {
    stages_[turn_].free.record(stream_);
    turn_ = 1 - turn_;
}

void CudaWeights::copy(const Rows &rows, void *to) {
    const std::size_t chunk = std::max<std::size_t>(1, kStageBytes / rows.bytes);
    for (std::size_t begin = 0; begin < rows.n; begin += chunk) {
        const std::size_t n = std::min(chunk, rows.n - begin);
        std::byte *const staged = stage(n * rows.bytes);
        for (std::size_t i = 0; i < n; ++i)
            std::memcpy(staged + i * rows.bytes, rows.from + (begin + i) * rows.stride, rows.bytes);
        check(cudaMemcpyAsync(static_cast<std::byte *>(to) + begin * rows.bytes, staged,
                              n * rows.bytes, cudaMemcpyHostToDevice, stream_),
              "copying weights");
        release();
    }
}

void CudaWeights::load(Matrix &w) {
    if (w.data == nullptr) return;
    if (w.type != WeightType::bf16)
        fail(KIMI_UNSUPPORTED, "the CUDA backend takes int4 weights only as routed experts");
    const std::size_t row = std::size_t{w.cols} * sizeof(bf16);
    arrays_.emplace_back(w.rows * row, "weights");
    copy({w.data, w.row_bytes, row, w.rows}, arrays_.back().data());
    w.data = arrays_.back().data();
    w.row_bytes = row;
}

void CudaWeights::load(Vector &w) {
    if (w.data == nullptr) return;
    const std::size_t bytes = w.n * sizeof(bf16);
    arrays_.emplace_back(bytes, "norm weights");
    copy({w.data, bytes, bytes, 1}, arrays_.back().data());
    w.data = arrays_.back().data();
}

void CudaWeights::load(std::shared_ptr<const float[]> &values, std::uint32_t n) {
    const std::size_t bytes = n * sizeof(float);
    arrays_.emplace_back(bytes, "router biases");
    std::byte *const to = arrays_.back().data();
    copy({reinterpret_cast<const std::byte *>(values.get()), bytes, bytes, 1}, to);
    // A view like the others: memory goes only once the device's work has ended.
    values = {std::shared_ptr<void>(), reinterpret_cast<const float *>(to)};
}

void CudaWeights::load(MlaWeights &w, const MlaShape &s) {
    load(w.kv_norm);
    const std::size_t keys = std::size_t{s.nope_dim} * s.kv_rank,
                      values = std::size_t{s.v_dim} * s.kv_rank;
    AbsorbedWeights to{{s.n_heads * keys, "attention weights"},
                       {s.n_heads * values, "attention weights"}};
    std::vector<bf16> head(keys);
    for (std::uint32_t h = 0; h < s.n_heads; ++h) {
        const std::size_t first = std::size_t{h} * (s.nope_dim + s.v_dim);
        auto *const turned = reinterpret_cast<bf16 *>(stage(keys * sizeof(bf16)));
        for (std::uint32_t i = 0; i < s.nope_dim; ++i) {
            std::memcpy(head.data(), w.kv_b.row(first + i), s.kv_rank * sizeof(bf16));
            for (std::uint32_t o = 0; o < s.kv_rank; ++o) turned[o * s.nope_dim + i] = head[o];
        }
        check(cudaMemcpyAsync(to.keys.data() + h * keys, turned, keys * sizeof(bf16),
                              cudaMemcpyHostToDevice, stream_),
              "copying weights");
        release();
        copy({w.kv_b.row(first + s.nope_dim), w.kv_b.row_bytes, s.kv_rank * sizeof(bf16), s.v_dim},
             to.values.data() + h * values);
    }
    w.kv_b.data = reinterpret_cast<const std::byte *>(to.keys.data());
    absorbed_.emplace(w.kv_b.data, std::move(to));
}

void CudaWeights::load(std::span<Expert> layer) {
    const Expert &first = first_held(layer);
    ExpertWeights to;
    to.width = first.gate.rows;
    std::vector<std::uint32_t> place(layer.size(), kMoeElsewhere);
    for (std::size_t e = 0; e < layer.size(); ++e) {
        if (layer[e].n_copies == 0) continue;
        if (layer[e].n_copies > 1)
            fail(KIMI_UNSUPPORTED, "field placement.expert_replicas: the CUDA backend has none");
        if (layer[e].gate.type != WeightType::int4)
            fail(KIMI_UNSUPPORTED, "the CUDA backend takes routed experts only as int4");
        place[e] = to.n_held++;
    }
    const std::uint32_t hidden = first.gate.cols;
    if (to.width % kMoeUnitInputs != 0 || hidden % kMoeUnitInputs != 0)
        fail(KIMI_UNSUPPORTED, "field placement.experts: a slice of an expert is ", to.width,
             " wide, the CUDA backend takes multiples of ", kMoeUnitInputs);
    const std::size_t gate_up = moe_matrix_bytes(2 * to.width, hidden),
                      down = moe_matrix_bytes(hidden, to.width);
    to.gate_up = {to.n_held * gate_up, "experts"};
    to.down = {to.n_held * down, "experts"};
    to.held = {layer.size(), "experts"};
    copy({reinterpret_cast<const std::byte *>(place.data()), 0, place.size() * 4, 1},
         to.held.data());
    reserve_raw(first);
    std::vector<std::uint32_t> order(layer.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return layer[a].gate.data < layer[b].gate.data;  // as the files have them
    });
    for (const std::uint32_t e : order) {
        if (place[e] == kMoeElsewhere) continue;
        std::uint8_t *const gate_up_at = to.gate_up.data() + place[e] * gate_up;
        load(layer[e], gate_up_at, to.down.data() + place[e] * down);
        layer[e].gate.data = reinterpret_cast<const std::byte *>(gate_up_at);
        layer[e].up.data = layer[e].down.data = nullptr;
    }
    experts_.emplace(first_held(layer).gate.data, std::move(to));
}

void CudaWeights::reserve_raw(const Expert &expert) {
    const std::size_t bytes =
        expert.gate.bytes() + expert.up.bytes() + expert.down.bytes() + 6 * 256;
    if (bytes <= raw_.size()) return;
    check(cudaStreamSynchronize(stream_), "loading experts");
    raw_ = DeviceArray<std::byte>(bytes, "buffers for loading");
}

// The six parts as the files have them, then repacked.
void CudaWeights::load(const Expert &expert, std::uint8_t *gate_up, std::uint8_t *down) {
    std::byte *at = raw_.data();
    const auto part = [&](const std::byte *from, std::size_t stride, std::size_t row,
                          std::uint32_t n) {
        std::byte *const to = at;
        copy({from, stride, row, n}, to);
        at += (row * n + 255) / 256 * 256;
        return to;
    };
    const auto rows_of = [&](const Matrix &w) {
        const std::size_t row = w.cols / 2, scale_row = w.cols / 32 * sizeof(bf16);
        const std::byte *const words = part(w.data, w.row_bytes, row, w.rows);
        const std::byte *const scales = part(w.scales, w.scale_row_bytes, scale_row, w.rows);
        return Int4Rows{reinterpret_cast<const std::uint32_t *>(words),
                        reinterpret_cast<const bf16 *>(scales), w.cols / 8, w.cols / 32};
    };
    const Int4Rows gate = rows_of(expert.gate), up = rows_of(expert.up);
    moe_repack({gate, up, 2 * expert.gate.rows, expert.gate.cols, gate_up}, stream_);
    moe_repack({rows_of(expert.down), {}, expert.down.rows, expert.down.cols, down}, stream_);
}

void CudaWeights::finish() {
    check(cudaStreamSynchronize(stream_), "loading weights");
    raw_ = {};
    for (Stage &s : stages_) s.memory = {};
}

const ExpertWeights &CudaWeights::of(std::span<const Expert> layer) const {
    return experts_.at(first_held(layer).gate.data);
}

}  // namespace kimi::cuda
