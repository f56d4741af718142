//! Hosts on a switch on one side of the function, and on the other a server with many addresses.

use crate::lab::{Function, Kind, Lab};

pub const SERVER: &str = "10.0.0.1";

/// A laboratory with `hosts`, whose addresses are 10.0.0.2, 10.0.0.3 and so on, and `server`, which has
/// 10.0.1.0/24 besides [`SERVER`]. `None`: see [`Lab::open`].
pub fn open(kind: Kind, hosts: &[&str], programs: &[&str]) -> Option<Lab> {
    let mut lab = Lab::open_with(kind, programs)?;
    lab.switch("switch");
    lab.host("server");
    lab.ip("server", "route add local 10.0.1.0/24 dev lo");
    for (number, host) in hosts.iter().enumerate() {
        lab.host(host);
        lab.plug(host, "e", "switch");
        lab.ip(host, &format!("addr add 10.0.0.{}/16 dev e", number + 2));
    }
    Some(lab)
}

/// Starts the function with its port `inner` to the hosts and `outer` to the server.
pub fn start<'l>(lab: &'l Lab, nf: &str, options: &str, ports: [&str; 2]) -> Function<'l> {
    let function = lab.start(nf, options, &attached(ports));
    lab.ip("switch", "link set e master sw");
    lab.ip("server", &format!("addr add {SERVER}/16 dev e"));
    function
}

/// Starts it anew, when it has finished.
pub fn start_again<'l>(lab: &'l Lab, nf: &str, options: &str, ports: [&str; 2]) -> Function<'l> {
    lab.start_again(nf, &format!("{options} --workers 2"), &attached(ports))
}

fn attached([inner, outer]: [&str; 2]) -> [(&str, &str); 2] {
    [(inner, "switch"), (outer, "server")]
}
