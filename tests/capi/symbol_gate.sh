#!/bin/sh
# libkimi.so exports the functions of the header and nothing else, and imports nothing that prints, ends the
# process, installs handlers, or reads the environment.
# Usage: symbol_gate.sh LIBKIMI_SO KIMI_H
set -eu
lib=$1 header=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
grep -v '^#define' "$header" | grep -oE '\bkimi_[a-z_]+\(' | tr -d '(' | sort -u >"$dir/declared"
nm -D --defined-only "$lib" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | sort -u >"$dir/exported"
diff "$dir/declared" "$dir/exported" || { echo "header (<) and exports (>) differ"; exit 1; }
nm -D --undefined-only "$lib" | awk '{print $NF}' | sed 's/@.*//' | sort -u >"$dir/imported"
forbidden='^(abort|exit|_exit|quick_exit|_Exit|atexit|__assert_fail|__assert_rtn|printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|fputc|fwrite|perror|stdout|stderr|__printf_chk|__fprintf_chk|signal|sigaction|raise|kill|system|getenv|secure_getenv|setenv|setlocale|chdir|getcwd|fork|_ZSt4cout|_ZSt4cerr|_ZNSt8ios_base4InitC1Ev)$'
if grep -E "$forbidden" "$dir/imported"; then
    echo "forbidden imports of $lib"
    exit 1
fi
