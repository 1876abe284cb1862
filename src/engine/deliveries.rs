//! Where the VM's cloud-init documents lie: they hold a password hash, so every folder that they were sent to is known until
//! they are cleared from it, also when the node or the storage that the inventory declares has changed since.
//!
//! ```text
//!   there is a record    the folder is in it before anything is written there
//!   there is none yet    the folder is held, and is in the first record, the intent to clone, before the clone is asked for
//! ```

use std::sync::PoisonError;

use crate::engine::failure::Failure;
use crate::engine::host::HostRun;
use crate::state::record::Delivery;

impl HostRun {
    /// All folders that the documents were delivered to, by this run or an earlier one.
    pub fn deliveries(&self) -> Vec<Delivery> {
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let held = self.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        joined(
            record.as_ref().map_or(&[], |record| record.deliveries.as_slice()),
            &held,
        )
    }

    /// Notes a folder for the next write of the record.
    pub fn hold_delivery(&self, delivery: Delivery) {
        let mut held = self.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        if !held.contains(&delivery) {
            held.push(delivery);
        }
    }

    /// Notes a folder before anything is written there: in the record, as soon as there is one.
    pub fn note_delivery(&self, delivery: Delivery) -> Result<(), Failure> {
        self.hold_delivery(delivery);
        match self.phase() {
            Some(phase) => self.record_phase(phase),
            None => Ok(()),
        }
    }

    /// The documents are seen to be cleared from all folders.
    pub fn clear_deliveries(&self) -> Result<(), Failure> {
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        match record.as_ref() {
            Some(old) if !old.deliveries.is_empty() => {
                let mut new = old.with(old.phase.clone());
                new.deliveries.clear();
                self.write_record(&new)?;
                *record = Some(new);
                Ok(())
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Both lists, each folder once.
pub(super) fn joined(one: &[Delivery], other: &[Delivery]) -> Vec<Delivery> {
    let mut all = one.to_vec();
    all.extend(other.iter().filter(|delivery| !one.contains(delivery)).cloned());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::Fixture;
    use crate::state::Phase;

    fn at(node: &str) -> Delivery {
        Delivery {
            node: node.parse().unwrap(),
            path: "/var/lib/vz/snippets".to_owned(),
            local: false,
        }
    }

    fn created() -> Phase {
        Phase::Created {
            vmid: 100.try_into().unwrap(),
            uuid: "u".to_owned(),
            node: "pve1".parse().unwrap(),
        }
    }

    fn on_disk(fixture: &Fixture) -> Vec<Delivery> {
        let record = fixture.run.shared.state.read_record(&fixture.run.key).unwrap();
        record.map(|record| record.deliveries).unwrap_or_default()
    }

    #[test]
    fn a_folder_is_on_record_from_the_first_record_until_it_is_cleared() {
        let fixture = Fixture::new().locked();
        let run = &fixture.run;
        run.note_delivery(at("pve1")).unwrap();
        assert_eq!(
            (run.deliveries(), on_disk(&fixture)),
            (vec![at("pve1")], vec![]),
            "there is no record yet"
        );
        run.record_phase(created()).unwrap();
        assert_eq!(on_disk(&fixture), [at("pve1")]);

        run.note_delivery(at("pve2")).unwrap();
        run.note_delivery(at("pve2")).unwrap();
        assert_eq!(
            on_disk(&fixture),
            [at("pve1"), at("pve2")],
            "before anything is written there"
        );
        // One that was found to lie there already goes with the next write, be its phase the same.
        run.hold_delivery(at("pve3"));
        assert_eq!(on_disk(&fixture).len(), 2);
        run.record_phase(created()).unwrap();
        assert_eq!(on_disk(&fixture), [at("pve1"), at("pve2"), at("pve3")]);

        run.clear_deliveries().unwrap();
        assert_eq!((run.deliveries(), on_disk(&fixture)), (vec![], vec![]));
        assert_eq!(fixture.on_disk(), Some(created()));
    }
}
