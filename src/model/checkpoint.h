// The tensors of a checkpoint folder: safetensors shards with an index, or one model.safetensors.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/mapped_file.h"
#include "model/safetensors.h"

namespace kimi {

// Called with bytes done and in total; may throw to stop.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

class Checkpoint {
  public:
    // Maps and checks the shards that hold tensors of the text model: names with another prefix
    // than `language_model.`, `model.` or `lm_head.` (the vision tower, the projector) are skipped.
    // Throws KIMI_NOT_FOUND, KIMI_IO or KIMI_CORRUPT with file and tensor.
    static Checkpoint open_target(const std::string &folder, const Progress &progress = {});
    // The same for a drafter, whose tensors have no prefix.
    static Checkpoint open_drafter(const std::string &folder);

    const std::string &folder() const { return folder_; }
    std::size_t n_tensors() const { return tensors_.size(); }

    template <typename F>
    void each(const F &f) const {
        for (const auto &[name, entry] : tensors_) f(entry.tensor);
    }
    bool has(const std::string &name) const { return tensors_.contains(name); }
    // The tensor, which must have this dtype and shape: KIMI_CORRUPT otherwise. Counts as used.
    const Tensor &take(const std::string &name, DType dtype,
                       std::initializer_list<std::uint64_t> shape);
    // Throws KIMI_UNSUPPORTED for a tensor that was never taken: a weight that this library would
    // silently leave out of the computation.
    void expect_all_taken() const;

  private:
    struct Entry {
        Tensor tensor;
        const MappedFile *file;
        bool taken = false;
    };
    using Index = std::unordered_map<std::string, std::string>;  // tensor name -> file name

    void open(const std::string &folder, bool (*wanted)(std::string_view),
              const Progress &progress);
    void read_shards(bool (*wanted)(std::string_view), const Index *index,
                     const Progress &progress);
    void add(const MappedFile &file, Tensor &&tensor, const Index *index);

    std::string folder_;
    std::deque<MappedFile> files_;
    std::unordered_map<std::string, Entry> tensors_;
};

}  // namespace kimi
