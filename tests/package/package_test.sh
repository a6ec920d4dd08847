#!/bin/sh
# What `meson install` gives is complete: C programs find, link and run the library through pkg-config
# and CMake, as a shared library and as an archive, and the programs have manual pages.
# Usage: package_test.sh SOURCE_DIR BUILD_DIR PREFIX LIBDIR
set -eu
source=$1 build=$2 prefix=$3 libdir=$4
stage=$build/tests/package
root=$stage/root
rm -rf "$stage"
mkdir -p "$stage"
cd "$stage"
meson install -C "$build" --no-rebuild --quiet --destdir "$root"
lib=$root$prefix/$libdir
export PKG_CONFIG_PATH="$lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root" LD_LIBRARY_PATH="$lib"

fail() {
    echo "$*"
    exit 1
}

answers() {
    "./$1" "$source/examples/models/nano-k2/deployment.json" >"$1.out"
    grep -q '^DFlash is a block diffusion drafter\.' "$1.out" || fail "$1 does not answer"
}
loads_library() { readelf -d "$1" | grep -q 'NEEDED.*\[libkimi\.so\.0\]'; }

[ -f "$root$prefix/include/kimi/kimi.h" ] || fail "no header"
readelf -d "$lib/libkimi.so" | grep -q 'SONAME.*\[libkimi\.so\.0\]' || fail "soname"
if nm -D --with-symbol-versions --defined-only "$lib/libkimi.so" | grep ' kimi_' | grep -v '@@KIMI_[0-9]'; then
    fail "functions without a version"
fi
if nm --extern-only --defined-only "$lib/libkimi.a" | awk 'NF == 3 {print $3}' | grep -v '^kimi_'; then
    fail "names in the archive that are not the interface's"
fi

cc -std=c99 "$source/examples/hello.c" -o shared $(pkg-config --cflags --libs kimi)
loads_library shared || fail "pkg-config does not give the shared library"
answers shared
cc -std=c99 -static "$source/examples/hello.c" -o static $(pkg-config --static --cflags --libs kimi)
answers static
version=$("$root$prefix/bin/kimi-chat" --version)
[ "$version" = "kimi-chat $(pkg-config --modversion kimi)" ] || fail "pkg-config gives another version"

if command -v cmake >/dev/null; then
    cmake -S "$source/tests/package" -B cmake -DHELLO="$source/examples/hello.c" \
        -Dkimi_DIR="$lib/cmake/kimi" >/dev/null
    cmake --build cmake >/dev/null
    loads_library cmake/cmake-shared || fail "kimi::kimi is not the shared library"
    answers cmake/cmake-shared
    if loads_library cmake/cmake-static; then fail "kimi::static is the shared library"; fi
    answers cmake/cmake-static
else
    echo "CMake is not installed: its package was not tested"
fi

# A manual page describes the options that --help lists, and no others. --help itself may go unsaid.
options() { grep -oE -e '--[a-z][a-z-]*' | grep -v '^--help$' | sort -u; }
for program in kimi-bench kimi-chat kimi-heatmap kimi-plan kimi-synth; do
    "$root$prefix/bin/$program" --help | sed 's/kimi-[a-z]* --[a-z]*//' | options >help
    sed 's/\\-/-/g' "$root$prefix/share/man/man1/$program.1" | grep -E '^\.BI? --' | options >page
    diff help page || fail "--help (<) and manual page (>) of $program differ"
done
