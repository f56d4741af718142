//! Keys: what the NIC hashes class by class, and what is left to software.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anabranch_rss::{
    Class as NicClass, ClassSolution, Equality, Field, Key, Malformed, Need, Nic, Partial, Problem,
    Side as NicSide, Solution, Which, solve_most,
};

use crate::class::Class;
use crate::constraint::{Constraint, Side};
use crate::model::{Input, Port, PortClass, Steerer};
use crate::ranges::{Range, hashed, ranges};
use crate::space::Deciding;
use crate::word::{FieldId, Fields};

/// Packets of one class that the NIC treats alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Lane {
    side: Side,
    nic: NicClass,
}

/// Keys and steering for all ports.
pub(crate) struct Keys {
    pub(crate) ports: Vec<Port>,
    pub(crate) index_bits: u32,
    /// Classes that no hash spreads, by port.
    pub(crate) together: Vec<(usize, String)>,
}

/// What is asked for.
pub(crate) struct Wanted<'a> {
    pub(crate) nic: &'static Nic,
    pub(crate) seed: u64,
    pub(crate) ports: &'a [String],
    pub(crate) constraints: Vec<&'a Constraint>,
    pub(crate) deciding: &'a Deciding,
    pub(crate) fields: &'a Fields,
    /// Fields that bring back what an allocator gave out.
    pub(crate) brought: BTreeSet<(Side, FieldId)>,
    /// Whether there are fragments.
    pub(crate) fragments: bool,
}

/// Of a value that an allocator gives out so many bits are hashed beside those that tell the shards apart.
/// A shard then has its values in 16 runs, all over the range: a range that does not begin at zero is
/// divided to within a sixteenth, and what lies in memory under neighbouring values is mostly one
/// worker's.
const RUN_BITS: u32 = 4;

/// What the NIC makes of the packets of a class.
const fn seen(class: Class) -> &'static [NicClass] {
    match class {
        Class::Ipv4Tcp => &[NicClass::Ipv4Tcp, NicClass::Ipv4Fragment],
        Class::Ipv4Udp => &[NicClass::Ipv4Udp, NicClass::Ipv4Fragment],
        Class::Ipv4Icmp => &[NicClass::Ipv4, NicClass::Ipv4Fragment],
        Class::Ipv4Error | Class::Ipv4EchoError => &[NicClass::Ipv4],
        Class::Ipv4 => &[NicClass::Ipv4, NicClass::Ipv4Sctp, NicClass::Ipv4Fragment],
        Class::Ipv6Tcp => &[NicClass::Ipv6Tcp, NicClass::Ipv6Fragment],
        Class::Ipv6Udp => &[NicClass::Ipv6Udp, NicClass::Ipv6Fragment],
        Class::Ipv6Icmp => &[NicClass::Ipv6, NicClass::Ipv6Fragment],
        Class::Ipv6Error | Class::Ipv6EchoError => &[NicClass::Ipv6],
        Class::Ipv6 => &[NicClass::Ipv6, NicClass::Ipv6Sctp, NicClass::Ipv6Fragment],
        Class::NonIp => &[NicClass::NonIp],
    }
}

impl Lane {
    fn of_nic(self) -> NicSide {
        NicSide { port: self.side.0, class: self.nic }
    }

    fn is_fragment(self) -> bool {
        matches!(self.nic, NicClass::Ipv4Fragment | NicClass::Ipv6Fragment)
    }

    fn name(self) -> String {
        let class = self.side.1;
        match self.nic {
            NicClass::Ipv4Fragment | NicClass::Ipv6Fragment
                if matches!(class, Class::Ipv4 | Class::Ipv6) =>
            {
                format!("{class}-later-fragment")
            }
            NicClass::Ipv4Fragment | NicClass::Ipv6Fragment => format!("{class}-first-fragment"),
            NicClass::Ipv4Sctp | NicClass::Ipv6Sctp => format!("{class}-sctp"),
            _ => class.to_string(),
        }
    }
}

