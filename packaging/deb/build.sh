#!/usr/bin/env bash
# Makes the Debian package from a program that is already built: build.sh PROGRAM FOLDER
# The same program and the same SOURCE_DATE_EPOCH (default: the last commit) give the same bytes.
# Optional: DEBFULLNAME and DEBEMAIL (the maintainer), DEB_REVISION, DEB_COMPRESSION (xz).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
program=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct 2>/dev/null || stat -c %Y "$top/CHANGELOG.md")}
version=$("$program" --version | cut -d' ' -f2)
# As Ubuntu does: a package of Debian itself would be newer.
revision=${DEB_REVISION:-0latscope1}
architecture=$(dpkg --print-architecture)
# Whoever makes a package maintains it, by the variables of Debian's own tools.
maintainer="${DEBFULLNAME:-latscope developers} <${DEBEMAIL:-developers@latscope.invalid}>"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
umask 022

put() { install -D -m "${3:-644}" "$1" "$root/$2"; }
packed() { # FILE TARGET: as Debian wants texts, without a name and a time
    mkdir -p "$root/$(dirname "$2")"
    gzip -9nc "$1" >"$root/$2"
}

strip --strip-all --remove-section=.comment -o "$work/latscope" "$program"
put "$work/latscope" usr/bin/latscope 755
put "$top/packaging/latscope-agent.service" usr/lib/systemd/system/latscope-agent.service
put "$top/packaging/latscope-hub.service" usr/lib/systemd/system/latscope-hub.service
put "$top/packaging/agent.toml" usr/share/doc/latscope/examples/agent.toml
put "$top/packaging/hub.toml" usr/share/doc/latscope/examples/hub.toml
put "$here/copyright" usr/share/doc/latscope/copyright

"$program" man "$work/man1"
for page in "$work/man1"/*; do packed "$page" "usr/share/man/man1/$(basename "$page").gz"; done
mkdir -p "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" "$root/usr/share/fish/vendor_completions.d"
"$program" completions bash >"$root/usr/share/bash-completion/completions/latscope"
"$program" completions zsh >"$root/usr/share/zsh/vendor-completions/_latscope"
"$program" completions fish >"$root/usr/share/fish/vendor_completions.d/latscope.fish"

packed "$top/CHANGELOG.md" usr/share/doc/latscope/changelog.gz
cat >"$work/changelog" <<END
latscope ($version-$revision) unstable; urgency=medium

  * Version $version; the upstream changelog lists the changes.

 -- $maintainer  $(LC_ALL=C date -u -d "@$SOURCE_DATE_EPOCH" -R)
END
packed "$work/changelog" usr/share/doc/latscope/changelog.Debian.gz

mkdir -p "$work/debian" "$root/DEBIAN"
printf 'Source: latscope\n\nPackage: latscope\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O "$root/usr/bin/latscope" 2>"$work/shlibdeps.log" | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || { cat "$work/shlibdeps.log" >&2; exit 1; }
cat >"$root/DEBIAN/control" <<END
Package: latscope
Version: $version-$revision
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size "$root/usr" | cut -f1)
Depends: $depends
Suggests: fio, linux-perf
Section: utils
Priority: optional
Description: makes I/O latency visible
 latscope shows when I/O was slow, how slow it was, and what was slow. It
 captures block requests, system calls and call stacks live with eBPF, or reads
 the traces and logs of perf, blktrace, ftrace, strace, sysdig, fio, ioping,
 Spark and others, and draws the whole latency distribution over time.
END
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
find "$root" -print0 | xargs -0 touch -h -d "@$SOURCE_DATE_EPOCH"
deb=$out/latscope_$version-${revision}_$architecture.deb
dpkg-deb --root-owner-group -Z"${DEB_COMPRESSION:-xz}" --build "$root" "$deb" >/dev/null
echo "$deb"
