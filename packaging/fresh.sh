# A fresh Debian of this machine's release, for scripts that source this: `fresh_debian PACKAGES` makes it in $fresh, `inside` runs a command there.
# Without root, debootstrap, a mirror or the right to mount, the script ends and gives the reason.

skip() { echo "skipped: $1"; exit 0; }
[ "$(id -u)" -eq 0 ] || skip "a fresh Debian can only be made by root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
# In a mount namespace of its own a script leaves no mount behind, however it ends.
if [ -z "${LATSCOPE_MOUNTS:-}" ]; then
    unshare --mount true 2>/dev/null || skip "this machine does not allow mounts"
    LATSCOPE_MOUNTS=own exec unshare --mount "$0" "$@"
fi

fresh_debian() { # PACKAGES, with commas. What debootstrap has made is kept in target/debootstrap for the next time.
    local suite mirror kept log place
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
    mirror=$(sed -nE 's/^(URIs:|deb( \[[^]]*\])?) *(https?:[^ ]+).*/\3/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1 || true)
    kept=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/target/debootstrap/$suite-${1//,/-}.tar
    fresh=$(mktemp -d)
    chmod 755 "$fresh"
    trap 'umount -R -l "$fresh"/proc "$fresh"/sys 2>/dev/null; rm -rf --one-file-system "$fresh"' EXIT
    if [ -e "$kept" ]; then
        tar -C "$fresh" -xf "$kept"
    else
        mkdir -p "${kept%/*}"
        log=$(mktemp)
        debootstrap --variant=minbase --include="$1" "$suite" "$fresh" "${mirror:-http://deb.debian.org/debian}" >"$log" 2>&1 ||
            { tail -n 3 "$log" >&2; rm -f "$log"; skip "debootstrap has made no Debian; its last lines are above"; }
        rm -f "$log"
        rm -rf "$fresh"/var/cache/apt/archives/*.deb "$fresh"/var/lib/apt/lists/*
        tar -C "$fresh" -cf "$kept.$$" . && mv "$kept.$$" "$kept"
    fi
    for place in proc sys; do
        mount --rbind "/$place" "$fresh/$place"
    done
}

inside() { chroot "$fresh" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LC_ALL=C.UTF-8 "$@"; }
