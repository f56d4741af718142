//! Packet input and output.
pub mod capture;
