#!/bin/sh
# Records anew what ansible-inventory prints in its other shapes for the inventories of cases/. Needs ansible-core 2.19
# (see refresh.sh) and, for TOML, the Python library tomli-w beside it; without that, TOML is left as it is.
#   PATH="$PWD/venv/bin:$PATH" tests/inventory/refresh_outputs.sh [case ..]
# outputs/<case>/ gets graph.txt, vars.txt (--graph --vars), tree.yml (--list --yaml), export.json, export.yml,
# tables.json (--list --toml, read back) and, where a file `limit` holds a pattern, limit.json and limit.yml.
set -eu
cd "$(dirname "$0")"
outputs=$PWD/outputs
ansible-inventory --version | grep "core 2\.19" >/dev/null || {
    echo "refresh_outputs.sh: ansible-core 2.19 is needed" >&2
    exit 1
}
unset ANSIBLE_CONFIG
export ANSIBLE_DEPRECATION_WARNINGS=0 ANSIBLE_LOCALHOST_WARNING=0
for case in ${*:-$(ls "$outputs")}; do
    [ -d "$outputs/$case" ] || continue
    (
        cd "cases/$case"
        set --
        if [ -f cmd ]; then
            while IFS= read -r argument; do set -- "$@" "$argument"; done <cmd
        elif [ -f hosts.yml ]; then
            set -- -i hosts.yml
        else
            set -- -i hosts.ini
        fi
        to=$outputs/$case
        ask() {
            file=$1
            shift
            ansible-inventory "$@" >"$to/$file" 2>"/tmp/refresh_outputs.err" || {
                echo "refresh_outputs.sh: $case: $file failed" >&2
                cat "/tmp/refresh_outputs.err" >&2
                exit 1
            }
        }
        ask graph.txt "$@" --graph
        ask vars.txt "$@" --graph --vars
        ask tree.yml "$@" --list --yaml
        ask export.json "$@" --list --export
        ask export.yml "$@" --list --yaml --export
        if [ -f "$to/limit" ]; then
            ask limit.json "$@" --list --limit "$(cat "$to/limit")"
            ask limit.yml "$@" --list --yaml --limit "$(cat "$to/limit")"
        fi
        if [ ! -f "$to/no-toml" ] && python3 -c 'import tomli_w' 2>/dev/null; then
            ask tables.toml "$@" --list --toml
            python3 -c 'import json, sys, tomllib
with open(sys.argv[1] + "/tables.toml", "rb") as file: data = tomllib.load(file)
with open(sys.argv[1] + "/tables.json", "w") as file: json.dump(data, file, indent=1, sort_keys=True, default=str)' "$to"
            rm "$to/tables.toml"
        fi
    ) || failed=1
done
exit "${failed:-0}"
