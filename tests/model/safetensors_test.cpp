#include "model/safetensors.h"

#include <cstring>

#include "check.h"

using namespace kimi;

namespace {

std::string file_bytes(std::string_view header, std::size_t data_bytes) {
    const std::uint64_t length = header.size();
    std::string out(reinterpret_cast<const char *>(&length), sizeof length);
    out += header;
    for (std::size_t i = 0; i < data_bytes; ++i) out.push_back(static_cast<char>(i));
    return out;
}

const std::string kValid =
    file_bytes(R"({"__metadata__":{"format":"pt"},)"
               R"("b":{"dtype":"F32","shape":[2,3],"data_offsets":[2,26]},)"
               R"("a":{"shape":[],"data_offsets":[0,2],"dtype":"BF16"},)"
               R"("none":{"dtype":"I64","shape":[0,7],"data_offsets":[26,26]}}   )",
               26);

Error error_of(const test::TempDir &dir, std::string_view bytes) {
    return test::error_of([&] { read_safetensors(MappedFile(dir.write("x.safetensors", bytes))); });
}

}  // namespace

TEST_CASE("safetensors: names, types, shapes and data") {
    const test::TempDir dir;
    const MappedFile file(dir.write("x.safetensors", kValid));
    const std::vector<Tensor> tensors = read_safetensors(file);
    REQUIRE(tensors.size() == 3);
    CHECK(tensors[0].name == "b");
    CHECK(tensors[0].dtype == DType::f32);
    CHECK(shape_text(tensors[0]) == "[2, 3]");
    CHECK(tensors[0].bytes == 24);
    CHECK(static_cast<int>(*tensors[0].data) == 2);
    CHECK(shape_text(tensors[1]) == "[]");
    CHECK(tensors[1].bytes == 2);
    CHECK(tensors[1].data + 2 == tensors[0].data);
    CHECK(shape_text(tensors[2]) == "[0, 7]");
    CHECK(tensors[2].bytes == 0);
    for (const DType dtype : {DType::bf16, DType::f16, DType::i16}) CHECK(dtype_size(dtype) == 2);
    for (const DType dtype : {DType::i8, DType::u8, DType::boolean, DType::f8_e4m3, DType::f8_e5m2})
        CHECK(dtype_size(dtype) == 1);
    for (const DType dtype : {DType::f64, DType::i64}) CHECK(dtype_size(dtype) == 8);
}

TEST_CASE("safetensors: a file cut anywhere is refused with its name") {
    const test::TempDir dir;
    for (std::size_t n = 0; n < kValid.size(); ++n) {
        CAPTURE(n);
        const Error error = error_of(dir, kValid.substr(0, n));
        CHECK(error.status == KIMI_CORRUPT);
        CHECK(test::contains(error.text, dir.file("x.safetensors") + ": "));
    }
}

TEST_CASE("safetensors: any byte of the header may be wrong") {
    const test::TempDir dir;
    const std::size_t header_end = kValid.size() - 26;
    for (std::size_t at = 0; at < header_end; ++at)
        for (const int flip : {1, 4, 0x80}) {
            std::string bytes = kValid;
            bytes[at] = static_cast<char>(bytes[at] ^ flip);
            const MappedFile file(dir.write("x.safetensors", bytes));
            try {
                for (const Tensor &tensor : read_safetensors(file)) {
                    CHECK(tensor.data >= file.bytes().data());
                    CHECK(tensor.data + tensor.bytes <= file.bytes().data() + file.bytes().size());
                }
            } catch (const Error &error) {
                CHECK(error.status == KIMI_CORRUPT);
            }
        }
}

TEST_CASE("safetensors: a lying header length is named with the file's size") {
    const test::TempDir dir;
    const auto with_length = [](std::uint64_t length, std::size_t size) {
        std::string bytes(size, ' ');
        std::memcpy(bytes.data(), &length, sizeof length);
        return bytes;
    };
    struct Case {
        std::string bytes;
        const char *text;
    };
    const Case cases[] = {
        {"", "0 bytes, too short for a header"},
        {"1234567", "7 bytes, too short for a header"},
        {with_length(30, 37), "header length is 30, the file has 37 bytes"},
        {with_length(~0ULL, 37), "header length is 18446744073709551615, the file has 37 bytes"},
        {with_length(~0ULL - 7, 37), "header length is 18446744073709551608"},
        {with_length(1ULL << 63, 37), "header length is 9223372036854775808"},
        {with_length(0, 8), "header: invalid JSON at byte 1"},
        {with_length(29, 37), "header: invalid JSON at byte 30"},
    };
    for (const Case &c : cases) {
        const Error error = error_of(dir, c.bytes);
        CAPTURE(error.text);
        CHECK(error.status == KIMI_CORRUPT);
        CHECK(test::contains(error.text, dir.file("x.safetensors") + ": " + c.text));
    }
}

