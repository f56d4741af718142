//! The network function (NF) language: one Rust module, read once, checked once.
//!
//! ```text
//!  author's module ──▶ Module::parse ──▶ anabranch-nf-macros (native code, compile time)
//!        │ exact text, embedded
//!        └───────────▶ Module::from_source ──▶ anabranch-analysis (symbolic world, run time)
//! ```
//!
//! Both readers see the same [`Module`], so what compiles natively is what analysis explores. The
//! language is described in `docs/nf-language.md`; [`names`] holds everything a module may name.
//! Used by `anabranch-nf-macros` and `anabranch-analysis`; `anabranch new` asks it what no type is called.

mod address;
mod check;
mod declare;
mod error;
mod kebab;
pub mod macros;
mod module;
pub mod names;
mod parse;
mod source;

pub use address::mac_octets;
pub use declare::{
    Command, Commands, Handlers, KeyField, KeyList, NfStruct, PacketSet, Packets, Periodic, Ports,
    Protocol, Reason, Reasons, Setting, SettingType, Settings, StateField, StateKind,
};
pub use error::Problem;
pub use kebab::kebab;
pub use module::{Method, Module};
pub use parse::{Opaque, opaque};
