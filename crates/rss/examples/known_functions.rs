//! Keys of well-known network functions, and how long they take to find:
//! `cargo run --release -p anabranch-rss --example known_functions`.
//!
//! Every line is the best of several repetitions: the whole of `solve`, the choice of fields and of
//! the key included, for all packet classes of IPv4 and IPv6 together.

#![allow(clippy::print_stdout)]

use anabranch_rss::{
    Bits, Class, Equality, Field, Need, Nic, Problem, Side, Solution, needs_of, solve, solve_most,
};
use std::hint::black_box;
use std::time::Instant;

const REPETITIONS: usize = 200;

/// Protocols with ports: class, addresses, ports.
const WITH_PORTS: [(Class, [Field; 2], [Field; 2]); 4] = [
    (Class::Ipv4Tcp, [Field::Ipv4Src, Field::Ipv4Dst], [Field::TcpSrc, Field::TcpDst]),
    (Class::Ipv4Udp, [Field::Ipv4Src, Field::Ipv4Dst], [Field::UdpSrc, Field::UdpDst]),
    (Class::Ipv6Tcp, [Field::Ipv6Src, Field::Ipv6Dst], [Field::TcpSrc, Field::TcpDst]),
    (Class::Ipv6Udp, [Field::Ipv6Src, Field::Ipv6Dst], [Field::UdpSrc, Field::UdpDst]),
];

fn main() {
    println!("{:<10} {:<22} {:>5} {:>10} {:>8}", "nic", "function", "rank", "dimension", "us");
    for nic in Nic::ALL {
        for (name, problem) in functions(nic) {
            report(nic, name, &problem);
        }
    }
}

fn report(nic: &Nic, name: &str, problem: &Problem) {
    let us = best_us(|| solve(problem));
    let line = |name: &str, solution: &Solution, us: f64| {
        let classes = solution.ports.iter().flat_map(|port| &port.classes);
        let ranks = classes.filter(|class| class.constrained).map(|class| class.rank);
        let rank = format!("{}/{}", ranks.min().unwrap_or(0), solution.index_bits);
        println!("{:<10} {name:<22} {rank:>5} {:>10} {us:>8.0}", nic.name, solution.dimension);
    };
    match solve(problem) {
        Ok(solution) => line(name, &solution, us),
        Err(_) => {
            println!("{:<10} {name:<22} impossible {us:>13.0}", nic.name);
            let most = solve_most(problem).ok();
            if let Some(most) = most.filter(|most| is_constrained(&most.solution)) {
                let us = best_us(|| solve_most(problem));
                line(&format!("{name}, IPv4"), &most.solution, us);
            }
        }
    }
}

/// Whether some class is served.
fn is_constrained(solution: &Solution) -> bool {
    solution.ports.iter().flat_map(|port| &port.classes).any(|class| class.constrained)
}

/// Microseconds of the fastest of several calls.
fn best_us<T>(call: impl Fn() -> T) -> f64 {
    let one = |_| {
        let start = Instant::now();
        black_box(call());
        start.elapsed().as_secs_f64() * 1e6
    };
    (0..REPETITIONS).map(one).fold(f64::INFINITY, f64::min)
}

fn functions(nic: &'static Nic) -> Vec<(&'static str, Problem)> {
    let one = || Problem::new(&[nic]);
    let two = || Problem::new(&[nic, nic]);
    let all = |problem: Problem, need: fn(Class, [Field; 2], [Field; 2]) -> Vec<Need>| {
        let needs = WITH_PORTS.into_iter().flat_map(|(class, ips, ports)| need(class, ips, ports));
        needs.fold(problem, Problem::need)
    };
    vec![
        ("policer", all(one(), |class, ips, _| vec![Need::same(at(0, class), &[ips[1]])])),
        ("symmetric", all(one(), symmetric)),
        ("firewall", all(two(), firewall)),
        ("nat of the thesis", all(two(), nat_of_the_thesis)),
        (
            "inside endpoint",
            all(one(), |c, ips, ports| vec![Need::same(at(0, c), &[ips[0], ports[0]])]),
        ),
        ("source /24 or /64", all(one(), prefix)),
        ("hosts both ways", hosts_both_ways(nic)),
        ("bridge", one().need(Need::same(at(0, Class::Ipv4Tcp), &[Field::EthernetSrc]))),
    ]
}

fn at(port: usize, class: Class) -> Side {
    Side { port, class }
}

fn symmetric(class: Class, ips: [Field; 2], ports: [Field; 2]) -> Vec<Need> {
    let flow = [ips, ports].concat();
    vec![Need::reply(at(0, class), at(0, class), &flow)]
}

fn firewall(class: Class, ips: [Field; 2], ports: [Field; 2]) -> Vec<Need> {
    let flow = [ips, ports].concat();
    vec![
        Need::same(at(0, class), &flow),
        Need::reply(at(0, class), at(1, class), &flow),
        Need::same(at(1, class), &flow),
    ]
}

fn nat_of_the_thesis(class: Class, ips: [Field; 2], ports: [Field; 2]) -> Vec<Need> {
    let swapped = |field: Field| Equality::between(field.bits(), field.swapped().bits());
    vec![Need::new(at(0, class), at(1, class), vec![swapped(ips[1]), swapped(ports[1])])]
}

/// What counts all traffic of a host needs: of every class, and both ways.
fn hosts_both_ways(nic: &'static Nic) -> Problem {
    let text = "p0.src = p0.src || p0.src = p1.dst || p1.dst = p1.dst";
    let nics = [nic, nic];
    let needs = needs_of(text, &nics).expect("every model hashes addresses");
    Problem { needs, ..Problem::new(&nics) }
}

fn prefix(class: Class, ips: [Field; 2], _: [Field; 2]) -> Vec<Need> {
    let len = if ips[0] == Field::Ipv4Src { 24 } else { 64 };
    let bits = Bits { field: ips[0], first: 0, len };
    vec![Need::new(at(0, class), at(0, class), vec![Equality::between(bits, bits)])]
}
