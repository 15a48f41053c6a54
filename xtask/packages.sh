#!/usr/bin/env bash
# Installs the Debian packages named, if they are missing. `rust` stands for a Rust toolchain, of any origin but new enough.
set -euo pipefail

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

# A rustup-managed toolchain may not be on the path of a non-login shell.
if [ -f "$HOME/.cargo/env" ]; then . "$HOME/.cargo/env"; fi

# Debian 12's own Rust is too old for this code, but it keeps a newer one to build browsers with; Debian 13 has rustup.
rust_is_new_enough() {
    local version
    version=$(rustc --version 2>/dev/null | cut -d' ' -f2) || return 1
    [ -n "$version" ] && [ "$(printf '%s\n' 1.88 "$version" | sort -V | head -n 1)" = 1.88 ]
}

missing=()
for package in "$@"; do
    case $package in
        rust) rust_is_new_enough || missing+=(rust) ;;
        python3-venv) python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv) ;;
        python3-pip) python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip) ;;
        gcc) command -v cc >/dev/null || missing+=(gcc libc6-dev) ;;
        # Of any origin, as long as it is there.
        nodejs) command -v node >/dev/null || missing+=(nodejs) ;;
        npm) command -v npm >/dev/null || missing+=(npm) ;;
        linux-perf) command -v perf >/dev/null || missing+=(linux-perf) ;;
        *) installed "$package" || missing+=("$package") ;;
    esac
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "These packages are missing: ${missing[*]}. Without root they are not installed; what needs them says so and is skipped." >&2
    exit 0
fi
echo "Installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >&2
can_have() { apt-cache policy "$1" | grep -q 'Candidate: [0-9]'; }
packages=()
for package in "${missing[@]}"; do
    if [ "$package" != rust ]; then
        packages+=("$package")
    elif can_have rustup; then
        packages+=(rustup)
    elif can_have rustc-web; then
        packages+=(cargo-web rustc-web)
    else
        echo "Rust 1.88 or newer is needed and this Debian has none; install rustup by hand, then try again." >&2
        exit 3
    fi
done
# Servers that tests start by themselves must not run as services.
if [ ! -e /usr/sbin/policy-rc.d ]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
fi
apt-get install -y -qq --no-install-recommends "${packages[@]}" >&2
if [[ " ${packages[*]} " == *" rustup "* ]]; then
    rustup default stable >&2
fi
