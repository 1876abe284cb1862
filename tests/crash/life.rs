//! A life: one process that runs a workflow in a world, to its end or to its death.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, LocalBoxFuture};
use tokio_util::sync::CancellationToken;
use vmwright::engine::cluster::Cluster;
use vmwright::engine::event::{EventKind, Events, StageName};
use vmwright::engine::host::{Halt, HostRun, Mode, RunShared};
use vmwright::engine::limits::Limits;
use vmwright::engine::ourselves::SelfProtection;
use vmwright::proxmox::client::Client;
use vmwright::proxmox::transport::Transport;
use vmwright::secret::{Redactor, Secret};
use vmwright::simulator::spec::DEMO_SECRET;
use vmwright::stage::lock;
use vmwright::state::identity::Processes;
use vmwright::state::{DirectoryStore, GatedStore, Identity, StateDir, Store};
use vmwright::ui::journal::JournalListener;

use crate::door::{Api, Hole};
use crate::scene::HOST;
use crate::ssh::Ssh;
use crate::switch::{Plan, Switch};
use crate::world::{KEY, Site, machine};

/// A workflow under test.
pub trait Workflow: Sync {
    /// Its name.
    fn name(&self) -> String;
    /// What the world is before it.
    fn prepare<'a>(&'a self, site: &'a Site) -> LocalBoxFuture<'a, ()>;
    /// Runs it.
    fn run<'a>(&'a self, run: &'a HostRun) -> BoxFuture<'a, Result<(), Halt>>;
    /// What is wrong in the world after it has ended well; nothing if all is right.
    fn check(&self, site: &Site) -> Vec<String>;
}

/// How a life ended.
#[derive(Debug)]
pub enum End {
    /// At a boundary.
    Died,
    /// By itself.
    Ended(Result<(), Halt>),
}

impl End {
    /// What went wrong, in words; nothing if it ended well.
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::Died => Some("it died".to_owned()),
            Self::Ended(Ok(())) => None,
            Self::Ended(Err(Halt::Failed { stage, diagnostic })) => Some(format!(
                "stage {stage}: [{}] {} {:?}",
                diagnostic.code, diagnostic.message, diagnostic.notes
            )),
            Self::Ended(Err(other)) => Some(format!("{other:?}")),
        }
    }
}

/// What a test may put before the doors of a life.
#[derive(Default)]
pub struct Doctored {
    /// Stands before the API.
    pub api: Option<Box<dyn FnOnce(Api) -> Arc<dyn Transport>>>,
    /// Stands before the disk.
    pub store: Option<Box<dyn FnOnce(Arc<dyn Store>) -> Arc<dyn Store>>>,
}

/// Lives once.
pub async fn live(site: &Site, workflow: &dyn Workflow, switch: &Switch) -> End {
    live_with(site, workflow, switch, Doctored::default()).await
}

/// Lives once without any trouble.
pub async fn clean(site: &Site, workflow: &dyn Workflow) -> End {
    live(site, workflow, &Switch::new(Plan::Live)).await
}

/// Lives once, behind doctored doors.
pub async fn live_with(site: &Site, workflow: &dyn Workflow, switch: &Switch, doctored: Doctored) -> End {
    let life = {
        let mut lives = site.lives.lock().unwrap();
        *lives += 1;
        *lives
    };
    let store: Arc<dyn Store> = Arc::new(DirectoryStore);
    let store = match doctored.store {
        Some(wrap) => wrap(store),
        None => store,
    };
    let gate = switch.clone();
    let store: Arc<dyn Store> = Arc::new(GatedStore::new(store, move |effect| gate.write(effect)));
    let process = run(site, workflow, switch, Arc::clone(&store), doctored.api, life);
    let end = tokio::select! {
        biased;
        () = switch.death.cancelled() => End::Died,
        end = process => End::Ended(end),
    };
    // What the dead process had on other threads ends with it.
    while Arc::strong_count(&store) > 1 {
        std::thread::sleep(Duration::from_micros(50));
    }
    site.note();
    if switch.is_dead() { End::Died } else { end }
}

async fn run(
    site: &Site,
    workflow: &dyn Workflow,
    switch: &Switch,
    store: Arc<dyn Store>,
    api: Option<Box<dyn FnOnce(Api) -> Arc<dyn Transport>>>,
    life: u32,
) -> Result<(), Halt> {
    let failed = |diagnostic| Halt::Failed {
        stage: StageName::Lock,
        diagnostic: Box::new(diagnostic),
    };
    // Every life is a process of its own; the earlier ones are gone.
    let identity = Identity {
        pid: life,
        process_start: u64::from(life),
        processes: Processes::Fixed([(life, u64::from(life))].into()),
        ..Identity::current()
    };
    let state = StateDir::open_with(&site.state(), store, identity).map_err(|error| failed(error.diagnostic()))?;
    let redactor = Redactor::new([Secret::new(DEMO_SECRET)]);
    let journal = state.open_journal(redactor.clone());
    let door = Api {
        cluster: site.cluster().clone(),
        switch: switch.clone(),
    };
    let transport: Arc<dyn Transport> = match api {
        Some(wrap) => wrap(door),
        None => Arc::new(door),
    };
    let ssh = Ssh {
        cluster: site.cluster().clone(),
        switch: switch.clone(),
        far: site.far.clone(),
        key: KEY.to_owned(),
    };
    let hole = Hole {
        records: Arc::clone(&site.records),
        switch: switch.clone(),
    };
    let events = Events::new(journal.run(), vec![Box::new(JournalListener::new(journal))]);
    let shared = RunShared {
        events: events.clone(),
        mode: Mode::Apply,
        cancel: CancellationToken::new(),
        limits: Limits::new(2, 1),
        redactor,
        state: Arc::new(state),
        recorded: std::sync::OnceLock::new(),
        remote: Arc::new(ssh),
        known_hosts: site.known_hosts(),
        templates_dir: None,
        nodes: std::collections::BTreeMap::new(),
        scratch: site.scratch(life),
        protection: SelfProtection::default(),
    };
    events.emit(
        None,
        EventKind::RunStarted {
            command: workflow.name(),
            version: "test",
            hosts: vec![HOST.to_owned()],
        },
    );
    let cluster = Arc::new(Cluster::new(Client::new(transport), false));
    let host = HostRun::new(machine(), Arc::new(shared), cluster, Arc::new(hole));
    let end = workflow.run(&host).await;
    let released = lock::release(&host);
    events.emit(None, EventKind::RunDone { exit: 0, ms: 0 });
    end?;
    released.map_err(|failure| Halt::Failed {
        stage: StageName::Lock,
        diagnostic: failure.diagnostic,
    })
}
