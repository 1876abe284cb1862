//! The declared hardware, as it stands in the cluster.

use vmwright::simulator::spec::WorldSpec;

use crate::support::Site;

/// The usual cluster, whose template has notes and devices that no inventory declares.
fn with_notes(spec: &mut WorldSpec) {
    let template = spec.vms.iter_mut().find(|vm| vm.vmid == 9000).unwrap();
    for (key, value) in [
        ("description", "made by packer"),
        ("rng0", "source=/dev/urandom"),
        ("net3", "virtio,bridge=vmbr1"),
    ] {
        template.config.insert(key.to_owned(), value.to_owned());
    }
}

const CONFIG: &str = "  agent: '1'\n  cores: '4'\n  sockets: 1\n  cpu: host\n  memory: 4G\n  ostype: l26\n  \
                      scsihw: virtio-scsi-single\n  storage: local-lvm\n  onboot: true\n  tags: [Managed, general]\n  \
                      cloudinit_storage: local\n  \
                      disk_os: {disk: scsi0, size: 21, backup: true, discard: true, iothread: true}\n  \
                      disk2: {disk: scsi1, size: 5, storage: local-lvm, backup: false}\n  \
                      network: {nic0: {model: virtio, bridge: vmbr0, tag: 20, firewall: true}}\n  \
                      nic0: {model: virtio, bridge: vmbr1, tag: 5}\n";

