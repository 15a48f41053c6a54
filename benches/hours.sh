#!/usr/bin/env bash
# A long run under load: ten thousand short-lived processes and more, devices that come and go. As the test of the same
# name, for as long as asked: benches/hours.sh [SECONDS], half an hour when not given. As root.
set -euo pipefail
cd "$(dirname "$0")/.."
LATSCOPE_HOURS_SECONDS=${1:-1800} cargo test --release --workspace --locked --test system live::hours -- --nocapture
