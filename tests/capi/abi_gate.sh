#!/bin/sh
# Programs compiled against kimi.abi keep working: functions may be added, and nothing else changes. The
# compiler holds the library to the header, and symbol_gate.sh the list of functions, so what is compared
# is the header's C, without the C++ inside. layout.c has the constants.
# Usage: abi_gate.sh [--renew]
#   --renew: the header becomes the baseline; after a struct has grown at its end, or a new soname.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

sed 's/ KIMI_NOEXCEPT;/ { __builtin_trap(); }/' "$here/../../include/kimi/kimi.h" >kimi.c
cc -std=c99 -g -fdebug-prefix-map="$dir=." -shared -fPIC kimi.c -o libkimi.so
case $* in
    '')
        abidiff --no-added-syms "$here/kimi.abi" libkimi.so || {
            echo "the header breaks programs, or tests/capi/abi_gate.sh --renew is due"
            exit 1
        }
        ;;
    --renew)
        abidw --no-comp-dir-path --no-corpus-path --no-show-locs --type-id-style hash \
            --out-file "$here/kimi.abi" libkimi.so
        ;;
    *)
        echo "usage: abi_gate.sh [--renew]" >&2
        exit 2
        ;;
esac