fn lanes(wanted: &Wanted<'_>) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for port in 0..wanted.ports.len() {
        for class in Class::ALL {
            let all = seen(class).iter().map(|nic| Lane { side: (port, class), nic: *nic });
            lanes.extend(all.filter(|lane| wanted.fragments || !lane.is_fragment()));
        }
    }
    lanes
}

/// What a plan has an entry for at each port, and the class that it is to a NIC.
pub(crate) fn lanes_of_port(fragments: bool) -> impl Iterator<Item = (String, NicClass)> {
    let each = Class::ALL
        .into_iter()
        .flat_map(|class| seen(class).iter().map(move |nic| Lane { side: (0, class), nic: *nic }));
    each.filter(move |lane| fragments || !lane.is_fragment()).map(|lane| (lane.name(), lane.nic))
}

/// Keys under which everything meets that must.
///
/// # Errors
/// The NIC model and the needs contradict each other: a fault of the caller.
pub(crate) fn keys(wanted: &Wanted<'_>) -> Result<Keys, Malformed> {
    let lanes = lanes(wanted);
    let mut software: BTreeSet<Lane> =
        lanes.iter().copied().filter(|lane| wanted.is_beyond(*lane)).collect();
    let mut runs = !wanted.brought.is_empty();
    let mut partial = solve_most(&wanted.problem(&lanes, &software, runs))?;
    if runs && lacking(&partial) > (0, 0) {
        // Runs are worth less than a class that the NIC steers, and to more entries.
        let other = solve_most(&wanted.problem(&lanes, &software, false))?;
        if lacking(&other) < lacking(&partial) {
            (runs, partial) = (false, other);
        }
    }
    while !partial.left_out.is_empty() {
        let before = software.len();
        for left in &partial.left_out {
            software.extend(lanes.iter().copied().filter(|lane| {
                let class = wanted.nic.seen_as(lane.nic);
                lane.side.0 == left.side.port
                    && class == left.side.class
                    && wanted.is_constrained(lane.side)
            }));
        }
        if software.len() == before {
            break;
        }
        partial = solve_most(&wanted.problem(&lanes, &software, runs))?;
    }
    let solution = partial.solution;
    let mut placing = Placing::new(wanted, &solution, &lanes, &software);
    let mut ports = Vec::new();
    let mut together = Vec::new();
    for (number, name) in wanted.ports.iter().enumerate() {
        let own: Vec<Lane> = lanes.iter().copied().filter(|lane| lane.side.0 == number).collect();
        let classes: Vec<PortClass> = own.iter().map(|lane| placing.class(*lane)).collect();
        together.extend(
            classes
                .iter()
                .filter(|class| class.by == Steerer::OneShard)
                .map(|class| (number, class.class.clone())),
        );
        ports.push(port(name, &solution, number, classes));
    }
    Ok(Keys { ports, index_bits: solution.index_bits, together })
}

/// What keys lack, the less the better: classes that they leave out, then bits of the entry that packets of a class
/// do not reach, over all classes.
fn lacking(partial: &Partial) -> (usize, u32) {
    let classes = partial.solution.ports.iter().flat_map(|port| &port.classes);
    let hashed = classes.filter(|class| !class.input.fields().is_empty());
    let bits = hashed.map(|class| partial.solution.index_bits - class.rank);
    (partial.left_out.len(), bits.sum())
}

fn port(name: &str, solution: &Solution, number: usize, classes: Vec<PortClass>) -> Port {
    let flows = || {
        classes.iter().filter(|class| Class::named(&class.class).is_some_and(Class::carries_flows))
    };
    let mut fields: Vec<String> = Vec::new();
    for input in flows().filter(|class| class.by != Steerer::OneShard).flat_map(|one| &one.input) {
        if input.field != "-" && !fields.contains(&input.field) {
            fields.push(input.field.clone());
        }
    }
    let key = solution.ports.get(number).map_or_else(String::new, |port| hex(&port.key));
    let rank = flows().map(|class| class.rank).min().unwrap_or(0);
    Port { port: name.to_owned(), fields, key, rank, classes }
}

