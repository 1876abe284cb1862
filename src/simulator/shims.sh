#!/bin/sh
# The commands of a simulated machine that must not be the host's. One script, called by many names (links); it reads and
# writes only below $SIM_ROOT and speaks to the simulator through the pipe $SIM_CTL.
name=${0##*/}
sim="$SIM_ROOT/.sim"
missing() { echo "sh: 1: $name: not found" >&2; exit 127; }
ask() { echo "$SIM_WHO $1" > "$SIM_CTL"; }
privileged() {
    [ "$SIM_USER" = root ] && return 0
    echo "$name: Operation not permitted" >&2
    exit 1
}
show() { [ -e "$1" ] && cat "$1"; }
# One section of a file of sections: what follows a line "@name".
section() { sed -n "/^@$2\$/,/^@/{/^@/d;p;}" "$1"; }
status() { section "$sim/cloud-init" "$1"; }

cloud_init() {
    [ -e "$sim/cloud-init" ] || missing
    case "$1" in
    status) shift ;;
    clean) privileged; ask clean; exit 0 ;;
    --version | -v) echo "/usr/bin/cloud-init $(status version)"; exit 0 ;;
    *) exit 0 ;;
    esac
    form=text wait=
    while [ $# -gt 0 ]; do
        case "$1" in
        --format=json | --format=yaml) form=json ;;
        --format) shift; [ "$1" = tabular ] || form=json ;;
        --long | -l) form=long ;;
        --wait | -w) wait=1 ;;
        esac
        shift
    done
    if [ -n "$wait" ]; then
        [ "$(status version)" = 25.1.4 ] || echo
        while [ "$(status over 2>/dev/null)" = no ]; do sleep 0.1; done
    fi
    status "$form"
    exit "$(status exit)"
}

run_as_root() {
    while [ $# -gt 0 ]; do
        case "$1" in
        -n | --non-interactive | -H | -E | -S | -i | -b) shift ;;
        -u | -g) shift 2 ;;
        -V) echo "Sudo version 1.9.13p3"; exit 0 ;;
        -v | -k | -K) listing=1; shift ;;
        -l) listing=1; shift ;;
        --) shift; break ;;
        *=*) export "$1"; shift ;;
        *) break ;;
        esac
    done
    if [ "$SIM_SUDO" != 1 ]; then
        echo "sudo: a password is required" >&2
        exit 1
    fi
    [ -n "$listing" ] && exit 0
    export SUDO_USER="$SIM_USER" SIM_USER=root USER=root LOGNAME=root HOME="$SIM_ROOT/root"
    [ $# -gt 0 ] || exit 1
    command -v "$1" > /dev/null 2>&1 || { echo "sudo: $1: command not found" >&2; exit 1; }
    exec "$@"
}

print_ip() {
    form=full family= object=
    for word; do
        case "$word" in
        -j | -json | --json) form=json ;;
        -o | -oneline) form=oneline ;;
        -br | -brief) form=brief ;;
        -4) family=4 ;;
        -6) family=6 ;;
        -f | -family) ;;
        inet) family=4 ;;
        inet6) family=6 ;;
        a | addr | address) object=address ;;
        r | ro | route) object=route ;;
        esac
    done
    case "$object" in
    address) section "$sim/ip" "$form$family" ;;
    route) section "$sim/ip" route ;;
    *) exit 0 ;;
    esac
}

# install without the owner, which only root could give.
install_file() {
    for word; do
        shift
        case "$word" in
        -o | -g | --owner | --group) skip=1; continue ;;
        --owner=* | --group=*) continue ;;
        esac
        [ -n "$skip" ] && { skip=; continue; }
        set -- "$@" "$word"
    done
    exec /usr/bin/install "$@"
}

case "$name" in
cloud-init) cloud_init "$@" ;;
cloud-id) echo nocloud ;;
sudo) run_as_root "$@" ;;
reboot) privileged; ask reboot ;;
poweroff | halt) privileged; ask poweroff ;;
shutdown)
    privileged
    case " $* " in *" -r "* | *" --reboot "*) ask reboot ;; *" -c "*) ;; *) ask poweroff ;; esac
    ;;
systemctl)
    case " $* " in
    *" reboot "*) privileged; ask reboot ;;
    *" poweroff "* | *" halt "*) privileged; ask poweroff ;;
    *" is-system-running "*)
        if [ -e "$sim/cloud-init" ] && [ "$(status over)" = no ]; then echo starting; exit 1; fi
        echo running
        ;;
    *" is-active "*) echo active ;;
    *" is-enabled "*) echo enabled ;;
    esac
    ;;
hostname)
    case "$1" in
    "" | -s | --short) show "$SIM_ROOT/proc/sys/kernel/hostname" ;;
    -f | --fqdn | --long) show "$sim/fqdn" ;;
    -d) sed 's/^[^.]*\.*//' "$sim/fqdn" ;;
    -I) section "$sim/ip" oneline | awk '$2 != "lo" { split($4, a, "/"); printf "%s ", a[1] } END { print "" }' ;;
    esac
    ;;
hostnamectl) echo "Static hostname: $(show "$SIM_ROOT/proc/sys/kernel/hostname")" ;;
uname)
    case "$1" in -n | --nodename) show "$SIM_ROOT/proc/sys/kernel/hostname" ;; *) exec /usr/bin/uname "$@" ;; esac
    ;;
whoami) echo "$SIM_USER" ;;
id)
    uid=0
    [ "$SIM_USER" = root ] || uid=$(awk -F: -v u="$SIM_USER" '$1 == u { print $3 }' "$SIM_ROOT/etc/passwd")
    case "$1" in
    -u) echo "$uid" ;;
    -un | -gn | -nu) echo "$SIM_USER" ;;
    -g) echo "$uid" ;;
    *) echo "uid=$uid($SIM_USER) gid=$uid($SIM_USER) groups=$uid($SIM_USER)" ;;
    esac
    ;;
ip) print_ip "$@" ;;
timedatectl)
    case "$1" in
    set-timezone) privileged; echo "$2" > "$SIM_ROOT/etc/timezone" ;;
    show) echo "Timezone=$(show "$SIM_ROOT/etc/timezone")"; echo "NTPSynchronized=yes" ;;
    *) echo "                Time zone: $(show "$SIM_ROOT/etc/timezone")" ;;
    esac
    ;;
install) install_file "$@" ;;
dpkg-query | dpkg) show "$sim/packages" ;;
getent)
    case "$1" in
    passwd) if [ -n "$2" ]; then grep "^$2:" "$SIM_ROOT/etc/passwd"; else show "$SIM_ROOT/etc/passwd"; fi ;;
    hosts) grep -w -- "$2" "$SIM_ROOT/etc/hosts" ;;
    esac
    ;;
python3 | python)
    case " $SIM_FLAGS " in *" no-python "*) missing ;; esac
    [ -x "/usr/bin/$name" ] || missing
    exec "/usr/bin/$name" "$@"
    ;;
pveversion) echo "pve-manager/9.0.0/simulated (running kernel: 6.14.0-pve)" ;;
# Nothing to do, or nothing that may be done to the host.
*) exit 0 ;;
esac
