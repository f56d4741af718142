//! Threads and the channels between them: the system's, or where `--cfg shuttle` is given those whose
//! schedule the model checker draws (`tests/model.rs`).

#[cfg(shuttle)]
pub(crate) use shuttle::{sync::mpsc, thread};
#[cfg(not(shuttle))]
pub(crate) use std::{sync::mpsc, thread};

/// Has this thread stay on a core, where there are real ones.
pub(crate) fn pin(core: Option<core_affinity::CoreId>) {
    if let Some(core) = core.filter(|_| cfg!(not(shuttle))) {
        core_affinity::set_for_current(core);
    }
}
