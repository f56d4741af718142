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
mod groups;
mod pairs;
mod setting;
mod space;
mod system;
mod usable;
mod verify;

pub(crate) use pairs::{contradict, low};

use crate::need::{PacketPair, Which};
use crate::nic::HashInput;
use crate::problem::Problem;
use crate::score::entry_of;
use crate::solution::{Impossible, Malformed, Solution, Unsteerable};
use setting::Setting;

pub use verify::{Broken, broken_needs};

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
    find_all(&Setting::new(problem).map_err(Impossible::Malformed)?, &[])
}

/// [`solve`] with conditions that are not linear in packet bits: sums, inequalities, table
/// look-ups.
///
/// `counter_examples` gets each solution and returns pairs of packets that must meet and do not;
/// none when it finds none. What they span is added to the needs until there are none left. That
/// ends after at most as many rounds, for each choice of fields, as the keys have bits.
///
/// # Errors
/// As [`solve`]; [`Malformed::NoProgress`] when all the pairs that were returned meet already.
pub fn solve_with(
    problem: &Problem,
    mut counter_examples: impl FnMut(&Solution) -> Vec<PacketPair>,
) -> Result<Solution, Impossible> {
    let setting = Setting::new(problem).map_err(Impossible::Malformed)?;
    let mut pairs: Vec<PacketPair> = Vec::new();
    loop {
        let solution = find_all(&setting, &pairs)?;
        let found = counter_examples(&solution);
        if found.is_empty() {
            return Ok(solution);
        }
        let differs = |pair: &PacketPair| !meets(&solution, pair);
        let known = |pair: &PacketPair| pair.sides.iter().all(|s| s.port < problem.ports.len());
        if !found.iter().all(known) || !found.iter().any(differs) {
            return Err(Impossible::Malformed(Malformed::NoProgress));
        }
        pairs.extend(found.iter().map(|pair| setting.as_seen(pair)));
    }
}

/// Keys for as many packets as possible, where [`solve`] would find none for all: the classes that
/// are left out, each with its cause, need software steering: they go wherever the key of the
/// others takes them.
///
/// Classes that needs tie together are left out together. Those that the sample has more frames of
/// are served first; without a sample, TCP before UDP before the rest, IPv4 before IPv6.
///
/// # Errors
/// [`Malformed`], as [`solve`].
pub fn solve_most(problem: &Problem) -> Result<Partial, Malformed> {
    Ok(groups::serve_most(&Setting::new(problem)?))
}

/// Keys, and the classes that they do not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Keys under which everything else meets that must.
    pub solution: Solution,
    /// Indices of the needs that are met, ascending.
    pub met: Vec<usize>,
    /// The classes whose needs are not met, and why.
    pub left_out: Vec<Unsteerable>,
}

/// Whether both packets of `pair` reach the same entry under `solution`.
pub fn meets(solution: &Solution, pair: &PacketPair) -> bool {
    let entry = |which: Which| {
        let side = pair.sides[which.index()];
        let port = solution.ports.get(side.port)?;
        let class = solution.class(side)?;
        Some(entry_of(&port.key, &class.input, &pair.packets[which.index()], solution.index_bits))
    };
    entry(Which::First) == entry(Which::Second)
}

fn find_all(setting: &Setting, pairs: &[PacketPair]) -> Result<Solution, Impossible> {
    let all: Vec<usize> = (0..setting.problem.needs.len()).collect();
    setting
        .find(&all, pairs)
        .map_err(|stuck| Impossible::Unsteerable(groups::explain(setting, stuck)))
}

/// The input of a class that is not hashed.
static NOTHING: HashInput = HashInput::NOTHING;
