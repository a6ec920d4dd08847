#!/bin/sh
# A client prints what kimi-chat prints for the same options, and ends with the same status.
# Usage: same_reply.sh KIMI_CHAT CLIENT DEPLOYMENT
set -eu
chat=$1 client=$2 deployment=$3
tools=$(dirname "$0")/../../examples/tools.json
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# What a program prints, its exit status, and the numbers of --stats without the times. How many tokens are
# drafted depends on measured times where --draft leaves it open.
reply() {
    status=0
    "$@" >"$dir/out" 2>"$dir/err" || status=$?
    cat "$dir/out"
    echo "status $status"
    sed -nE 's/("[a-z_]+_(per_s|ms)": ?)[0-9.e-]+/\1T/gp' "$dir/err" | tr -d ' '
}

check() {
    reply "$chat" --deployment "$deployment" "$@" >"$dir/expected"
    reply "$client" --deployment "$deployment" "$@" >"$dir/got"
    diff "$dir/expected" "$dir/got" || { echo "kimi-chat (<) and the client (>) differ: $*"; exit 1; }
    cases=$((cases + 1))
}

cases=0
mkdir "$dir/files"
cd "$dir/files"
touch lantern.txt old-lantern.md rope.c
check --prompt 'Find files about lantern.' --tools "$tools" --temperature 0 --stats --draft 4 --seed 1
grep -q '^I found ' "$dir/got"
grep -q '"finish_reason":"tool_calls"' "$dir/got"
check --prompt 'Use the tool to compute 951 + 750.' --tools "$tools" --instant --temperature 0 --stats --draft 0 --seed 2
grep -q '^The result is ' "$dir/got"
check --prompt 'Find files about lantern.' --tools "$tools" --seed 5 --stats --draft 0
check --prompt 'Hello!' --tools missing.json
grep -q '^status 1$' "$dir/got"
check --prompt 'Good morning.' --temperature 0
grep -q '^Good morning! How can I help you?$' "$dir/got"
check --prompt 'Tell me a story about Mia and a rope.' --seed 11 --stats --draft 0
check --prompt 'Tell me a story about Mia and a rope.' --seed 11 --draft auto
check --prompt 'Tell me a story about Mia and a rope.' --seed 12 --draft 8 --instant
check --prompt 'Hello!' --seed 5 --temperature 1.5 --top-p 0.8
check --system 'Answer briefly.' --prompt 'Quotes " and \ and
a new line, Grüße, 日本' --temperature 0 --instant
check --prompt 'Count from 1 to 12.' --temperature 0 --instant --max-tokens 3
grep -q '^status 3$' "$dir/got"
check --raw-tokens 1,2,3 --temperature 0 --max-tokens 20 --draft 4 --stats --seed 1
check --raw-tokens 1,2,99999
grep -q '^status 1$' "$dir/got"
for mistake in '--draft 64' '--temperature -1' '--top-p 1.1' '--max-tokens x' '--raw-tokens 1,' '--seed' '--no'; do
    check --prompt 'Hello!' $mistake
    grep -q '^status 2$' "$dir/got"
done
check --prompt "$(printf '\377')"
grep -q '^status 2$' "$dir/got"
check --deployment missing.json --prompt 'Hello!'
grep -q '^status 1$' "$dir/got"
echo "$cases replies are the same"
