#!/usr/bin/env bash
# Everything that has to hold before a change lands: set-up, format, lints, documentation, licences, all tests.
#
# A test that lacks something it needs prints a line that begins with `SKIPPED:`. Such lines are listed at the end; in
# continuous integration (CI or VMWRIGHT_CI set) they fail the run.
set -euo pipefail
cd "$(dirname "$0")"
scripts/setup test

export PATH="$PWD/target/tools/bin:$PATH"

step() { printf '\n== %s\n' "$*" >&2; "$@"; }
step cargo fmt --check
step cargo clippy --locked --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" step cargo doc --locked --no-deps
if cargo deny --version >/dev/null 2>&1; then
    step cargo deny check bans licenses sources
else
    echo "cargo-deny is not installed: bans, licences and sources are not checked" >&2
fi

log=target/test.log
# Output of tests that passed goes to the log only; what a failed test printed is shown.
failed=0
step cargo test --locked --no-fail-fast -- --show-output | tee "$log" |
    awk '/^successes:$/ { hidden = 1 } /^(failures:|test result:)/ { hidden = 0 } !hidden' || failed=1

skipped=$(grep -h '^SKIPPED:' "$log" | sort | uniq -c || true)
if [ -n "$skipped" ]; then
    printf '\nSkipped for want of something:\n%s\n' "$skipped"
    if [ -n "${CI:-}${VMWRIGHT_CI:-}" ]; then
        echo "a skipped test fails this run"
        failed=1
    fi
fi
printf '\n'
grep '^test result:' "$log" || { echo "no test ran"; failed=1; }
exit "$failed"
