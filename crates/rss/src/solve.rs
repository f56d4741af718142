//! Finds keys under which everything meets that must.
//!
//! ```text
//! needs ──pairs──▶ generators of the packet pairs that must meet
//!                        │        usable: which bits may spread at all
//!                        ▼
//!       inputs (choice) ──space──▶ equations in the key bits ──system──▶ all keys
//!                                                                          │ score
//!                                                                          ▼
//!                                                                  one key a port
//! ```

mod choice;
mod draw;
mod pairs;
mod score;
mod space;
mod system;
mod usable;

use crate::class::Class;
use crate::field::Field;
use crate::need::{Need, PacketPair, Side, Which};
use crate::nic::{HashInput, Hashing};
use crate::problem::Problem;
use crate::solution::{Cause, Impossible, Malformed, Solution, Unsteerable};
use space::Demand;
use usable::Usable;

/// Finds a key for each port, and the fields to hash for each class, so that all packets that
/// `problem` wants to meet do.
///
/// The answer is exact: every key that fulfils the needs is among those that are chosen from, and
/// the same problem has the same answer every time.
///
/// # Errors
/// [`Impossible`] names the classes that no key can spread, and the needs that are why; or what is
/// wrong with the problem.
///
/// ```
/// use anabranch_rss::{Class, Field, Need, Nic, Problem, Side, solve};
///
/// // A firewall: what comes back through port 1 must meet what went out through port 0.
/// let nic = Nic::named("82599").ok_or("no such model")?;
/// let (inside, outside) =
///     (Side { port: 0, class: Class::Ipv4Tcp }, Side { port: 1, class: Class::Ipv4Tcp });
/// let flow = [Field::Ipv4Src, Field::Ipv4Dst, Field::TcpSrc, Field::TcpDst];
/// let problem = Problem::new(&[nic, nic]).need(Need::reply(inside, outside, &flow));
/// let solution = solve(&problem)?;
/// for port in &solution.ports {
///     println!("{}", port.key);
/// }
/// assert_eq!(solution.class(inside).map(|class| class.entries()), Some(128));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve(problem: &Problem) -> Result<Solution, Impossible> {
    solve_pairs(problem, &[])
}

/// [`solve`] with conditions that are not linear in packet bits: sums, inequalities, table
/// look-ups.
///
/// `counter_examples` gets each solution and returns pairs of packets that must meet and do not;
/// none when it finds none. What they span is added to the needs until there are none left. That
/// ends after at most as many rounds as the keys have bits.
///
/// # Errors
/// As [`solve`]; [`Malformed::NoProgress`] when all the pairs that were returned meet already.
pub fn solve_with(
    problem: &Problem,
    mut counter_examples: impl FnMut(&Solution) -> Vec<PacketPair>,
) -> Result<Solution, Impossible> {
    let mut pairs: Vec<PacketPair> = Vec::new();
    loop {
        let solution = solve_pairs(problem, &pairs)?;
        let found = counter_examples(&solution);
        if found.is_empty() {
            return Ok(solution);
        }
        let differs = |pair: &PacketPair| !meets(&solution, pair);
        let known = |pair: &PacketPair| pair.sides.iter().all(|s| s.port < problem.ports.len());
        if !found.iter().all(known) || !found.iter().any(differs) {
            return Err(Impossible::Malformed(Malformed::NoProgress));
        }
        pairs.extend(found);
    }
}

/// Whether both packets of `pair` reach the same entry under `solution`.
pub fn meets(solution: &Solution, pair: &PacketPair) -> bool {
    let entry = |which: Which| {
        let side = pair.sides[which.index()];
        let port = solution.ports.get(side.port)?;
        let class = solution.class(side)?;
        Some(score::entry(
            &port.key,
            &class.input,
            &pair.packets[which.index()],
            solution.index_bits,
        ))
    };
    entry(Which::First) == entry(Which::Second)
}

fn solve_pairs(problem: &Problem, pairs: &[PacketPair]) -> Result<Solution, Impossible> {
    let index_bits = check(problem).map_err(Impossible::Malformed)?;
    let sides = sides(problem);
    let demands: Vec<Demand> =
        problem.needs.iter().enumerate().map(|(at, need)| demand(problem, at, need)).collect();
    let usable = Usable::new(problem, &sides, &demands);
    let hopeless: Vec<Unsteerable> =
        sides.iter().filter_map(|side| unsteerable(problem, &demands, &usable, *side)).collect();
    if !hopeless.is_empty() {
        return Err(Impossible::Unsteerable(hopeless));
    }
    let pairs: Vec<PacketPair> = pairs.iter().map(|pair| as_seen(problem, pair)).collect();
    choice::choose(problem, index_bits, &sides, &demands, &pairs, &usable)
}