/// A key as hexadecimal digits.
fn hex(key: &Key) -> String {
    key.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Wanted<'_> {
    fn is_constrained(&self, side: Side) -> bool {
        self.constraints.iter().any(|constraint| constraint.sides.contains(&side))
    }

    /// Whether nothing that may decide is a field that NICs hash for such packets.
    fn is_beyond(&self, lane: Lane) -> bool {
        if !self.is_constrained(lane.side) {
            return false;
        }
        let hashed_here = self.nic.hashing(lane.nic).fields();
        let deciding = self.deciding.fields(lane.side);
        let can = |field: &FieldId| hashed_here.contains(&hashed(*field, self.fields));
        // A fragment meets the whole packets of its flow: all that decides there must be in it.
        if lane.is_fragment() && !deciding.iter().all(can) {
            return true;
        }
        !deciding.is_empty() && !deciding.iter().any(can)
    }

    /// Each need once: classes that the NIC treats alike have the same. With `runs` steered values near one
    /// another meet.
    fn problem(&self, lanes: &[Lane], software: &BTreeSet<Lane>, runs: bool) -> Problem {
        let nics = vec![self.nic; self.ports.len()];
        let mut problem = Problem::new(&nics).seed(self.seed);
        let mut distinct: Vec<Vec<Equality>> = Vec::new();
        let mut needs: BTreeSet<(usize, [NicSide; 2])> = BTreeSet::new();
        for constraint in &self.constraints {
            let equalities = self.equalities(constraint, runs);
            let number = distinct.iter().position(|known| *known == equalities);
            let number = number.unwrap_or(distinct.len());
            if number == distinct.len() {
                distinct.push(equalities);
            }
            let sides_of = |side: Side| {
                let own = lanes.iter().filter(move |lane| lane.side == side);
                own.filter(|lane| !software.contains(lane)).map(|lane| lane.of_nic())
            };
            for first in sides_of(constraint.sides[0]) {
                for second in sides_of(constraint.sides[1]) {
                    if needs.insert((number, [first, second])) {
                        problem.needs.push(Need::new(first, second, distinct[number].clone()));
                    }
                }
            }
        }
        problem
    }

    fn equalities(&self, constraint: &Constraint, runs: bool) -> Vec<Equality> {
        let brought = |which: Which, field| {
            runs && self.brought.contains(&(constraint.sides[which.index()], field))
        };
        let near = self.nic.index_bits() + RUN_BITS;
        let ranges = ranges(&constraint.equations);
        let equality = |range: Range| match range.is_of_whole(self.fields, brought) {
            true => range.first_bits(near as u16).equality(self.fields),
            false => range.equality(self.fields),
        };
        ranges.into_iter().map(equality).collect()
    }
}

/// Where software puts the fields that a NIC does not hash: in the places of a class that it does
/// hash, so that what must meet does.
struct Placing<'a> {
    wanted: &'a Wanted<'a>,
    solution: &'a Solution,
    software: &'a BTreeSet<Lane>,
    /// Classes that the NIC steers, those of TCP and UDP first.
    references: Vec<Lane>,
    /// Places given to fields that nothing else decides, by what they must agree with.
    given: HashMap<Vec<usize>, Option<(Lane, Field)>>,
}

/// What software hashes: fields in the places of another class.
struct Placed {
    reference: Lane,
    places: BTreeMap<Field, FieldId>,
}

