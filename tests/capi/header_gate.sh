#!/bin/sh
# The public header compiles alone, twice in a row, as every C and C++ that embedders use, without a warning,
# and has the numbers of layout.c.
# Usage: header_gate.sh INCLUDE_DIR
set -eu
include=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
printf '#include <kimi/kimi.h>\n#include <kimi/kimi.h>\nint main(void) { return 0; }\n' >"$dir/once.c"
cp "$dir/once.c" "$dir/once.cpp"
warn="-Wall -Wextra -Wpedantic -Wconversion -Wundef -Werror"
for cc in gcc clang; do
    for std in c99 c11 c17; do
        $cc -std=$std $warn -Wstrict-prototypes -Wc++-compat -I"$include" -fsyntax-only "$dir/once.c"
    done
    for std in c++11 c++17 c++20; do
        $cc -x c++ -std=$std $warn -I"$include" -fsyntax-only "$dir/once.cpp"
    done
    $cc -std=c11 $warn -I"$include" -fsyntax-only "$(dirname "$0")/layout.c"
done
