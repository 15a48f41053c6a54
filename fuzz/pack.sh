#!/usr/bin/env bash
# Packs fuzz/target/seeds/TARGET, where run.sh unpacked it, as the new corpus of each TARGET. The same seeds give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."

for target in "${@:?which targets?}"; do
    tar --sort=name --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
        -C fuzz/target/seeds -cf - "$target" | zstd -q -f -19 -o "fuzz/corpus/$target.tar.zst"
done
