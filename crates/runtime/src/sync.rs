//! Threads and the channels between them: the system's, or where `--cfg shuttle` is given those whose
//! schedule the model checker draws (`tests/model.rs`).

#[cfg(shuttle)]
pub(crate) use shuttle::{sync::mpsc, thread};
#[cfg(not(shuttle))]
pub(crate) use std::{sync::mpsc, thread};
