//! The embedded cluster against the facts: its own behaviour, the published API schema, and recorded exchanges.

mod behaviour;
mod contract;
mod recordings;
mod replay_world;
mod support;
