#!/bin/sh
# Puts objects and archives into one archive in which only the names kimi_* are global, as in libkimi.so.
# Usage: archive.sh ARCHIVE INPUT...
set -eu
archive=$1
shift
object=${archive%.a}.o
# Groups are resolved here: by their names, the linker would drop a program's own copies of C++ templates for
# ours, which are hidden.
ld -r --force-group-allocation -o "$object" --whole-archive "$@"
objcopy --wildcard --keep-global-symbol='kimi_*' "$object"
rm -f "$archive"
ar rcs "$archive" "$object"
rm "$object"
