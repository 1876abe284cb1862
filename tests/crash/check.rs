//! Checkers that are not the code under test: they look at the world, and name everything that is wrong in it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use vmwright::simulator::guest::keys;
use vmwright::simulator::spec::DEMO_SECRET;
use vmwright::simulator::ssh::Doors;
use vmwright::simulator::vm::Vm;

use crate::scene::{FOREIGN, HOST, KNOWN_BEFORE, NAME, NODES, Scene, foreign, mac, names, snippets};

/// What is wrong after a VM was provisioned.
pub fn provisioned(scene: &Scene) -> Vec<String> {
    let mut wrong = common(scene);
    let vm = scene.cluster.look(|world| {
        let ours: Vec<Vm> = world.vms.values().filter(|vm| vm.name() == NAME).cloned().collect();
        match ours.as_slice() {
            [one] => Some(one.clone()),
            several => {
                wrong.push(format!("{} VMs are called {NAME}", several.len()));
                None
            }
        }
    });
    if let Some(vm) = vm {
        hardware(&vm, scene, &mut wrong);
        guest(&vm, scene, &mut wrong);
        record(&vm, scene, &mut wrong);
        known_hosts(&vm, scene, &mut wrong);
    }
    let mut wanted = scene.records_before.clone();
    wanted.push(format!("{HOST}.test.example -> {}", scene.address));
    if scene.records != wanted {
        wrong.push(format!("DNS holds {:?}", scene.records));
    }
    wrong
}

/// What is wrong after a VM was removed.
pub fn removed(scene: &Scene) -> Vec<String> {
    let mut wrong = common(scene);
    scene.cluster.look(|world| {
        let left: Vec<u32> = world.vms.keys().filter(|id| !FOREIGN.contains(id)).copied().collect();
        if !left.is_empty() {
            wrong.push(format!("VMs are left: {left:?}"));
        }
        let left: Vec<&str> = world
            .volumes
            .iter()
            .filter(|volume| !FOREIGN.contains(&volume.vmid))
            .map(|volume| volume.volid.as_str())
            .collect();
        if !left.is_empty() {
            wrong.push(format!("volumes are left: {left:?}"));
        }
    });
    if scene.records != scene.records_before {
        wrong.push(format!("DNS holds {:?}", scene.records));
    }
    let records = names(&scene.state.join("records"));
    if !records.is_empty() {
        wrong.push(format!("records: {records:?}"));
    }
    let text = std::fs::read_to_string(&scene.known_hosts).unwrap_or_default();
    if !text.starts_with(KNOWN_BEFORE) || text.contains(HOST) || text.contains(&scene.address) {
        wrong.push(format!("known_hosts is\n{text}"));
    }
    wrong
}

/// What is wrong whatever was run: other people's things, locks, temporary files, secrets.
pub fn common(scene: &Scene) -> Vec<String> {
    let mut wrong = Vec::new();
    let now = foreign(&scene.cluster);
    if now != scene.foreign {
        wrong.push(format!(
            "other people's machines changed:\n{:?}\n{now:?}",
            scene.foreign
        ));
    }
    let guests = scene.cluster.look(|world| world.vms.len());
    if guests > 6 {
        wrong.push(format!(
            "there are {guests} VMs and templates: 5 are foreign, 1 is ours"
        ));
    }
    for name in names(&scene.state.join("locks")) {
        if !name.starts_with(".alive-") && !name.starts_with(".guard-") {
            wrong.push(format!("locks/{name} is left"));
        }
    }
    for name in names(&scene.state.join("records")) {
        if name.starts_with('.') {
            wrong.push(format!("records/{name} is left"));
        }
    }
    for node in NODES {
        let left = names(&snippets(&scene.cluster, node));
        if left != ["somebody-elses.yml"] {
            wrong.push(format!("snippets of {node}: {left:?}"));
        }
    }
    let mut beside = names(scene.known_hosts.parent().unwrap());
    beside.retain(|name| name.contains("known_hosts"));
    if beside
        .iter()
        .any(|name| name != "known_hosts" && !name.ends_with("lock"))
    {
        wrong.push(format!("beside known_hosts: {beside:?}"));
    }
    secrets(&scene.state, &mut wrong);
    let seen = &scene.seen;
    if seen.vmids.len() > 1 || seen.uuids.len() > 1 || seen.macs.len() > 1 || seen.host_keys.len() > 1 {
        wrong.push(format!("the VM did not stay the same: {seen:?}"));
    }
    let clones = scene.cluster.look(|world| {
        let done =
            |task: &&vmwright::simulator::task::Task| task.kind == "qmclone" && task.exit.as_deref() == Some("OK");
        world.tasks.iter().filter(done).count()
    });
    if clones > 1 {
        wrong.push(format!("{clones} clones were made"));
    }
    wrong
}

