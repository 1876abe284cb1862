#!/bin/sh
# Records anew what `vmwright lint` finds in tests/lint/cases/*/bad. Look at the difference before committing it.
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet
for case in tests/lint/cases/*/bad; do
    source=$(cd "$case" && for name in inventory hosts.yml hosts.ini; do [ -e "$name" ] && echo "$name" && break; done)
    (cd "$case" && ../../../../../target/debug/vmwright lint -i "$source" --output json) > "$case/../expected.json" || true
done
