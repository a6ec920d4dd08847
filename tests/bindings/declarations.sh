#!/bin/sh
# The Rust crate kimi-sys declares the functions of the header (which are those of libkimi.so, see
# ../capi/symbol_gate.sh), and the Rust and Go packages call every one of them.
# Usage: declarations.sh SOURCE_DIR
set -eu
source=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

grep -v '^#define' "$source/include/kimi/kimi.h" | grep -oE '\bkimi_[a-z_]+\(' | tr -d '(' | sort -u >header
sed -n 's/^ *pub fn \(kimi_[a-z_]*\).*/\1/p' "$source/examples/rust/kimi-sys/src/lib.rs" | sort >kimi-sys
calls() { grep -ohE '\bkimi_[a-z_]+' "$@" | sort -u | comm -12 header -; }
calls "$source"/examples/rust/kimi/src/*.rs >rust
calls "$source"/examples/go/*.go >go

for list in kimi-sys rust go; do
    diff header $list || { echo "the header's functions (<) and those in $list (>) differ"; exit 1; }
done
