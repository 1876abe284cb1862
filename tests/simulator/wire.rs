//! Over real sockets: HTTPS with reason phrases, many clients at once, and a VM from the clone to a login.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use vmwright::simulator::clock::Durations;
use vmwright::simulator::fault::{Action, Fault};
use vmwright::simulator::{Options, free_loopback_net};

use crate::support::{Sim, instant};

fn client(sim: &Sim) -> reqwest::Client {
    // Another test of this process may have done so already.
    let _already = rustls::crypto::ring::default_provider().install_default();
    let ca = std::fs::read(sim.sim.ca_file()).unwrap();
    reqwest::Client::builder()
        .http1_only()
        .no_proxy()
        .tls_certs_only([reqwest::Certificate::from_pem(&ca).unwrap()])
        .pool_idle_timeout(Duration::from_secs(4))
        .build()
        .unwrap()
}

fn reason(response: &reqwest::Response) -> String {
    let phrase = response.extensions().get::<hyper::ext::ReasonPhrase>();
    phrase.map_or_else(String::new, |p| String::from_utf8_lossy(p.as_bytes()).into_owned())
}

#[tokio::test]
async fn https_carries_reason_phrases_and_closes_after_errors() {
    let sim = Sim::start(instant()).await;
    let client = client(&sim);
    let url = |path: &str| format!("{}/api2/json{path}", sim.sim.api_url());
    let get = |path: &str| client.get(url(path)).header("Authorization", &sim.token).send();
    let version = get("/version").await.unwrap();
    assert_eq!(version.status(), 200);
    let body: Value = version.json().await.unwrap();
    assert_eq!(body["data"]["version"], "9.2.11");
    let missing = get("/nodes/pve-0/qemu/777/config").await.unwrap();
    assert_eq!(missing.status(), 500);
    assert_eq!(
        reason(&missing),
        "Configuration file 'nodes/pve-0/qemu-server/777.conf' does not exist"
    );
    assert_eq!(missing.headers()["connection"], "close");
    let nameless = client.get(url("/version")).send().await.unwrap();
    assert_eq!(
        (nameless.status().as_u16(), reason(&nameless).as_str()),
        (401, "No ticket")
    );
    assert_eq!(nameless.text().await.unwrap(), "");
    let form = [("newid", "101"), ("name", "a_b")];
    let bad = client
        .post(url("/nodes/pve-0/qemu/9000/clone"))
        .header("Authorization", &sim.token)
        .form(&form)
        .send()
        .await
        .unwrap();
    let body: Value = bad.json().await.unwrap();
    assert_eq!(
        body["errors"]["name"],
        "invalid format - value does not look like a valid DNS name\n"
    );
    sim.sim.faults().add(Fault::on("GET", "/version", Action::DropAfter));
    assert!(get("/version").await.is_err());
    assert!(get("/version").await.is_ok());
    sim.sim.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_clients_clone_and_start_at_once() {
    let sim = Arc::new(Sim::start(instant()).await);
    let client = client(&sim);
    let begun = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for number in 0..60 {
        let (client, sim) = (client.clone(), Arc::clone(&sim));
        all.spawn(async move {
            let vmid = 200 + number;
            let url = |path: &str| format!("{}/api2/json{path}", sim.sim.api_url());
            let post = |path: String, form: Vec<(&'static str, String)>| {
                client
                    .post(url(&path))
                    .header("Authorization", &sim.token)
                    .form(&form)
                    .send()
            };
            let form = vec![
                ("newid", vmid.to_string()),
                ("name", format!("vm-{number}")),
                ("full", "1".to_owned()),
            ];
            let cloned = post("/nodes/pve-0/qemu/9000/clone".to_owned(), form).await.unwrap();
            assert_eq!(cloned.status(), 200, "{}", reason(&cloned));
            let upid: Value = cloned.json().await.unwrap();
            assert_eq!(sim.end_of(upid["data"].as_str().unwrap()).await, "OK");
            let started = post(format!("/nodes/pve-0/qemu/{vmid}/status/start"), Vec::new())
                .await
                .unwrap();
            let upid: Value = started.json().await.unwrap();
            assert_eq!(sim.end_of(upid["data"].as_str().unwrap()).await, "OK");
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    let macs: std::collections::BTreeSet<String> = sim.handle.look(|world| {
        let own = world.vms.values().filter(|vm| vm.is_running());
        own.filter_map(|vm| vm.config.get("net0").map(str::to_owned)).collect()
    });
    assert_eq!(macs.len(), 60);
    eprintln!("60 clones and starts over HTTPS took {:?}", begun.elapsed());
}

/// A VM as a person would make it by hand, up to a command on the guest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_comes_up_and_its_guest_answers_over_ssh() {
    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ+lV5TQVxSGxlnljYFVksgEuBct7saK0Y5mzoehGW0b";
    let net = free_loopback_net(2222);
    let durations = Durations::default().scaled(0.01);
    let sim = Sim::with(durations, |o| {
        let bare = Options::api_only(&o.dir);
        *o = Options {
            durations: o.durations.clone(),
            ssh: true,
            net,
            ..bare
        };
    })
    .await;
    let [a, b, c] = net;
    let address = format!("{a}.{b}.{c}.100");
    let params = [("newid", "101"), ("name", "web-0"), ("full", "1")];
    assert_eq!(sim.task("POST", "/nodes/pve-0/qemu/9000/clone", &params).await, "OK");
    let vm = "/nodes/pve-0/qemu/101";
    let mac = sim.ok("GET", &format!("{vm}/config"), &[]).await["net0"]
        .as_str()
        .unwrap()[7..24]
        .to_lowercase();
    let snippets = sim.handle.node_root("pve-0").join("var/lib/vz/snippets");
    let user = format!(
        "#cloud-config\nhostname: web-0\nusers:\n  - name: admin\n    sudo: ['ALL=(ALL) NOPASSWD:ALL']\n    \
         ssh_authorized_keys: ['{KEY}']\n"
    );
    let network = format!(
        "version: 2\nethernets:\n  lan:\n    match: {{macaddress: '{mac}'}}\n    set-name: eth0\n    addresses: \
         [{address}/8]\n"
    );
    std::fs::write(snippets.join("u.yml"), user).unwrap();
    std::fs::write(snippets.join("n.yml"), network).unwrap();
    let custom = "user=local:snippets/u.yml,network=local:snippets/n.yml";
    sim.ok("PUT", &format!("{vm}/config"), &[("cicustom", custom)]).await;
    assert_eq!(sim.task("POST", &format!("{vm}/status/start"), &[]).await, "OK");
    let doors = sim.sim.ssh().unwrap();
    let mut open = doors.open();
    let wanted = format!("{address}:2222").parse().unwrap();
    tokio::time::timeout(Duration::from_secs(20), open.wait_for(|all| all.contains(&wanted)))
        .await
        .expect("the guest's door opens")
        .unwrap();
    let said = doors
        .exec(address.parse().unwrap(), 2222, "admin", KEY, "hostname", b"")
        .await
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "web-0");
    let seen = sim.ok("GET", &format!("{vm}/agent/network-get-interfaces"), &[]).await;
    let text = seen.to_string();
    assert!(text.contains(&address) && text.contains(&mac), "{text}");
    assert_eq!(sim.task("POST", &format!("{vm}/status/stop"), &[]).await, "OK");
    assert_eq!(sim.task("DELETE", vm, &[]).await, "OK");
    sim.sim.stop().await.unwrap();
}
