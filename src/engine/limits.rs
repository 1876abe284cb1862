//! How many at once, where Proxmox hurts: clones per storage, migrations per node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A thing that only so many hosts may do at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// A clone onto this storage. Every allocation takes the storage's lock, for which Proxmox waits 10 s only.
    Clone {
        /// `cluster/storage`; a clone without a storage uses the template's name.
        storage: String,
    },
    /// A migration away from this node.
    Migrate {
        /// The source node.
        node: String,
    },
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Clone { storage } => write!(f, "clones onto {storage}"),
            Self::Migrate { node } => write!(f, "migrations away from {node}"),
        }
    }
}

/// The limits of a run.
pub struct Limits {
    clones: usize,
    migrations: usize,
    semaphores: Mutex<BTreeMap<Limit, Arc<Semaphore>>>,
}

impl Limits {
    /// `clones` per storage and `migrations` per node; 0 is unlimited.
    pub fn new(clones: usize, migrations: usize) -> Self {
        Self {
            clones,
            migrations,
            semaphores: Mutex::new(BTreeMap::new()),
        }
    }

    /// Waits for a place, first come first served. The place is free again when the permit is dropped.
    pub async fn acquire(&self, limit: Limit) -> Option<OwnedSemaphorePermit> {
        let places = match &limit {
            Limit::Clone { .. } => self.clones,
            Limit::Migrate { .. } => self.migrations,
        };
        if places == 0 {
            return None;
        }
        let semaphore = {
            let mut all = self.semaphores.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(limit).or_insert_with(|| Arc::new(Semaphore::new(places))))
        };
        // Nobody closes the semaphore, so an error cannot come; without a permit the limit would merely not hold.
        semaphore.acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_limit_holds_per_storage() {
        let limits = Limits::new(1, 1);
        let one = limits
            .acquire(Limit::Clone {
                storage: "local".into(),
            })
            .await;
        assert!(one.is_some());
        assert!(limits.acquire(Limit::Clone { storage: "ceph".into() }).await.is_some());
        let second = limits.acquire(Limit::Clone {
            storage: "local".into(),
        });
        tokio::pin!(second);
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(one);
        assert!(second.await.is_some());
    }

    #[tokio::test]
    async fn zero_is_unlimited() {
        assert!(
            Limits::new(0, 0)
                .acquire(Limit::Migrate { node: "pve-0".into() })
                .await
                .is_none()
        );
    }
}
