//! The dead switch: every effect of every door, and every write to the state directory, passes it.
//!
//! ```text
//!   effect --> before --(torn, late)--> after --> the caller hears of it
//!                 n        n+1           n+2      <- boundaries, numbered over the whole life of the process
//! ```
//!
//! The process dies at the boundary that its [`Plan`] names: that call and all later ones hang, the state directory
//! refuses everything, and whoever waits for [`Switch::death`] drops the run, as the kernel drops a process.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use vmwright::state::{Effect, Fate};

/// What is to happen to this life of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plan {
    /// Nothing.
    #[default]
    Live,
    /// It dies at this boundary.
    Die(usize),
    /// It dies at the first boundary whose name begins like this.
    DieAt(&'static str),
    /// The n-th effect at a door is met by this.
    Mishap(usize, Mishap),
    /// The n-th write to the state directory finds no space.
    Full(usize),
    /// No write to the state directory finds space from the n-th on.
    FullFrom(usize),
}

/// What may happen to an effect without anybody's death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// The connection is cut before it took place; the caller cannot know.
    CutBefore,
    /// It took place, and the connection is cut before the answer.
    CutAfter,
    /// There is no connection, and the caller knows that nothing was sent.
    NotSent,
}

type Watch = Box<dyn FnMut(Boundary<'_>) + Send>;

/// A boundary, for a watcher.
pub struct Boundary<'b> {
    /// Its number.
    pub number: usize,
    /// `before`, `torn`, `late` or `after`, and the effect.
    pub what: &'b str,
    /// Whether it is an instant between two effects, when the world can be looked at; else it is a way to go wrong of the
    /// effect after the last instant.
    pub instant: bool,
}

#[derive(Default)]
struct Inner {
    plan: Plan,
    boundaries: usize,
    effects: usize,
    writes: usize,
    trail: Vec<String>,
    watch: Option<Watch>,
}

/// The switch of one life.
#[derive(Clone)]
pub struct Switch {
    inner: Arc<Mutex<Inner>>,
    /// Cancelled when the process is dead.
    pub death: CancellationToken,
}

impl Switch {
    /// A switch for a life with this plan.
    pub fn new(plan: Plan) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner {
                plan,
                ..Inner::default()
            })),
            death: CancellationToken::new(),
        }
    }

    /// Has `watch` called at every boundary.
    pub fn watch(&self, watch: impl FnMut(Boundary<'_>) + Send + 'static) {
        self.inner().watch = Some(Box::new(watch));
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The boundaries of this life so far, each with what it is.
    pub fn trail(&self) -> Vec<String> {
        self.inner().trail.clone()
    }

    /// The boundaries, the effects at doors and the writes to the state directory so far.
    pub fn counts(&self) -> (usize, usize, usize) {
        let inner = self.inner();
        (inner.boundaries, inner.effects, inner.writes)
    }

    /// Whether the process is dead.
    pub fn is_dead(&self) -> bool {
        self.death.is_cancelled()
    }

    /// A boundary. Whether the process dies here; the dead stay dead.
    fn dies(&self, when: &str, what: &str, instant: bool) -> bool {
        if self.is_dead() {
            return true;
        }
        let (number, watch) = {
            let mut inner = self.inner();
            let number = inner.boundaries;
            inner.boundaries += 1;
            let name = format!("{when} {what}");
            let end = match inner.plan {
                Plan::Die(at) => at == number,
                Plan::DieAt(start) => name.starts_with(start),
                Plan::Live | Plan::Mishap(..) | Plan::Full(_) | Plan::FullFrom(_) => false,
            };
            inner.trail.push(name);
            if end {
                self.death.cancel();
                return true;
            }
            (number, inner.watch.take())
        };
        if let Some(mut watch) = watch {
            watch(Boundary {
                number,
                what: &format!("{when} {what}"),
                instant,
            });
            self.inner().watch = Some(watch);
        }
        false
    }

    /// The boundary before an effect at a door: hangs if the process is dead. What happens to the effect otherwise.
    pub async fn before(&self, what: &str) -> Option<Mishap> {
        if self.dies("before", what, true) {
            return std::future::pending().await;
        }
        let mut inner = self.inner();
        let number = inner.effects;
        inner.effects += 1;
        match inner.plan {
            Plan::Mishap(at, mishap) if at == number => Some(mishap),
            Plan::Mishap(..) | Plan::Live | Plan::Die(_) | Plan::DieAt(_) | Plan::Full(_) | Plan::FullFrom(_) => None,
        }
    }

    /// Whether the process dies in the middle of an effect that can be torn.
    pub fn torn(&self, what: &str) -> bool {
        self.dies("torn", what, false)
    }

    /// Whether the process dies with the effect on its way: it takes place later, when the next process is at work.
    pub fn late(&self, what: &str) -> bool {
        self.dies("late", what, false)
    }

    /// The boundary after an effect at a door: hangs if the process is dead.
    pub async fn after(&self, what: &str) {
        if self.dies("after", what, true) {
            std::future::pending::<()>().await;
        }
    }

    /// Hangs for ever.
    pub async fn hang<T>(&self) -> T {
        std::future::pending().await
    }

    /// The fate of a write to the state directory.
    pub fn write(&self, effect: Effect<'_>) -> Fate {
        let (what, tearable) = name(effect);
        if self.dies("before", &what, true) {
            return Fate::DiesBefore;
        }
        let full = {
            let mut inner = self.inner();
            let number = inner.writes;
            inner.writes += 1;
            match inner.plan {
                Plan::Full(at) => at == number,
                Plan::FullFrom(at) => at <= number,
                Plan::Live | Plan::Die(_) | Plan::DieAt(_) | Plan::Mishap(..) => false,
            }
        };
        // Deleting needs no space.
        let needs_space = !matches!(effect, Effect::RemoveFile(_) | Effect::RemoveDir(_));
        if full && needs_space {
            return Fate::Fails(io::Error::from_raw_os_error(28));
        }
        if tearable && self.dies("torn", &what, false) {
            return Fate::Torn;
        }
        // Asked here, it happens later: what the world is then is seen at the next boundary.
        if self.dies("after", &what, false) {
            return Fate::DiesAfter;
        }
        Fate::Happens
    }
}

/// What a state write is called, and whether it can be torn.
fn name(effect: Effect<'_>) -> (String, bool) {
    let short = |path: &std::path::Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match (name.len() > 40, path.extension()) {
            (true, Some(extension)) => format!("<key>.{}", extension.to_string_lossy()),
            (true, None) => "<key>".to_owned(),
            (false, _) => name,
        }
    };
    match effect {
        Effect::CreateDir(path) => (format!("create_dir {}", short(path)), false),
        Effect::WriteAtomic(path) => (format!("write_atomic {}", short(path)), true),
        Effect::Append(path) => (format!("append {}", short(path)), true),
        Effect::RenameDir(from, to) => (format!("rename_dir {} {}", short(from), short(to)), false),
        Effect::RemoveFile(path) => (format!("remove_file {}", short(path)), false),
        Effect::RemoveDir(path) => (format!("remove_dir {}", short(path)), false),
        Effect::LockFile(path) => (format!("lock_file {}", short(path)), false),
    }
}
