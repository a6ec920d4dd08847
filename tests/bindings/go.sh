#!/bin/sh
# Builds the Go package, runs its tests, and compares the client with kimi-chat.
# Usage: go.sh SOURCE_DIR BUILD_DIR KIMI_CHAT
set -eu
source=$1 build=$2 chat=$3
if ! command -v go >/dev/null; then
    echo "SKIPPED: go is not installed; the Go bindings were not tested"
    exit 77
fi
export GOCACHE="$build/tests/bindings/go-cache" GOFLAGS=-buildvcs=false GOPROXY=off
export PKG_CONFIG_PATH="$build/meson-uninstalled" LD_LIBRARY_PATH="$build/capi"
# Go's cache does not know what the package is compiled and tested with.
export CGO_CFLAGS="-O2 -g -DKIMI_HEADER=$(cksum <"$source/include/kimi/kimi.h" | cut -d' ' -f1)"
export KIMI_TEST_DEPLOYMENT="$source/examples/models/nano-k2/deployment.json"
client=$build/tests/bindings/go-chat
cd "$source/examples/go"
go build -o "$client" ./chat
"$source/tests/bindings/same_reply.sh" "$chat" "$client" "$KIMI_TEST_DEPLOYMENT"
go test -count=1 .
