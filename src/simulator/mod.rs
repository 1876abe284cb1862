//! A Proxmox cluster in one process, on loopback: an HTTPS API, guests and nodes behind SSH, a Pi-hole.
//!
//! It is written against the API's facts and knows nothing of the client, so that one misreading cannot hide in both.
//!
//! ```text
//!   HTTPS (http)      \
//!   direct (handle)   -+-> api: who may, schema, effect --> world: nodes, storages, VMs, tasks, guests
//!   SSH (ssh, shell)  /        ^ faults, request log          |  advanced lazily to the clock's time
//!   Pi-hole (pihole) /                                        `-> world.json, nodes/<node>/..., in the directory
//! ```
//!
//! What another file of this module may use:
//!
//! * [`Handle`]: cheap to clone; `with(|world| ...)` gives the world, advanced to now, and saves it afterwards.
//! * [`Handle::node_root`]: the directory that is `/` of a node; a storage's path lies below it (`var/lib/vz`).
//! * `world::World::guest_by_address`: the running VM that answers at an address.

pub mod clock;
pub mod guest;
pub mod pihole;
pub mod rootfs;
pub mod shell;
pub mod ssh;

// Interface notes for the doors (ssh.rs, pihole.rs), until the code below says the same:
//
//   impl Handle {
//     pub fn with<R>(&self, f: impl FnOnce(&mut World) -> R) -> R;   // world advanced to now; saved soon after
//     pub fn now_ms(&self) -> u64;   pub fn durations(&self) -> Durations;   pub fn clock(&self) -> Clock;
//     pub fn dir(&self) -> &Path;    pub fn node_root(&self, node: &str) -> PathBuf;   // <dir>/nodes/<node>
//   }
//   impl World {
//     pub fn node_names(&self) -> Vec<String>;  pub fn node_online(&self, node: &str) -> bool;
//     pub fn guest_by_address(&self, address: &str) -> Option<u32>;    // vmid of the running VM whose guest has it
//     pub fn guest_mut(&mut self, vmid: u32) -> Option<&mut Guest>;    // after use the world re-reads next_event()
//     pub doors: serde_json::Value map: free, persisted state of the doors (host keys of nodes, Pi-hole records)
//   }
//   A Guest additionally provides `pub fn addresses(&self, now_ms: u64) -> Vec<String>` (bare addresses that answer).
//   ssh::start(handle: Handle, bind: SocketAddr)    -> io::Result<ssh::Door>      Door: address getters, async fn stop
//   pihole::start(handle: Handle, bind: SocketAddr) -> io::Result<pihole::Door>   Door: address(), async fn stop