#[tokio::test(flavor = "multi_thread")]
async fn the_declared_hardware_stands_and_the_templates_own_stays() {
    let site = Site::with(|plan| {
        with_notes(&mut plan.spec);
        plan.vms_config = CONFIG.to_owned();
    })
    .await;
    let args = ["provision", "--limit", "web-0"];
    // First as far as the start: the card's MAC as the clone has it.
    site.hold("PUT", "*/config");
    site.killed_there(&args).await;
    let mac = |site: &Site| {
        let net0 = site.key("web-0", "net0").unwrap();
        net0.split([',', '=']).nth(1).unwrap().to_owned()
    };
    let (cloned_mac, cloned_net3) = (mac(&site), site.key("web-0", "net3"));
    site.hold("POST", "*/status/start");
    site.killed_there(&args).await;
    let drive = |site: &Site| site.vm("web-0", |vm| vm.config.cloudinit_slot()).unwrap();
    let slot = drive(&site);
    assert!(
        site.key("web-0", &slot).unwrap().starts_with("local:"),
        "{:?}",
        site.config("web-0")
    );
    let volumes = |site: &Site| {
        let mut found = site.sim.handle().look(|world| {
            let vmid = world.vm_named("web-0").unwrap().vmid;
            let own = world.volumes.iter().filter(|volume| volume.vmid == vmid);
            own.map(|volume| volume.volid.clone()).collect::<Vec<_>>()
        });
        found.sort();
        found
    };
    let allocated = volumes(&site);
    let sent = site.changes_to("/config").len();
    site.vmwright(&args).await.assert_code(0);
    // The second and third run had nothing to set: only the removal of the drive followed.
    assert_eq!(
        site.changes_to("/config").len(),
        sent + 1,
        "{:#?}",
        site.changes_to("/config")
    );
    let mut left = allocated.clone();
    left.retain(|volume| !volume.contains("cloudinit"));
    assert_eq!(volumes(&site), left, "the extra disk is allocated once");

    let key = |name: &str| site.key("web-0", name);
    for (name, value) in [
        ("cores", "4"),
        ("cpu", "host"),
        ("memory", "4096"),
        ("ostype", "l26"),
        ("scsihw", "virtio-scsi-single"),
        ("agent", "enabled=1"),
        ("onboot", "1"),
        ("tags", "general;managed"),
        ("serial0", "socket"),
        ("vga", "serial0"),
        ("boot", "order=scsi0"),
        ("description", "made by packer"),
        ("rng0", "source=/dev/urandom"),
    ] {
        assert_eq!(key(name).as_deref(), Some(value), "{name}");
    }
    let disk = key("scsi0").unwrap();
    for part in ["local-lvm:", "size=21G", "discard=on", "iothread=1"] {
        assert!(disk.contains(part), "{part} is not in {disk}");
    }
    assert!(!disk.contains("backup=0"), "{disk}");
    let second = key("scsi1").unwrap();
    assert!(second.contains("size=5G") && second.contains("backup=0"), "{second}");
    let card = key("net0").unwrap();
    assert!(
        card.contains("bridge=vmbr0") && card.contains("tag=20") && card.contains("firewall=1"),
        "{card}"
    );
    // The nested form wins over the flat one, whole.
    assert!(!card.contains("vmbr1") && !card.contains("tag=5"), "{card}");
    assert_eq!(mac(&site), cloned_mac, "the MAC is kept");
    assert_eq!(key("net3"), cloned_net3, "an undeclared card is kept");
    assert_eq!(site.vms().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn declared_notes_a_boot_order_and_a_console_of_the_users_own() {
    let site = Site::with(|plan| {
        with_notes(&mut plan.spec);
        plan.vms = "vms_description: the web server\nvms_tags: [a, b]\nvms_enable_serial_terminal: false\n".to_owned();
        plan.vms_config =
            "  cores: 2\n  memory: 2048\n  storage: local-lvm\n  vga: std\n  disk_os: {disk: scsi0, size: 20}\n  \
                           boot_order: order=scsi0;net0\n  nic0: {bridge: vmbr0, mac: '02:00:00:00:10:01', tag: -1}\n"
                .to_owned();
    })
    .await;
    let run = site.vmwright(&["provision", "--limit", "web-0"]).await;
    run.assert_code(0);
    assert_eq!(site.key("web-0", "description").as_deref(), Some("the web server"));
    assert_eq!(site.key("web-0", "boot").as_deref(), Some("order=scsi0;net0"));
    assert_eq!(site.key("web-0", "tags").as_deref(), Some("a;b"));
    assert_eq!(site.key("web-0", "vga").as_deref(), Some("std"));
    let card = site.key("web-0", "net0").unwrap();
    assert!(card.contains("02:00:00:00:10:01") && !card.contains("tag="), "{card}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raw_card_wins_and_a_card_that_nobody_declares_is_the_templates() {
    let site = Site::with(|plan| {
        plan.hosts = vec![
            "web-0 vms_proxmox_node=pve-0".to_owned(),
            "web-1 vms_proxmox_node=pve-0".to_owned(),
        ];
        plan.vms_config = "  cores: 2\n  memory: 2048\n  storage: local-lvm\n  disk_os: {disk: scsi0, size: 20}\n  \
                           net0: virtio,bridge=vmbr1,tag=7\n  nic0: {bridge: vmbr0, tag: 5}\n"
            .to_owned();
    })
    .await;
    site.write(
        "inventory/host_vars/web-1.yml",
        "vms_config: {cores: 1, memory: 1024, storage: local-lvm}\n",
    );
    site.vmwright(&["provision"]).await.assert_code(0);
    let raw = site.key("web-0", "net0").unwrap();
    assert!(raw.contains("bridge=vmbr1") && raw.contains("tag=7"), "{raw}");
    // No disk and no card declared: what the clone brought stays, and boots.
    let kept = site.key("web-1", "net0").unwrap();
    assert!(kept.contains("bridge=vmbr0") && !kept.contains("tag"), "{kept}");
    assert!(site.key("web-1", "scsi0").unwrap().contains("size=2G"));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_cards_two_families_and_interfaces_found_by_mac() {
    let site = Site::with(|plan| {
        plan.hosts = vec!["web-0 vms_proxmox_node=pve-0".to_owned()];
        plan.vms = "vms_interface: lan0\nvms_interface_match: mac\nglobal_ipv6_address: 2001:db8:20::31\n\
                    global_ipv6_gateway: fe80::1\nvms_network: {nic1: {interface: store0, address: 127.200.3.4/28, mtu: 9000}}\n"
            .to_owned();
        plan.vms_config = "  cores: 2\n  memory: 2048\n  storage: local-lvm\n  disk_os: {disk: scsi0, size: 20}\n  \
                           network: {nic0: {bridge: vmbr0}, nic1: {bridge: vmbr1, tag: 40}}\n"
            .to_owned();
    })
    .await;
    site.hold("POST", "*/status/start");
    site.killed_there(&["provision"]).await;
    let (net0, net1) = (site.key("web-0", "net0").unwrap(), site.key("web-0", "net1").unwrap());
    assert!(net1.contains("bridge=vmbr1") && net1.contains("tag=40"), "{net1}");
    let data = std::fs::read_to_string(site.snippet_dir("pve-0", "local").join("web-0-network-data-ci.yml")).unwrap();
    let data: serde_yaml::Value = serde_yaml::from_str(&data).unwrap();
    let ethernets = &data["network"]["ethernets"];
    for (card, name) in [(&net0, "lan0"), (&net1, "store0")] {
        let mac = ethernets[name]["match"]["macaddress"].as_str().unwrap().to_uppercase();
        assert!(card.to_uppercase().contains(&mac), "{name}: {mac} is not in {card}");
        assert_eq!(ethernets[name]["set-name"].as_str(), Some(name));
    }
    let all = format!("{:?}", ethernets["lan0"]);
    assert!(all.contains("2001:db8:20::31/64") && all.contains("fe80::1"), "{all}");
    assert_eq!(ethernets["store0"]["addresses"][0].as_str(), Some("127.200.3.4/28"));
    assert_eq!(ethernets["store0"]["mtu"].as_u64(), Some(9000));

    site.vmwright(&["provision"]).await.assert_code(0);
    let now = site.sim.handle().now_ms();
    let mut addresses = site.vm("web-0", |vm| vm.guest.addresses(now));
    addresses.sort();
    let mut wanted = vec!["127.200.3.4".to_owned(), site.address(0), "2001:db8:20::31".to_owned()];
    wanted.sort();
    assert_eq!(addresses, wanted);
    let hosts = site.sim.pihole().unwrap().records().hosts;
    assert_eq!(
        hosts,
        [
            format!("{} web-0.test.example", site.address(0)),
            "2001:db8:20::31 web-0.test.example".to_owned()
        ]
    );
}
