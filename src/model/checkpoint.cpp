#include "model/checkpoint.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"

namespace kimi {
namespace {

constexpr std::size_t kMaxIndex = 1U << 28;

bool is_text_tensor(std::string_view name) {
    return name.starts_with("language_model.") || name.starts_with("model.") ||
           name.starts_with("lm_head.");
}

bool any_tensor(std::string_view) {
    return true;
}

std::unordered_map<std::string, std::string> read_index(const std::string &path) {
    const Json root =
        parse_json(read_file(path, kMaxIndex), path, KIMI_CORRUPT, EqualKeys::refused);
    const Json *map = root.find("weight_map");
    if (map == nullptr || !map->is(Json::Kind::object))
        fail(KIMI_CORRUPT, path, ": weight_map must be an object");
    std::unordered_map<std::string, std::string> index;
    index.reserve(map->members.size());
    for (const auto &[name, file] : map->members) {
        // A file name only: an index must not reach outside its folder.
        if (!file.is(Json::Kind::string) || file.text.empty() || file.text.starts_with('.') ||
            file.text.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos)
            fail(KIMI_CORRUPT, path, ": weight_map.", name, " must be a file name, is ",
                 dump_json(file));
        index.emplace(name, file.text);
    }
    return index;
}

std::string shape_text(std::initializer_list<std::uint64_t> shape) {
    std::string text;
    for (const std::uint64_t n : shape) text += cat(text.empty() ? "" : ", ", n);
    return cat('[', text, ']');
}

}  // namespace

Checkpoint Checkpoint::open_target(const std::string &folder, const Progress &progress) {
    Checkpoint checkpoint;
    checkpoint.open(folder, is_text_tensor, progress);
    return checkpoint;
}

Checkpoint Checkpoint::open_drafter(const std::string &folder) {
    Checkpoint checkpoint;
    checkpoint.open(folder, any_tensor, {});
    return checkpoint;
}

void Checkpoint::open(const std::string &folder, bool (*wanted)(std::string_view),
                      const Progress &progress) {
    folder_ = folder;
    const std::string index_path = cat(folder, "/model.safetensors.index.json");
    if (!file_exists(index_path)) {
        files_.emplace_back(cat(folder, "/model.safetensors"));
        read_shards(wanted, nullptr, progress);
        return;
    }
    const Index index = read_index(index_path);
    std::set<std::string> shards;
    std::size_t n_wanted = 0;
    for (const auto &[name, file] : index) {
        if (!wanted(name)) continue;
        ++n_wanted;
        shards.insert(file);
    }
    for (const std::string &shard : shards) files_.emplace_back(cat(folder, '/', shard));
    tensors_.reserve(n_wanted);
    read_shards(wanted, &index, progress);
    if (tensors_.size() == n_wanted) return;
    for (const auto &[name, file] : index)
        if (wanted(name) && !has(name))
            fail(KIMI_CORRUPT, folder, '/', file, ": tensor ", name,
                 " is missing, although the index says it is here");
}

void Checkpoint::read_shards(bool (*wanted)(std::string_view), const Index *index,
                             const Progress &progress) {
    std::uint64_t done = 0, total = 0;
    for (const MappedFile &file : files_) total += file.bytes().size();
    for (const MappedFile &file : files_) {
        if (progress) progress(done, total);
        for (Tensor &tensor : read_safetensors(file))
            if (wanted(tensor.name)) add(file, std::move(tensor), index);
        done += file.bytes().size();
    }
    if (progress) progress(done, total);
}

void Checkpoint::add(const MappedFile &file, Tensor &&tensor, const Index *index) {
    if (index != nullptr) {
        const auto entry = index->find(tensor.name);
        if (entry == index->end())
            fail(KIMI_CORRUPT, file.path(), ": tensor ", tensor.name, " is not in the index");
        if (!file.path().ends_with('/' + entry->second)) return;
    }
    std::string name = tensor.name;
    tensors_.emplace(std::move(name), Entry{std::move(tensor), &file});
}

const Tensor &Checkpoint::take(const std::string &name, DType dtype,
                               std::initializer_list<std::uint64_t> shape) {
    const auto entry = tensors_.find(name);
    if (entry == tensors_.end()) fail(KIMI_CORRUPT, folder_, ": tensor ", name, " is missing");
    Tensor &tensor = entry->second.tensor;
    if (tensor.dtype != dtype)
        fail(tensor.dtype == DType::f8_e4m3 ? KIMI_UNSUPPORTED : KIMI_CORRUPT,
             entry->second.file->path(), ": tensor ", name, " is ", dtype_name(tensor.dtype),
             ", must be ", dtype_name(dtype));
    if (!std::equal(shape.begin(), shape.end(), tensor.shape.begin(),
                    tensor.shape.begin() + tensor.rank))
        fail(KIMI_CORRUPT, entry->second.file->path(), ": tensor ", name, " has shape ",
             kimi::shape_text(tensor), ", must be ", shape_text(shape));
    entry->second.taken = true;
    return tensor;
}

void Checkpoint::expect_all_taken() const {
    for (const auto &[name, entry] : tensors_)
        if (!entry.taken)
            fail(KIMI_UNSUPPORTED, entry.file->path(), ": tensor ", name,
                 " is not part of the architecture that this library implements");
}

}  // namespace kimi
