#include "model/safetensors.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/json.h"

namespace kimi {
namespace {

struct DTypeInfo {
    std::string_view name;
    std::size_t size;
};
// Indexed by DType.
constexpr DTypeInfo kDTypes[] = {{"BF16", 2}, {"F16", 2},  {"F32", 4},     {"F64", 8},
                                 {"I8", 1},   {"I16", 2},  {"I32", 4},     {"I64", 8},
                                 {"U8", 1},   {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the format's own limit

// Reads one header entry; errors name the file and the tensor.
class Entry {
  public:
    Entry(const std::string &path, const Json::Member &member, std::span<const std::byte> data)
        : path_(path), name_(member.first), json_(member.second), data_(data) {}

    Tensor read() const {
        Tensor tensor;
        tensor.name = name_;
        tensor.dtype = read_dtype();
        const std::uint64_t elements = read_shape(tensor);
        const auto [begin, end] = read_offsets();
        if (__builtin_mul_overflow(elements, dtype_size(tensor.dtype), &tensor.bytes) ||
            tensor.bytes != end - begin)
            bad("shape ", shape_text(tensor), " of ", dtype_name(tensor.dtype),
                " does not fit data_offsets of ", end - begin, " bytes");
        tensor.data = data_.data() + begin;
        return tensor;
    }

  private:
    template <typename... Parts>
    [[noreturn]] void bad(const Parts &...parts) const {
        fail(KIMI_CORRUPT, path_, ": tensor ", name_, ": ", parts...);
    }

    const Json &field(std::string_view key, Json::Kind kind) const {
        const Json *value = json_.find(key);
        if (value == nullptr || !value->is(kind)) bad(key, " must be ", kind_name(kind));
        return *value;
    }

    std::uint64_t natural(const Json &value, std::string_view key) const {
        std::uint64_t out = 0;
        const char *end = value.text.data() + value.text.size();
        const auto [last, error] = std::from_chars(value.text.data(), end, out);
        if (!value.is(Json::Kind::integer) || last != end || error != std::errc())
            bad(key, " has ", dump_json(value), ", must be an integer from 0 to 2^64 - 1");
        return out;
    }

    DType read_dtype() const {
        const std::string &name = field("dtype", Json::Kind::string).text;
        for (std::size_t i = 0; i < std::size(kDTypes); ++i)
            if (kDTypes[i].name == name) return static_cast<DType>(i);
        bad("dtype is \"", name, "\", which is unknown");
    }

    std::uint64_t read_shape(Tensor &tensor) const {
        const Json &shape = field("shape", Json::Kind::array);
        if (shape.items.size() > tensor.shape.size())
            bad("shape has ", shape.items.size(), " dimensions, at most 4 are supported");
        std::uint64_t elements = 1;
        for (const Json &item : shape.items) {
            const std::uint64_t n = natural(item, "shape");
            tensor.shape[tensor.rank++] = n;
            if (__builtin_mul_overflow(elements, n, &elements))
                bad("shape ", shape_text(tensor), " is impossibly large");
        }
        return elements;
    }

    std::pair<std::uint64_t, std::uint64_t> read_offsets() const {
        const Json &offsets = field("data_offsets", Json::Kind::array);
        if (offsets.items.size() != 2) bad("data_offsets must be [begin, end]");
        const std::uint64_t begin = natural(offsets.items[0], "data_offsets");
        const std::uint64_t end = natural(offsets.items[1], "data_offsets");
        if (begin > end || end > data_.size())
            bad("data_offsets [", begin, ", ", end, "] lie outside the ", data_.size(),
                " bytes of data in the file");
        return {begin, end};
    }

    const std::string &path_;
    const std::string &name_;
    const Json &json_;
    std::span<const std::byte> data_;
};

void check_no_overlap(const std::string &path, const std::vector<Tensor> &tensors) {
    std::vector<const Tensor *> order;
    for (const Tensor &tensor : tensors)
        if (tensor.bytes > 0) order.push_back(&tensor);
    std::sort(order.begin(), order.end(),
              [](const Tensor *a, const Tensor *b) { return a->data < b->data; });
    for (std::size_t i = 1; i < order.size(); ++i)
        if (order[i]->data < order[i - 1]->data + order[i - 1]->bytes)
            fail(KIMI_CORRUPT, path, ": tensors ", order[i - 1]->name, " and ", order[i]->name,
                 " overlap");
}

}  // namespace

std::string_view dtype_name(DType dtype) {
    return kDTypes[static_cast<int>(dtype)].name;
}
std::size_t dtype_size(DType dtype) {
    return kDTypes[static_cast<int>(dtype)].size;
}

std::string shape_text(const Tensor &tensor) {
    std::string text = "[";
    for (std::size_t i = 0; i < tensor.rank; ++i) text += cat(i > 0 ? ", " : "", tensor.shape[i]);
    return text + "]";
}

std::vector<Tensor> read_safetensors(const MappedFile &file) {
    const std::span<const std::byte> bytes = file.bytes();
    std::uint64_t length = 0;
    if (bytes.size() < sizeof length)
        fail(KIMI_CORRUPT, file.path(), ": ", bytes.size(), " bytes, too short for a header");
    std::memcpy(&length, bytes.data(), sizeof length);
    if (length > kMaxHeader || length > bytes.size() - sizeof length)
        fail(KIMI_CORRUPT, file.path(), ": header length is ", length, ", the file has ",
             bytes.size(), " bytes");
    const auto *text = reinterpret_cast<const char *>(bytes.data()) + sizeof length;
    const Json header =
        parse_json({text, length}, cat(file.path(), ": header"), KIMI_CORRUPT, EqualKeys::refused);
    if (!header.is(Json::Kind::object))
        fail(KIMI_CORRUPT, file.path(), ": the header must be a JSON object");

    std::vector<Tensor> tensors;
    tensors.reserve(header.members.size());
    const std::span<const std::byte> data = bytes.subspan(sizeof length + length);
    for (const Json::Member &member : header.members)
        if (member.first != "__metadata__")
            tensors.push_back(Entry(file.path(), member, data).read());
    check_no_overlap(file.path(), tensors);
    return tensors;
}

}  // namespace kimi
