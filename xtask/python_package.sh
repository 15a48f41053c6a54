#!/usr/bin/env bash
# The Python package in a folder, laid together as a wheel does, with the native half that the workspace was built to.
# Usage: xtask/python_package.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf "$1" && mkdir -p "$1/latscope"
cp python/latscope/* "$1/latscope/" 2>/dev/null || true
ln -s "$PWD/target/release/liblatscope_native.so" "$1/latscope/_native.abi3.so"
