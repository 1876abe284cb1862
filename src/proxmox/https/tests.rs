//! The real client against a small real HTTPS server.

use super::*;
