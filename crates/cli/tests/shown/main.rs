//! What the whole shows from the outside: real captures through every network function, checked by
//! `tshark`; one and many workers; plain models of what functions should do; the capture's clock.
//!
//! `cargo test --package anabranch --test shown -- --nocapture` prints the figures that
//! `docs/captures.md` quotes. Tests of real captures look for `../shared/traces` beside the workspace
//! and say so where it is absent.

#![allow(clippy::unwrap_used)] // a test that cannot go on fails
#![allow(clippy::print_stdout)] // the figures are asked for with `--nocapture`

mod accounts;
mod captures;
mod clock;
mod files;
mod generated;
mod models;
mod play;
mod program;
mod scenarios;
mod sharing;
mod sides;
mod steered;
mod traces;
mod tshark;
mod workers;
