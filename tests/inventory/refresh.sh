#!/bin/sh
# Records anew what ansible-inventory answers for every case. Needs ansible-core 2.19:
#   python3 -m venv venv && venv/bin/pip install 'ansible-core==2.19.*'
#   PATH="$PWD/venv/bin:$PATH" tests/inventory/refresh.sh [case ..]
# A case is a directory with an inventory; the file `cmd` holds the arguments, one a line
# (without it: -i hosts.ini or -i hosts.yml). The answer goes to list.json.
set -eu
cd "$(dirname "$0")/cases"
ansible-inventory --version | grep "core 2\.19" >/dev/null || {
    echo "refresh.sh: ansible-core 2.19 is needed" >&2
    exit 1
}
unset ANSIBLE_CONFIG
export ANSIBLE_DEPRECATION_WARNINGS=0 ANSIBLE_LOCALHOST_WARNING=0
for case in ${*:-*}; do
    (
        cd "$case"
        set --
        if [ -f cmd ]; then
            while IFS= read -r argument; do set -- "$@" "$argument"; done <cmd
        elif [ -f hosts.yml ]; then
            set -- -i hosts.yml
        else
            set -- -i hosts.ini
        fi
        case " $* " in *" --host "*) ;; *) set -- --list "$@" ;; esac
        rm -f list.json
        ansible-inventory "$@" >list.json 2>/tmp/refresh.err || {
            echo "refresh.sh: $case failed" >&2
            cat /tmp/refresh.err >&2
            exit 1
        }
        if grep -q 'Unable to parse' /tmp/refresh.err; then
            echo "refresh.sh: $case: not parsed" >&2
            grep -A6 'Failed to parse' /tmp/refresh.err >&2
            exit 1
        fi
    ) || failed=1
done
exit "${failed:-0}"
