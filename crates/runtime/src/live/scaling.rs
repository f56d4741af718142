//! Receive-side scaling as planned: a NIC that can be told brings packets to their owners by itself.
//!
//! Workers hash what they receive in any case, and hand over what is not theirs: a NIC that was told right
//! leaves them nothing to hand over, and one that was not, or cannot be told, costs time only.

use anabranch_io::live::{
    Channels, Driver, Interface, LiveKind, LivePort, LiveSpec, Spread, Wanted,
};
use anabranch_plan::{Plan, Port, Steerer};
use anabranch_rss::IndirectionTable;

use crate::run::{Arrangement, Options};

/// What has become of a port's scaling.
pub(super) enum Scaling {
    /// Nobody has asked for any.
    Untouched,
    /// It is as planned, as long as this lives.
    Planned {
        /// Puts back what was there before.
        _spread: Spread<Box<dyn Driver + Send>>,
    },
    /// It cannot be.
    Refused(String),
}

impl Scaling {
    /// Has the NIC of each port spread packets as the plan says, where workers own shards and queues are the
    /// NIC's.
    pub(super) fn of_all(
        specs: &[LiveSpec],
        ports: &mut [LivePort],
        options: &Options,
        arrangement: &Arrangement,
    ) -> Vec<Self> {
        let ports = specs.iter().zip(ports).zip(&options.making.ports);
        let of = |((spec, port), name): ((&LiveSpec, &mut LivePort), &String)| {
            let plan = options.plan.as_ref().ok().filter(|_| arrangement.is_sharded());
            let table = &arrangement.table;
            let set = match (plan, port.driver.take()) {
                (Some(plan), Some(driver)) => set(driver, plan, name, table),
                (Some(plan), None) if spec.kind == LiveKind::Xdp => {
                    interface(&spec.interface, table)
                        .and_then(|driver| set(driver, plan, name, table))
                }
                _ => Ok(Self::Untouched),
            };
            set.unwrap_or_else(Self::Refused)
        };
        ports.map(of).collect()
    }

    /// What there is to say of it at the start, after what is said of the port.
    pub(super) fn about(&self) -> String {
        match self {
            Self::Untouched => String::new(),
            Self::Planned { .. } => "; key, fields and indirection table are as planned".to_owned(),
            Self::Refused(why) => format!("; the plan's key is not the NIC's: {why}"),
        }
    }

    /// Whether packets come to their owners by themselves.
    pub(super) fn is_planned(&self) -> bool {
        matches!(self, Self::Planned { .. })
    }
}

/// The driver of an interface that has a queue for each worker.
fn interface(name: &str, table: &IndirectionTable) -> Result<Box<dyn Driver + Send>, String> {
    let driver = Interface::named(name);
    let channels = driver.as_ref().ok().and_then(|driver| driver.channels().ok());
    let channels = channels.unwrap_or(Channels { receive: 1, most: 1, are_combined: true });
    let (queues, workers) = (channels.receive as usize, table.workers());
    if queues < workers {
        let command = channels.command(name, workers);
        return Err(format!("its queues are {queues}, and workers {workers} (`{command}`)"));
    }
    Ok(Box::new(driver.map_err(|cause| cause.to_string())?))
}

fn set(
    driver: Box<dyn Driver + Send>,
    plan: &Plan,
    port: &str,
    table: &IndirectionTable,
) -> Result<Scaling, String> {
    let named = |name: &str| plan.ports.iter().find(|one| one.port == name);
    let port = named(port).or_else(|| named("any")).ok_or("it has none in the plan")?;
    Ok(Scaling::Planned { _spread: Spread::by(driver, &wanted(port, table))? })
}

/// What a port's NIC is to do.
fn wanted(port: &Port, table: &IndirectionTable) -> Wanted {
    let digits = port.key.as_bytes().chunks(2);
    let key = digits.filter_map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
    let by_nic = |class: &&anabranch_plan::PortClass| class.by == Steerer::Nic;
    let classes = port.classes.iter().filter(by_nic).map(|class| {
        let fields = class.input.iter().map(|input| input.place.clone()).collect();
        (class.class.clone(), fields)
    });
    Wanted { key: key.collect(), queues: table.as_queues().to_vec(), classes: classes.collect() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use anabranch_nfs::firewall;
    use anabranch_plan::Options as Planning;
    use anabranch_rss::Nic;

    use super::*;
    use crate::deployment::plan_of;

    #[test]
    fn a_nic_is_told_what_the_plan_says() {
        let nic = Nic::named("e810").unwrap();
        let plan = plan_of::<firewall::Function>(&Planning::new(nic)).unwrap();
        let table = IndirectionTable::new(512, 512, 2).unwrap();
        let wanted = wanted(&plan.ports[0], &table);
        assert_eq!((wanted.key.len(), wanted.queues.len()), (52, 512));
        assert_eq!(wanted.queues[..4], [0, 1, 0, 1]);
        let udp = wanted.classes.iter().find(|(class, _)| class == "ipv4-udp").unwrap();
        assert_eq!(udp.1, ["ipv4.src", "ipv4.dst", "udp.src", "udp.dst"]);
        let why = |interface: Result<Box<dyn Driver + Send>, String>| interface.err().unwrap();
        assert!(why(interface("lo", &table)).contains("queues are 1, and workers 2"));
        let lo = || interface("lo", &IndirectionTable::new(512, 512, 1).unwrap()).unwrap();
        let why = |set: Result<Scaling, String>| set.err().unwrap();
        assert!(why(set(lo(), &plan, "elsewhere", &table)).contains("none in the plan"));
        assert!(why(set(lo(), &plan, "inside", &table)).contains("as it likes"));
    }
}
