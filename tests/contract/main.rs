//! The client against what Proxmox itself says: its API schema, and exchanges recorded from its real code.
//!
//! * Every request that the client can send obeys the schema of 8.4 and 9.2 (`schema`, `requests`).
//! * Every failure on record is classified as expected (`failures`).
//! * Every success on record is read (`answers`).
//!
//! The data is not part of this crate: it is looked for in `$VMWRIGHT_REFERENCE`, else in `../shared`.

#![expect(clippy::unwrap_used, reason = "a test: what cannot be read is a failure")]

mod answers;
mod failures;
mod reference;
mod requests;
mod schema;
