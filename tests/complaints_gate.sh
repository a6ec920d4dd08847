#!/bin/sh
# The tests and files that README.md names exist.
# Usage: complaints_gate.sh TESTS_DIR
set -eu
cd "$1"
missing=$(
    grep -oE '`[a-z0-9 ]+: [^`]+`' README.md | tr -d '`' | while read -r name; do
        grep -rqF --include='*.cpp' "\"$name\"" . || echo "test: $name"
    done
    grep -oE '`[a-z_]+\.(sh|c|rs)`' README.md | tr -d '`' | while read -r name; do
        [ -n "$(find . ../examples -name "$name")" ] || echo "file: $name"
    done
)
[ -z "$missing" ] || { echo "$missing"; exit 1; }
