//! Login.
