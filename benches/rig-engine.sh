#!/bin/sh
# Runs vmwright as one client of a provisioning benchmark that speaks through environment variables RIG_*:
#   RIG_INVENTORY       an inventory with hosts, vms_* and global_* variables
#   RIG_API_CA          the certificate that signed the API's
#   RIG_SSH_KEY         the private key that logs in to the guests as root
#   RIG_NODES_ROOT      the nodes' disks, as mounted here: <node>/var/lib/vz/snippets is a snippet folder
#   RIG_WORK            scratch of this client
#   RIG_DNS             1: publish names in the Pi-hole
# What that inventory does not say is added by a second one, as docs/performance.md tells.
# VMWRIGHT_BIN names the binary; without it, the release build beside this script, else the one on the PATH.
set -eu

here=$(dirname "$(readlink -f "$0")")
binary=${VMWRIGHT_BIN:-$here/../target/release/vmwright}
[ -x "$binary" ] || binary=vmwright

site=$RIG_WORK/vmwright
mkdir -p "$site"
dns=none
[ "${RIG_DNS:-0}" = 1 ] && dns=pihole

cat > "$site/additions.yml" <<END
all:
  vars:
    global_proxmox_api_fingerprint: "$(openssl x509 -in "$RIG_API_CA" -noout -fingerprint -sha256 | cut -d= -f2)"
    vms_assume_full_visibility: true
    vms_snippets_path: "$RIG_NODES_ROOT/{{ vms_proxmox_node }}/var/lib/vz/snippets"
    vms_keep_snippets: true
    vms_dns: $dns
    ansible_user: root
    ansible_ssh_private_key_file: $RIG_SSH_KEY
    vms_authorized_keys: ["$(cat "$RIG_SSH_KEY.pub")"]
END

exec "$binary" provision -i "$RIG_INVENTORY" -i "$site/additions.yml" \
    --state-dir "$site/state" --known-hosts "$RIG_WORK/known_hosts" \
    --forks 50 --clone-limit-per-storage unlimited --migrate-limit-per-node unlimited "$@"
