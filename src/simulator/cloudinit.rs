//! The content of the cloud-init drive (qemu-server: `Cloudinit.pm`): custom snippets, or generated documents.

use super::guest::Seed;
use super::props::{Net, net_index, percent_decode, prop, split_list};
use super::vm::{Config, Vm};
use super::world::{World, hex_digest};

const SNIPPET_LIMIT: usize = 1 << 20;

impl World {
    /// What the drive holds when the VM is started now; none without a drive. The error is the start task's text.
    pub(crate) fn seed(&self, vm: &Vm) -> Result<Option<Seed>, String> {
        if vm.config.cloudinit_slot().is_none() {
            return Ok(None);
        }
        let custom = vm.config.get("cicustom").unwrap_or_default();
        let file = |kind: &str| -> Result<Option<String>, String> {
            prop(custom, kind, "")
                .map(|volid| self.snippet(&vm.node, volid))
                .transpose()
        };
        let user_data = match file("user")? {
            Some(text) => text,
            None => generated_user(vm),
        };
        let network_data = match file("network")? {
            Some(text) => text,
            None => generated_network(&vm.config),
        };
        file("vendor")?;
        let meta_data = match file("meta")? {
            Some(text) => text,
            None => generated_meta(&user_data, &network_data),
        };
        Ok(Some(Seed {
            user_data,
            network_data,
            meta_data,
        }))
    }

    /// A snippet's text, read on the node.
    fn snippet(&self, node: &str, volid: &str) -> Result<String, String> {
        let (storage, name) = volid.split_once(':').unwrap_or((volid, ""));
        self.usable_storage(storage, node).map_err(|e| e.task_text())?;
        let Some(file) = name.strip_prefix("snippets/") else {
            return Err(format!("{volid} is not in the snippets directory"));
        };
        let path = self.content_dir(node, storage, "snippets").map(|dir| dir.join(file));
        let bytes = path
            .and_then(|path| std::fs::read(path).ok())
            .ok_or_else(|| format!("volume '{volid}' does not exist"))?;
        if bytes.len() > SNIPPET_LIMIT {
            return Err(format!("Cloud-Init: snippet '{volid}' is too big (> 1 MiB)"));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The generated user-data.
pub(crate) fn generated_user(vm: &Vm) -> String {
    let get = |key: &str| vm.config.get(key);
    let name = get("name").map_or_else(|| format!("VM{}", vm.vmid), str::to_owned);
    let (host, fqdn) = match name.split_once('.') {
        Some((host, _)) => (host.to_owned(), name.clone()),
        None => match get("searchdomain") {
            Some(domain) => (name.clone(), format!("{name}.{domain}")),
            None => (name.clone(), name.clone()),
        },
    };
    let mut text = format!("#cloud-config\nhostname: {host}\nmanage_etc_hosts: true\nfqdn: {fqdn}\n");
    if let Some(user) = get("ciuser") {
        text.push_str(&format!("user: {user}\n"));
    }
    if let Some(password) = get("cipassword") {
        text.push_str(&format!("password: {password}\n"));
    }
    if let Some(keys) = get("sshkeys") {
        text.push_str("ssh_authorized_keys:\n");
        for key in percent_decode(keys, false).lines().filter(|l| !l.trim().is_empty()) {
            text.push_str(&format!("  - {key}\n"));
        }
    }
    text.push_str("chpasswd:\n  expire: False\nusers:\n  - default\n");
    if get("ciupgrade") != Some("0") {
        text.push_str("package_upgrade: true\n");
    }
    text
}

/// The generated network-config (version 1).
pub(crate) fn generated_network(config: &Config) -> String {
    let mut text = "version: 1\nconfig:\n".to_owned();
    let mut nets: Vec<(u32, &str)> = config
        .current
        .iter()
        .filter_map(|(key, value)| net_index(key).map(|n| (n, value.as_str())))
        .collect();
    nets.sort_unstable();
    for (number, value) in nets {
        let mac = Net::parse(value).mac.unwrap_or_default().to_lowercase();
        text.push_str(&format!(
            "    - type: physical\n      name: eth{number}\n      mac_address: '{mac}'\n"
        ));
        let Some(ip) = config.get(&format!("ipconfig{number}")) else {
            continue;
        };
        text.push_str("      subnets:\n");
        match prop(ip, "ip", "") {
            Some("dhcp") => text.push_str("      - type: dhcp4\n"),
            Some(address) => {
                let (address, prefix) = address.split_once('/').unwrap_or((address, "24"));
                text.push_str(&format!(
                    "      - type: static\n        address: '{address}'\n        netmask: '{}'\n",
                    netmask(prefix)
                ));
                if let Some(gateway) = prop(ip, "gw", "") {
                    text.push_str(&format!("        gateway: '{gateway}'\n"));
                }
            }
            None => {}
        }
        match prop(ip, "ip6", "") {
            Some("dhcp") => text.push_str("      - type: dhcp6\n"),
            Some("auto") => text.push_str("      - type: ipv6_slaac\n"),
            Some(address) => {
                text.push_str(&format!("      - type: static6\n        address: '{address}'\n"));
                if let Some(gateway) = prop(ip, "gw6", "") {
                    text.push_str(&format!("        gateway: '{gateway}'\n"));
                }
            }
            None => {}
        }
    }
    text.push_str("    - type: nameserver\n");
    let list = |key: &str| config.get(key).map(split_list).unwrap_or_default();
    let (servers, domains) = (list("nameserver"), list("searchdomain"));
    for (title, entries) in [("address", servers), ("search", domains)] {
        if !entries.is_empty() {
            text.push_str(&format!("      {title}:\n"));
            for entry in entries {
                text.push_str(&format!("      - '{entry}'\n"));
            }
        }
    }
    text
}

/// The generated meta-data: the instance id changes with user-data and network-config.
pub(crate) fn generated_meta(user: &str, network: &str) -> String {
    format!("instance-id: {}\n", hex_digest(&format!("{user}{network}")))
}

fn netmask(prefix: &str) -> String {
    let length: u32 = prefix.parse().unwrap_or(24).min(32);
    let bits = u32::MAX.checked_shl(32 - length).unwrap_or(0);
    std::net::Ipv4Addr::from(bits).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_config_as_proxmox_writes_it() {
        let mut config = Config::default();
        config
            .current
            .insert("net0".to_owned(), "virtio=BC:24:11:16:EA:95,bridge=vmbr1".to_owned());
        config
            .current
            .insert("ipconfig0".to_owned(), "ip=192.0.2.10/24,gw=192.0.2.1".to_owned());
        assert_eq!(
            generated_network(&config),
            "version: 1\nconfig:\n    - type: physical\n      name: eth0\n      mac_address: 'bc:24:11:16:ea:95'\n      \
             subnets:\n      - type: static\n        address: '192.0.2.10'\n        netmask: '255.255.255.0'\n        \
             gateway: '192.0.2.1'\n    - type: nameserver\n"
        );
        assert_eq!(
            (netmask("0"), netmask("32")),
            ("0.0.0.0".to_owned(), "255.255.255.255".to_owned())
        );
    }
}
