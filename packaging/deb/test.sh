#!/usr/bin/env bash
# Installs the package into a fresh Debian and uses it there: test.sh PACKAGE TRACE
# Needs root and debootstrap; otherwise it says why it does nothing.
set -euo pipefail
package=$(realpath "$1")
trace=$(realpath "$2")
skip() { echo "skipped: $1"; exit 0; }
[ "$(id -u)" -eq 0 ] || skip "a fresh Debian can only be made by root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
mirror=$(sed -nE 's/^(URIs:|deb( \[[^]]*\])?) *(https?:[^ ]+).*/\3/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1 || true)
fresh=$(mktemp -d)
chmod 755 "$fresh"
mounted=()
finish() {
    for place in "${mounted[@]}"; do umount -R -l "$place" || true; done
    rm -rf --one-file-system "$fresh"
}
trap finish EXIT
debootstrap --variant=minbase --include=libelf1,zlib1g,man-db,groff-base "$suite" "$fresh" "${mirror:-http://deb.debian.org/debian}" \
    >"$package.debootstrap.log" 2>&1 || { tail -n 3 "$package.debootstrap.log" >&2; skip "debootstrap cannot reach a mirror"; }
for place in proc sys; do
    mount --rbind "/$place" "$fresh/$place"
    mount --make-rslave "$fresh/$place"
    mounted=("$fresh/$place" "${mounted[@]}")
done
inside() { chroot "$fresh" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LC_ALL=C.UTF-8 "$@"; }
cp "$package" "$fresh/latscope.deb"
cp "$trace" "$fresh/${trace##*/}"
inside dpkg -i /latscope.deb
inside latscope --version
inside latscope heatmap -r "/${trace##*/}" -o /latency.svg
grep -q '<svg' "$fresh/latency.svg"
inside latscope summary -r "/${trace##*/}"
inside latscope completions bash | inside bash -n
if inside latscope record -s block -w /t.lat --for 1s; then
    inside latscope summary -r /t.lat
else
    echo "skipped: this machine cannot capture live"
fi
inside dpkg --verify latscope
inside dpkg -P latscope
left=$(cd "$fresh" && find usr etc var -name '*latscope*' -not -path 'var/log/*')
[ -z "$left" ] || { echo "left behind: $left" >&2; exit 1; }
echo "passed: installed, used and removed in a fresh $suite"
