#include "tools/synth/write.h"

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tools/synth/layout.h"
#include "tools/synth/random_weights.h"

namespace kimi::synth {
namespace {

class OutFile {
  public:
    explicit OutFile(const std::string &path) : path_(path), out_(path, std::ios::binary) {
        check();
    }
    void write(std::span<const char> bytes) {
        out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        check();
    }
    void close() {
        out_.close();
        check();
    }

  private:
    void check() const {
        if (!out_) fail(KIMI_IO, path_, ": cannot write");
    }

    std::string path_;
    std::ofstream out_;
};

std::string base64(std::string_view bytes) {
    static constexpr char kDigits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t bits = 0;
        for (std::size_t j = i; j < i + 3; ++j)
            bits = bits << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
        for (int shift = 18; shift >= 0; shift -= 6) out.push_back(kDigits[bits >> shift & 63]);
    }
    const std::size_t n_padding = (3 - bytes.size() % 3) % 3;
    return out.replace(out.size() - n_padding, n_padding, n_padding, '=');
}

// "aa", "ba", ... "zz", "aaa", ...
std::string letters(std::uint32_t n) {
    std::size_t length = 2;
    std::uint32_t count = 26 * 26;
    for (; n >= count; ++length, count *= 26) n -= count;
    std::string out;
    for (; out.size() < length; n /= 26) out.push_back(static_cast<char>('a' + n % 26));
    return out;
}

}  // namespace

void write_text(const std::string &path, std::string_view text) {
    OutFile file(path);
    file.write(text);
    file.close();
}

void write_shard(const std::string &folder, const Shard &shard, Seed seed) {
    const std::string path = cat(folder, '/', shard.file);
    const std::string header = safetensors_header(shard.tensors);
    OutFile file(path);
    file.write(header);
    std::vector<char> piece;
    for (const TensorSpec &tensor : shard.tensors) {
        if (!seed) break;
        RandomTensor random(tensor, *seed);
        for (std::uint64_t left = tensor.bytes(); left > 0; left -= piece.size()) {
            piece.resize(std::min<std::uint64_t>(left, 1 << 18));
            random.next(std::as_writable_bytes(std::span(piece)));
            file.write(piece);
        }
    }
    file.close();
    std::error_code error;
    std::filesystem::resize_file(path, header.size() + shard.data_bytes(), error);
    if (error) fail(KIMI_IO, path, ": cannot set its size: ", error.message());
}

void write_target(const std::string &folder, const ModelConfig &shape, bool vision, Seed seed) {
    const std::vector<Shard> shards = target_layout(shape, vision);
    write_text(folder + "/config.json", target_config(shape));
    write_text(folder + "/model.safetensors.index.json", index_json(shards));
    for (const Shard &shard : shards) write_shard(folder, shard, seed);
}

void write_drafter(const std::string &folder, const ModelConfig &target, Seed seed) {
    write_text(folder + "/config.json", drafter_config(target));
    write_shard(folder, drafter_layout(target), seed);
}

void write_tokenizer(const std::string &folder, std::uint32_t n_ranks) {
    std::string text;
    for (std::uint32_t rank = 0; rank < n_ranks; ++rank)
        text +=
            cat(base64(rank < 256 ? std::string(1, static_cast<char>(rank)) : letters(rank - 256)),
                ' ', rank, '\n');
    write_text(folder + "/tiktoken.model", text);
}

}  // namespace kimi::synth
