//! What the fuzz targets and the seeded tests run, each on any bytes. Panics where an invariant of
//! this crate is broken.

mod check;
mod mutate;

pub use check::{checksums, crafted, embedded, read};
pub use mutate::{Seeds, samples, with_packet};