fn secrets(folder: &Path, wrong: &mut Vec<String>) {
    for name in names(folder) {
        let path = folder.join(&name);
        if path.is_dir() {
            secrets(&path, wrong);
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned();
        if text.contains(DEMO_SECRET) {
            wrong.push(format!("{name} holds the API token"));
        }
        let mode = path
            .metadata()
            .map(|meta| meta.permissions().mode() & 0o777)
            .unwrap_or(0);
        if mode != 0o600 {
            wrong.push(format!("{name} has mode {mode:o}"));
        }
    }
}

fn hardware(vm: &Vm, scene: &Scene, wrong: &mut Vec<String>) {
    let text = vm.config.text();
    let mut is = |key: &str, fits: &dyn Fn(&str) -> bool| {
        if !vm.config.get(key).is_some_and(fits) {
            wrong.push(format!("{key} is {:?}", vm.config.get(key)));
        }
    };
    is("cores", &|value| value == "2");
    is("memory", &|value| value == "2048");
    is("cpu", &|value| value == "host");
    is("scsi0", &|value| {
        value.contains("size=20G") && !value.contains("backup=0")
    });
    is("scsi1", &|value| value.contains("size=10G"));
    is("net0", &|value| {
        value.starts_with("virtio=") && value.contains("bridge=vmbr0")
    });
    is("boot", &|value| value.starts_with("order=scsi0"));
    if vm.node != "pve-1" {
        wrong.push(format!("it is on {}", vm.node));
    }
    if text.contains("cloudinit") || text.contains("[PENDING]") || text.contains("cicustom") || text.contains("unused")
    {
        wrong.push(format!("its configuration is\n{text}"));
    }
    if text.contains("vmwright operation") || vm.lock().is_some() {
        wrong.push(format!("a mark or lock is left:\n{text}"));
    }
    let volumes: Vec<String> = scene.cluster.look(|world| {
        let of_vm = world.volumes.iter().filter(|volume| volume.vmid == vm.vmid);
        of_vm
            .map(|volume| format!("{}:{}", volume.node, volume.volid))
            .collect()
    });
    if volumes.len() != 2 {
        wrong.push(format!("its volumes are {volumes:?}"));
    }
    if !vm.is_running() {
        wrong.push("it does not run".to_owned());
    }
    if mac(vm.config.get("net0").unwrap_or_default()).is_none() {
        wrong.push("its card has no address".to_owned());
    }
}

fn guest(vm: &Vm, scene: &Scene, wrong: &mut Vec<String>) {
    let now = scene.cluster.now_ms();
    let value = serde_json::to_value(&vm.guest).unwrap();
    let number = |path: &str| value.pointer(path).and_then(Value::as_u64);
    // The first start, and the restart that makes the drive's removal count.
    for (what, path, wanted) in [
        ("boots", "/boots", 2),
        ("sets of host keys", "/disk/key_generation", 1),
        ("first boots", "/disk/runcmd_runs", 1),
    ] {
        if number(path) != Some(wanted) {
            wrong.push(format!("the guest had {:?} {what}, not {wanted}", number(path)));
        }
    }
    if value["disk"]["cloud_init_disabled"] != true {
        wrong.push("cloud-init is not switched off on the guest".to_owned());
    }
    if !vm.guest.ssh_answers(now)
        || !vm.guest.has_address(now, &scene.address)
        || !vm.guest.accepts("ansible", &scene.key)
    {
        wrong.push("the guest does not take our login at its address".to_owned());
    }
    if vm.guest.host_name() != HOST {
        wrong.push(format!("the guest calls itself {}", vm.guest.host_name()));
    }
}

fn record(vm: &Vm, scene: &Scene, wrong: &mut Vec<String>) {
    let folder = scene.state.join("records");
    let files = names(&folder);
    let [file] = files.as_slice() else {
        wrong.push(format!("records: {files:?}"));
        return;
    };
    let record: Value = serde_json::from_slice(&std::fs::read(folder.join(file)).unwrap()).unwrap_or_default();
    let phase = &record["phase"];
    let right = phase["is"] == "complete"
        && phase["vmid"].to_string().trim_matches('"') == vm.vmid.to_string()
        && phase["uuid"].as_str() == vm.uuid()
        && phase["node"] == vm.node.as_str()
        && record["name"] == NAME
        && record["host"] == HOST;
    if !right {
        wrong.push(format!("the record is {record}"));
    }
    let mut shown: Vec<String> = vm.guest.host_keys().iter().map(keys::public_line).collect();
    shown.sort();
    if phase["host_keys"] != Value::from(shown) {
        wrong.push(format!("the record's host keys are {}", phase["host_keys"]));
    }
    for name in names(&scene.state.join("runs")) {
        let text = std::fs::read_to_string(scene.state.join("runs").join(&name)).unwrap();
        let damaged = text
            .lines()
            .filter(|line| serde_json::from_str::<Value>(line).is_err())
            .count();
        if damaged > 1 {
            wrong.push(format!("{damaged} lines of the journal {name} are damaged"));
        }
    }
}

fn known_hosts(vm: &Vm, scene: &Scene, wrong: &mut Vec<String>) {
    let text = std::fs::read_to_string(&scene.known_hosts).unwrap_or_default();
    if !text.starts_with(KNOWN_BEFORE) {
        wrong.push(format!("known_hosts lost what it held:\n{text}"));
    }
    let entries: Vec<(Vec<&str>, String)> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(names, key)| (names.split(',').collect(), key.to_owned()))
        .collect();
    let of = |name: &str| -> Vec<String> {
        let fits = entries.iter().filter(|(names, _)| names.contains(&name));
        let mut keys: Vec<String> = fits.map(|(_, key)| key.clone()).collect();
        keys.sort();
        keys
    };
    let mut wanted: Vec<String> = vm.guest.host_keys().iter().map(keys::public_line).collect();
    wanted.sort();
    for name in [
        HOST.to_owned(),
        format!("[{HOST}]:2222"),
        format!("[{HOST}.test.example]:2222"),
        format!("[{}]:2222", scene.address),
    ] {
        if of(&name) != wanted {
            wrong.push(format!("known_hosts has {:?} for {name}", of(&name)));
        }
    }
    // The node was met for the first time, too.
    let node = of("pve-1");
    if node.len() != 1 || !Doors::node_host_keys("pve-1").contains(&node[0]) {
        wrong.push(format!("known_hosts has {node:?} for pve-1"));
    }
}
