#!/usr/bin/env bash
# The main job on the embedded cluster: set-up, build, and `vmwright demo` with the arguments given here.
set -euo pipefail
cd "$(dirname "$0")"
scripts/setup demo
exec cargo run --locked --quiet -- demo "$@"