TEST_CASE("safetensors: a header that is no JSON object is named") {
    const test::TempDir dir;
    struct Case {
        const char *header, *text;
    };
    const Case cases[] = {
        {"[]", "the header must be a JSON object"},
        {"7", "the header must be a JSON object"},
        {"{\"a\":", "header: invalid JSON at byte"},
        {"\x80\x04\x95", "header: invalid JSON at byte"},
        {"{} {}", "header: invalid JSON at byte"},
        {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
             "a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
         "header: invalid JSON: the key \"a\" appears twice"},
    };
    for (const Case &c : cases) {
        CAPTURE(c.header);
        const Error error = error_of(dir, file_bytes(c.header, 8));
        CHECK(error.status == KIMI_CORRUPT);
        CHECK(test::contains(error.text, cat(dir.file("x.safetensors"), ": ", c.text)));
    }
}

TEST_CASE("safetensors: a wrong field is named with the tensor and its value") {
    const test::TempDir dir;
    struct Case {
        const char *entry, *text;
    };
    const Case cases[] = {
        {R"(7)", "dtype must be a string"},
        {R"({"shape":[8],"data_offsets":[0,8]})", "dtype must be a string"},
        {R"({"dtype":3,"shape":[8],"data_offsets":[0,8]})", "dtype must be a string"},
        {R"({"dtype":"I4","shape":[8],"data_offsets":[0,8]})", "dtype is \"I4\", which is unknown"},
        {R"({"dtype":"U8","data_offsets":[0,8]})", "shape must be an array"},
        {R"({"dtype":"U8","shape":8,"data_offsets":[0,8]})", "shape must be an array"},
        {R"({"dtype":"U8","shape":["8"],"data_offsets":[0,8]})",
         "shape has \"8\", must be an integer"},
        {R"({"dtype":"U8","shape":[8.0],"data_offsets":[0,8]})",
         "shape has 8.0, must be an integer"},
        {R"({"dtype":"U8","shape":[-8],"data_offsets":[0,8]})", "shape has -8, must be an integer"},
        {R"({"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,0]})",
         "shape has 18446744073709551616, must be an integer"},
        {R"({"dtype":"U8","shape":[1,1,1,1,8],"data_offsets":[0,8]})",
         "shape has 5 dimensions, at most 4 are supported"},
        {R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]})",
         "shape [4294967296, 4294967296] is impossibly large"},
        {R"({"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]})",
         "shape [2305843009213693952] of F64 does not fit data_offsets of 0 bytes"},
        {R"({"dtype":"U8","shape":[8]})", "data_offsets must be an array"},
        {R"({"dtype":"U8","shape":[8],"data_offsets":[0]})", "data_offsets must be [begin, end]"},
        {R"({"dtype":"U8","shape":[8],"data_offsets":[0,4,8]})",
         "data_offsets must be [begin, end]"},
        {R"({"dtype":"U8","shape":[8],"data_offsets":[null,8]})", "data_offsets has null"},
        {R"({"dtype":"U8","shape":[8],"data_offsets":[-1,7]})", "data_offsets has -1"},
        {R"({"dtype":"U8","shape":[8],"data_offsets":[0,18446744073709551624]})",
         "data_offsets has 18446744073709551624"},
        {R"({"dtype":"U8","shape":[8],"data_offsets":[8,0]})",
         "data_offsets [8, 0] lie outside the 8 bytes of data in the file"},
        {R"({"dtype":"U8","shape":[8],"data_offsets":[1,9]})",
         "data_offsets [1, 9] lie outside the 8 bytes of data in the file"},
        {R"({"dtype":"U8","shape":[8],"data_offsets":[18446744073709551608,18446744073709551615]})",
         "data_offsets [18446744073709551608, 18446744073709551615] lie outside the 8 bytes"},
        {R"({"dtype":"U8","shape":[7],"data_offsets":[0,8]})",
         "shape [7] of U8 does not fit data_offsets of 8 bytes"},
        {R"({"dtype":"BF16","shape":[2,2,3],"data_offsets":[0,8]})",
         "shape [2, 2, 3] of BF16 does not fit data_offsets of 8 bytes"},
    };
    for (const Case &c : cases) {
        CAPTURE(c.entry);
        const Error error = error_of(dir, file_bytes(cat("{\"layers.1.w\":", c.entry, '}'), 8));
        CAPTURE(error.text);
        CHECK(error.status == KIMI_CORRUPT);
        CHECK(test::contains(error.text,
                             cat(dir.file("x.safetensors"), ": tensor layers.1.w: ", c.text)));
    }
}

TEST_CASE("safetensors: tensors that overlap are both named") {
    const test::TempDir dir;
    const std::string header = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                               R"("c":{"dtype":"U8","shape":[3],"data_offsets":[5,8]},)"
                               R"("b":{"dtype":"U8","shape":[3],"data_offsets":[3,6]}})";
    const Error error = error_of(dir, file_bytes(header, 8));
    CHECK(error.status == KIMI_CORRUPT);
    CHECK(error.text == dir.file("x.safetensors") + ": tensors a and b overlap");
}