impl<'a> Placing<'a> {
    fn new(
        wanted: &'a Wanted<'a>,
        solution: &'a Solution,
        lanes: &[Lane],
        software: &'a BTreeSet<Lane>,
    ) -> Self {
        let mut references: Vec<Lane> = lanes
            .iter()
            .copied()
            .filter(|lane| !software.contains(lane) && !lane.is_fragment())
            .collect();
        references.sort_by_key(|lane| !lane.side.1.carries_flows());
        Self { wanted, solution, software, references, given: HashMap::new() }
    }

    fn of_nic(&self, lane: Lane) -> Option<&'a ClassSolution> {
        self.solution.class(lane.of_nic())
    }

    fn class(&mut self, lane: Lane) -> PortClass {
        if !self.software.contains(&lane) {
            return self.hashed_by_nic(lane);
        }
        match self.placed(lane) {
            Some(placed) => self.in_software(lane, &placed),
            None => PortClass {
                class: lane.name(),
                by: Steerer::OneShard,
                input: Vec::new(),
                key_of: None,
                rank: 0,
            },
        }
    }

    fn hashed_by_nic(&self, lane: Lane) -> PortClass {
        let own = self.of_nic(lane);
        let rank = own.map_or(0, |own| own.rank);
        let fields = own.map_or(&[][..], |own| own.input.fields());
        let input = fields
            .iter()
            .map(|field| Input { place: field.name().to_owned(), field: field.name().to_owned() });
        let by = if rank == 0 { Steerer::OneShard } else { Steerer::Nic };
        PortClass { class: lane.name(), by, input: input.collect(), key_of: None, rank }
    }

    /// A class of the NIC's whose deciding fields are, bit by bit, those of this one.
    fn placed(&mut self, lane: Lane) -> Option<Placed> {
        let own = self.words(lane.side);
        let mut references: Vec<Lane> = self.references.clone();
        references.sort_by_key(|one| (one.side != lane.side, one.side.0 != lane.side.0));
        for reference in references {
            let theirs = self.words(reference.side);
            let mut places = BTreeMap::new();
            for (field, word) in &own {
                let mut alike: Vec<FieldId> = theirs
                    .iter()
                    .filter(|(_, other)| *other == word)
                    .map(|(there, _)| *there)
                    .filter(|there| !places.contains_key(&hashed(*there, self.wanted.fields)))
                    .collect();
                alike.sort_by_key(|there| there != field);
                if let Some(there) = alike.first() {
                    places.insert(hashed(*there, self.wanted.fields), *field);
                }
            }
            if !places.is_empty() && self.decides(reference, places.keys()) {
                return Some(Placed { reference, places });
            }
        }
        self.placed_anew(lane, &own)
    }

    /// The deciding fields of a side, each with the coefficients of its bits.
    fn words(&self, side: Side) -> BTreeMap<FieldId, Vec<usize>> {
        let mut words: BTreeMap<FieldId, Vec<usize>> = BTreeMap::new();
        for ((field, _), coefficient) in self.wanted.deciding.bits.get(&side).into_iter().flatten()
        {
            words.entry(*field).or_default().push(*coefficient);
        }
        words
    }

    fn decides<'f>(&self, lane: Lane, fields: impl Iterator<Item = &'f Field>) -> bool {
        let Some(own) = self.of_nic(lane) else { return false };
        let mut fields = fields;
        fields.any(|field| own.mixes.iter().any(|mixed| mixed.field == *field && mixed.bits > 0))
    }

    /// Places for fields that meet nothing a NIC steers: any that decide, alike for what must meet.
    fn placed_anew(&mut self, lane: Lane, own: &BTreeMap<FieldId, Vec<usize>>) -> Option<Placed> {
        let mut placed: Option<Placed> = None;
        for (field, word) in own {
            let given = match self.given.get(word) {
                Some(given) => *given,
                None => {
                    let free = self.free_place(lane, *field, placed.as_ref());
                    self.given.insert(word.clone(), free);
                    free
                }
            };
            let Some((reference, place)) = given else { continue };
            let placed = placed.get_or_insert(Placed { reference, places: BTreeMap::new() });
            if placed.reference == reference {
                placed.places.entry(place).or_insert(*field);
            }
        }
        placed
    }

    fn free_place(
        &self,
        lane: Lane,
        field: FieldId,
        placed: Option<&Placed>,
    ) -> Option<(Lane, Field)> {
        let width = self.wanted.fields.width(field);
        let own = hashed(field, self.wanted.fields);
        let mut references: Vec<Lane> = match placed {
            Some(placed) => vec![placed.reference],
            None => self.references.clone(),
        };
        references.sort_by_key(|one| (one.side.0 != lane.side.0, !one.side.1.carries_flows()));
        references.into_iter().find_map(|reference| {
            let mixes = &self.of_nic(reference)?.mixes;
            let taken = |place: &Field| placed.is_some_and(|one| one.places.contains_key(place));
            let fits = |place: Field| place == own || place.width() >= width;
            let mut free: Vec<Field> = mixes
                .iter()
                .filter(|mixed| mixed.bits > 0 && fits(mixed.field) && !taken(&mixed.field))
                .map(|mixed| mixed.field)
                .collect();
            free.sort_by_key(|place| (*place != own, place.width()));
            free.first().map(|place| (reference, *place))
        })
    }

    fn in_software(&self, lane: Lane, placed: &Placed) -> PortClass {
        let fields = self.of_nic(placed.reference).map_or(&[][..], |own| own.input.fields());
        let input: Vec<Input> = fields
            .iter()
            .map(|place| {
                let held = placed.places.get(place).map(|field| self.wanted.fields.name(*field));
                Input { place: place.name().to_owned(), field: held.unwrap_or("-").to_owned() }
            })
            .collect();
        let other = placed.reference.side.0 != lane.side.0;
        let key_of =
            other.then(|| self.wanted.ports.get(placed.reference.side.0).cloned()).flatten();
        let rank = self.rank(placed, fields);
        let by = if rank == 0 { Steerer::OneShard } else { Steerer::Software };
        PortClass { class: lane.name(), by, input, key_of, rank }
    }

    /// Rank of the hash over the bits that are placed.
    fn rank(&self, placed: &Placed, fields: &[Field]) -> u32 {
        let Some(port) = self.solution.ports.get(placed.reference.side.0) else { return 0 };
        let mut basis: Vec<u32> = Vec::new();
        let mut offset = 0;
        for place in fields {
            let width = usize::from(place.width());
            if let Some(field) = placed.places.get(place) {
                let own = usize::from(self.wanted.fields.width(*field)).min(width);
                for bit in offset + width - own..offset + width {
                    add(&mut basis, window(&port.key, bit) & low(self.solution.index_bits));
                }
            }
            offset += width;
        }
        basis.len() as u32
    }
}

fn low(bits: u32) -> u32 {
    u32::MAX.checked_shr(32 - bits.min(32)).unwrap_or(0)
}

/// The 32 bits of the key that a set input bit adds to the hash.
fn window(key: &Key, bit: usize) -> u32 {
    (0..32).fold(0, |window, at| {
        let place = bit + at;
        let byte = key.as_bytes().get(place / 8).copied().unwrap_or(0);
        window << 1 | u32::from(byte >> (7 - place % 8) & 1)
    })
}

/// Adds a vector to a basis, unless it is a sum of what is there.
fn add(basis: &mut Vec<u32>, vector: u32) {
    let reduced = basis.iter().fold(vector, |vector, known| vector.min(vector ^ known));
    if reduced != 0 {
        basis.push(reduced);
        basis.sort_unstable_by(|a, b| b.cmp(a));
    }
}

/// Fields of a constraint, of both packets.
pub(crate) fn all_fields(constraint: &Constraint) -> [BTreeSet<FieldId>; 2] {
    [constraint.fields(Which::First), constraint.fields(Which::Second)]
}
