#!/usr/bin/env bash
# Installs the Debian packages named, if they are missing. `rust` stands for a Rust toolchain of any origin.
set -euo pipefail

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

# A rustup-managed toolchain may not be on the path of a non-login shell.
if [ -f "$HOME/.cargo/env" ]; then . "$HOME/.cargo/env"; fi

missing=()
for package in "$@"; do
    case $package in
        rust) command -v cargo >/dev/null || missing+=(cargo rustc rust-clippy rustfmt) ;;
        python3-venv) python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv) ;;
        python3-pip) python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip) ;;
        gcc) command -v cc >/dev/null || missing+=(gcc libc6-dev) ;;
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
apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
