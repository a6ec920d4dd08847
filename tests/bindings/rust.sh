#!/bin/sh
# Builds the Rust crates offline, runs their tests against the archive, and compares the client with
# kimi-chat.
# Usage: rust.sh SOURCE_DIR BUILD_DIR KIMI_CHAT
set -eu
source=$1 build=$2 chat=$3
if ! command -v cargo >/dev/null; then
    echo "SKIPPED: cargo is not installed; the Rust bindings were not tested"
    exit 77
fi
export CARGO_TARGET_DIR="$build/tests/bindings/rust"
export KIMI_TEST_DEPLOYMENT="$source/examples/models/nano-k2/deployment.json"
cd "$source/examples/rust"
PKG_CONFIG_PATH="$build/meson-uninstalled" cargo build --offline --locked --quiet
LD_LIBRARY_PATH="$build/capi" "$source/tests/bindings/same_reply.sh" \
    "$chat" "$CARGO_TARGET_DIR/debug/kimi-chat" "$KIMI_TEST_DEPLOYMENT"
KIMI_LIB_DIR="$build/capi" KIMI_STATIC=1 cargo test --offline --locked --quiet --target-dir "$CARGO_TARGET_DIR/static"
