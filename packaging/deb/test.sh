#!/usr/bin/env bash
# Installs the package into a fresh Debian, records and draws there, and removes it: test.sh PACKAGE TRACE
set -euo pipefail
. "$(dirname "$0")/../fresh.sh"
package=$(realpath "$1")
trace=$(realpath "$2")
fresh_debian libelf1,zlib1g
cp "$package" "$fresh/latscope.deb"
cp "$trace" "$fresh/${trace##*/}"
inside dpkg -i /latscope.deb
inside latscope --version
inside latscope heatmap -r "/${trace##*/}" -o /latency.svg
grep -q '<svg' "$fresh/latency.svg"
inside latscope summary -r "/${trace##*/}"
inside latscope completions bash | inside bash -n
# Writes that reach the disk one by one.
load=(dd if=/dev/zero of=/load bs=4k count=64 oflag=dsync status=none)
if inside latscope record -s block -w /t.lat -- "${load[@]}"; then
    inside latscope spectrogram -r /t.lat
    inside latscope heatmap -r /t.lat -o /live.svg
    inside latscope summary -r /t.lat
    events=$(inside latscope events -r /t.lat --json 'kind = write' | wc -l)
    disk=$(stat -f -c %T "$fresh")
    [ "$disk" = tmpfs ] || [ "$events" -ge 64 ] || { echo "of 64 writes to $disk, $events were recorded" >&2; exit 1; }
else
    echo "skipped: this machine cannot capture live"
fi
inside dpkg --verify latscope
inside dpkg -P latscope
left=$(cd "$fresh" && find usr etc var -name '*latscope*' -not -path 'var/log/*')
[ -z "$left" ] || { echo "left behind: $left" >&2; exit 1; }
echo "passed: installed, used and removed in a fresh Debian"
