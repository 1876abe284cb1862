//! Readers of events: they turn what the engine tells into lines, tables and files, and know nothing else of the run.
//!
//! stdout is data, stderr is talk; nothing is told by colour alone; output is right in a pipe and at 80 columns.

pub mod diagnostic;
pub mod history;
pub mod human;
pub mod journal;
pub mod ndjson;
pub mod recap;
pub mod table;

use std::time::Duration;

pub use crate::diagnose::count;

/// A duration for people: `0.4 s`, `12.3 s`, `3 min 05 s`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_say_them() {
        assert_eq!(duration(Duration::from_millis(420)), "0.4 s");
        assert_eq!(duration(Duration::from_secs(185)), "3 min 05 s");
    }
}
