//! Functions as their plans have them run: who gets which packet, and replies that come home.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_io::Trace;
use anabranch_io::capture::Record;
use anabranch_nf::NetworkFunction;
use anabranch_packet::{Frame, Meta, Packet, Real, parse};
use anabranch_plan::{Options, Plan};
use anabranch_rss::Nic;
use anabranch_runtime::deployment::plan_of;
use anabranch_runtime::steer::Steering;

use crate::BenchError;

/// Names of the ports of a function on the bench.
pub fn ports<N: NetworkFunction>() -> Vec<String> {
    let named: Vec<String> = N::PORTS.iter().map(|&name| name.to_owned()).collect();
    if named.is_empty() { vec!["p0".to_owned(), "p1".to_owned()] } else { named }
}

/// The plan of `N`, made once.
///
/// # Errors
/// A function that cannot be analysed.
pub fn plan<N: NetworkFunction>() -> Result<Arc<Plan>, BenchError> {
    static KNOWN: Mutex<BTreeMap<&str, Arc<Plan>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(plan) = known.get(N::NAME) {
        return Ok(Arc::clone(plan));
    }
    let Some(nic) = Nic::named("e810") else { unreachable!("it is one of the models") };
    let plan = plan_of::<N>(&Options::new(nic));
    let plan = Arc::new(plan.map_err(|why| BenchError::Settings(why.to_string()))?);
    known.insert(N::NAME, Arc::clone(&plan));
    Ok(plan)
}

/// How the packets of `N` find their shard.
///
/// # Errors
/// A function that cannot be analysed.
pub fn steering<N: NetworkFunction>() -> Result<Arc<Steering>, BenchError> {
    let steering = Steering::new(&*plan::<N>()?, &ports::<N>());
    Ok(Arc::new(steering.map_err(|why| BenchError::Settings(why.to_string()))?))
}

/// A packet that has left: its port and its bytes.
pub type Left = Option<(u8, Vec<u8>)>;

/// Where replies go: who has sent a packet on, and how it calls itself outside.
type End = (u8, Ipv4Addr, u16);

/// Replies addressed as one run of the function expects them, by how another one does: steered
/// allocation gives out other ports than one worker does.
#[derive(Default)]
pub struct Readdressed(HashMap<End, End>);

impl Readdressed {
    /// What the same packets came to in both runs.
    pub fn learn(&mut self, here: &Left, there: &Left) {
        if let (Some((_, here)), Some((_, there))) = (here, there)
            && let (Some(here), Some(there)) = (source(here), source(there))
        {
            self.0.insert(there, here);
        }
    }

    /// `trace` with its replies readdressed.
    pub fn apply(&self, trace: &Trace) -> Trace {
        let mut changed = Trace::new();
        for (index, record) in trace.records().iter().enumerate() {
            let mut bytes = trace.bytes(index).to_vec();
            self.readdress(&mut bytes, record.wire_len);
            let (timestamp_ns, wire_len) = (record.arrival_ns, record.wire_len);
            changed.push(record.port, &Record { timestamp_ns, wire_len, bytes: &bytes });
        }
        changed
    }

    fn readdress(&self, bytes: &mut [u8], wire_len: u32) {
        let (layout, len) = (parse(bytes, wire_len), bytes.len());
        let mut frame = Frame::new(bytes, 0, len, 0, Meta { wire_len, ..Meta::default() });
        let mut packet = Packet::<Real>::new(&mut frame, layout);
        let end = packet.ipv4().map(|ip| ip.dst()).zip(packet.dst_port());
        let here = end.and_then(|(dst, port)| self.0.get(&(layout.protocol(), dst, port)));
        if let Some(&(_, dst, port)) = here {
            packet.set_destination(dst, port);
        }
    }
}

fn source(bytes: &[u8]) -> Option<End> {
    let mut bytes = bytes.to_vec();
    let (layout, len) = (parse(&bytes, bytes.len() as u32), bytes.len());
    let mut frame = Frame::new(&mut bytes, 0, len, 0, Meta::default());
    let packet = Packet::<Real>::new(&mut frame, layout);
    Some((layout.protocol(), packet.ipv4()?.src(), packet.src_port()?))
}
