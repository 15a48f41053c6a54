#!/usr/bin/env bash
# Compiles bpf/<probe>/<probe>.bpf.c into the objects that are checked in beside their sources, or into the folder given.
# The same compiler makes the same bytes: no paths, no line tables, only the type information that the loader needs.
# Compressed, since type information takes ten times the space otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."
into=${1:-}

for source in bpf/*/*.bpf.c; do
    object=${source%.c}.o
    if [ -n "$into" ]; then
        object=$into/$(basename "$object")
    fi
    clang-14 -target bpf -mcpu=v3 -mlittle-endian -O2 -g -Wall -Wextra -Wno-unused-parameter -Werror -Ibpf \
        -ffile-prefix-map="$PWD"=. -fdebug-prefix-map="$PWD"=. -c "$source" -o "$object"
    llvm-strip-14 --strip-debug "$object"
    zstd --quiet --force --rm -19 "$object"
done
