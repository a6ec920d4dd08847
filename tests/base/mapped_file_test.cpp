#include "base/mapped_file.h"

#include "check.h"

using namespace kimi;

TEST_CASE("mapped file: bytes and path") {
    const test::TempDir dir;
    const MappedFile file(dir.write("a", "hello"));
    CHECK(file.bytes().size() == 5);
    CHECK(static_cast<char>(file.bytes()[4]) == 'o');
    CHECK(MappedFile(dir.write("empty", "")).bytes().empty());
}

TEST_CASE("mapped file: what cannot be read is a status that names the path") {
    const test::TempDir dir;
    const Error missing = test::error_of([&] { MappedFile f(dir.file("nothing")); });
    CHECK(missing.status == KIMI_NOT_FOUND);
    CHECK(test::contains(missing.text, dir.file("nothing")));
    CHECK(test::error_of([&] { MappedFile f(dir.path()); }).status == KIMI_IO);
    CHECK(test::error_of([&] { read_file(dir.write("big", "123456"), 5); }).status == KIMI_CORRUPT);
}
