#include "base/atomic_file.h"

#include <sys/stat.h>

#include "check.h"

using namespace kimi;

TEST_CASE("atomic file: it appears whole, with the mode that the umask leaves") {
    const test::TempDir dir;
    const std::string path = dir.write("a", "old");
    const mode_t mask = umask(027);
    {
        AtomicFile file(path);
        file.write("new", 3);
        CHECK(read_file(path, 10) == "old");
        file.commit();
    }
    umask(mask);
    CHECK(read_file(path, 10) == "new");
    struct stat status {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0640);
}

TEST_CASE("atomic file: without a commit nothing is left") {
    const test::TempDir dir;
    {
        AtomicFile one(dir.file("a")), two(dir.file("a"));
        one.write("x", 1);
        two.write("y", 1);
    }
    CHECK(std::filesystem::is_empty(dir.path()));
    CHECK(test::error_of([&] { AtomicFile file(dir.file("none/a")); }).status == KIMI_NOT_FOUND);
}
