#!/bin/sh
# Records anew what Ansible answers for every case, or for those named: list.json (`ansible-inventory --list`), hosts.json
# (`--host` of every host) and, where there is one, the table patterns.json (`ansible PATTERN --list-hosts`, `--limit`).
# Needs ansible-core 2.19, which `scripts/setup test` puts below target/tools:
#   tests/inventory/refresh.sh [case ..]
# A case is a directory with an inventory; the file `cmd` holds the arguments, one a line (without it: -i with
# hosts.yml, hosts.toml or hosts.ini, the first that exists).
set -eu
cd "$(dirname "$0")"
PATH="$PWD/../../target/tools/ansible/bin:$PATH"
program=$(command -v ansible-inventory) || program=
"${program:-false}" --version 2>/dev/null | grep "core 2\.19" >/dev/null || {
    echo "refresh.sh: ansible-core 2.19 is needed" >&2
    exit 1
}
# The interpreter that its first line names has the modules.
python=$(sed -n '1s/^#! *//p' "$program")
exec "$python" oracle.py record "$@"