/// All classes that the ports' NICs tell apart.
fn sides(problem: &Problem) -> Vec<Side> {
    let ports = problem.ports.iter().enumerate();
    ports
        .flat_map(|(port, spec)| spec.nic.classes().map(move |class| Side { port, class }))
        .collect()
}

fn seen(problem: &Problem, side: Side) -> Side {
    Side { class: problem.ports[side.port].nic.seen_as(side.class), ..side }
}

fn as_seen(problem: &Problem, pair: &PacketPair) -> PacketPair {
    PacketPair { sides: pair.sides.map(|side| seen(problem, side)), packets: pair.packets.clone() }
}

fn hashing(problem: &Problem, side: Side) -> Hashing {
    problem.ports[side.port].nic.hashing(side.class)
}

fn demand(problem: &Problem, at: usize, need: &Need) -> Demand {
    let sides = need.sides.map(|side| seen(problem, side));
    let [first, second] = sides.map(|side| hashing(problem, side).fields());
    Demand { need: at, sides, generators: pairs::generators(need, [&first, &second]) }
}

/// The number of index bits.
fn check(problem: &Problem) -> Result<u32, Malformed> {
    let ports = problem.ports.len();
    for (at, need) in problem.needs.iter().enumerate() {
        if let Some(side) = need.sides.iter().find(|side| side.port >= ports) {
            return Err(Malformed::NoSuchPort { need: Some(at), port: side.port });
        }
        let wrong = need.equalities.iter().position(|equality| !equality.is_well_formed());
        if let Some(equality) = wrong {
            return Err(Malformed::Equality { need: at, equality });
        }
    }
    if let Some(frame) = problem.sample.iter().find(|frame| frame.port >= ports) {
        return Err(Malformed::NoSuchPort { need: None, port: frame.port });
    }
    for (port, spec) in problem.ports.iter().enumerate() {
        let wrong =
            spec.pinned.iter().find(|(class, input)| !spec.nic.hashing(*class).allows(input));
        if let Some((class, input)) = wrong {
            return Err(Malformed::Pinned { port, class: *class, input: input.clone() });
        }
    }
    let widest = problem.ports.iter().map(|spec| spec.nic.index_bits()).min();
    let index_bits = problem.index_bits.or(widest).unwrap_or(1);
    if (1..=32).contains(&index_bits) {
        Ok(index_bits)
    } else {
        Err(Malformed::IndexBits(index_bits))
    }
}

/// Why no key can spread the packets of `side`, as far as that does not depend on the key.
fn unsteerable(
    problem: &Problem,
    demands: &[Demand],
    usable: &Usable,
    side: Side,
) -> Option<Unsteerable> {
    let needs: Vec<usize> =
        demands.iter().filter(|own| own.sides.contains(&side)).map(|own| own.need).collect();
    let found = |needs, cause| Some(Unsteerable { side, needs, cause });
    match hashing(problem, side) {
        _ if needs.is_empty() => None,
        Hashing::Undocumented => found(needs, Cause::Undocumented),
        Hashing::QueueZero => None,
        _ if usable.any(side) => None,
        _ => {
            let culprits = usable.culprits(side);
            let always =
                culprits.iter().copied().find(|at| problem.needs[*at].equalities.is_empty());
            match (always, &culprits[..]) {
                (Some(need), _) => found(vec![need], Cause::Always),
                (None, [one]) => {
                    let fields = unhashed(problem, *one);
                    found(culprits, Cause::Unhashed(fields))
                }
                (None, _) => found(culprits, Cause::Disjoint),
            }
        }
    }
}

/// The fields that a need speaks of on a side whose NIC does not hash them; all of its fields when
/// there are none such.
fn unhashed(problem: &Problem, need: usize) -> Vec<Field> {
    let need = &problem.needs[need];
    let mut all = Vec::new();
    let mut missing = Vec::new();
    for which in [Which::First, Which::Second] {
        let hashed = hashing(problem, need.sides[which.index()]).fields();
        let fields = need.fields(which);
        missing.extend(fields.iter().copied().filter(|field| !hashed.contains(field)));
        all.extend(fields);
    }
    let mut fields = if missing.is_empty() { all } else { missing };
    fields.sort();
    fields.dedup();
    fields
}

/// The input of a class that is not hashed.
static NOTHING: HashInput = HashInput::NOTHING;

/// Whether hashing `field` adds nothing for packets of `class` that nothing ties together: MAC
/// addresses of an IP packet name the next hop.
fn is_needless(class: Class, field: Field) -> bool {
    class != Class::NonIp && matches!(field, Field::EthernetDst | Field::EthernetSrc)
}
