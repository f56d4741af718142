//! Routing for NFs that are routers too: interfaces, routes, neighbours.

use anabranch_packet::Packet;

use crate::context::Context;
use crate::verdict::{Builtin, Drop, Verdict};
use crate::world::World;

/// Interfaces, routes and neighbours of one NF.
#[derive(Debug, Default)]
pub struct L3 {}

impl L3 {
    /// Reads the tables `interfaces`, `routes` and `neighbours`; `ports` are the run's port names.
    pub fn new(_configuration: &toml::Table, _ports: &[String]) -> Result<Self, String> {
        Ok(Self {})
    }

    /// Whether the operator configured interfaces.
    #[inline(always)]
    pub fn enabled(&self) -> bool {
        false
    }

    /// Answers what is addressed to the function itself.
    pub fn receive<W: World>(
        &mut self,
        _: &mut Packet<'_, W::Mode>,
        _: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        None
    }

    /// Routes the packet.
    pub fn forward<W: World>(
        &mut self,
        _: &mut Packet<'_, W::Mode>,
        _: &mut Context<'_, W>,
    ) -> Verdict {
        Drop(Builtin::NoRoute)
    }
}
