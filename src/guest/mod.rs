//! Logging in to machines with the system `ssh`.
