//! Which bits of which packets may influence the entry at all, whatever the key: a bit that may
//! differ between two packets that must meet, with nothing else differing that is hashed, may not.

use crate::field::Field;
use crate::need::Side;
use crate::nic::HashInput;
use crate::solve::pairs::PairBit;
use crate::solve::setting::Setting;
use crate::solve::space::Demand;

/// The bits that may spread, per class.
pub(crate) struct Usable {
    classes: Vec<Bits>,
}

struct Bits {
    side: Side,
    /// Every field that the NIC can hash for this class.
    all: HashInput,
    /// For each bit the need that rules it out.
    ruled_out_by: Vec<Option<usize>>,
}

impl Usable {
    pub(crate) fn new(setting: &Setting, sides: &[Side], needs: &[usize]) -> Self {
        let class = |&side: &Side| {
            let all = HashInput::new(&setting.hashing(side).fields());
            Bits { side, ruled_out_by: vec![None; all.width()], all }
        };
        let mut usable = Self { classes: sides.iter().map(class).collect() };
        while usable.rule_out(&setting.demands, needs) {}
        usable
    }

    /// Rules out what stands alone in a generator; whether there was any.
    fn rule_out(&mut self, demands: &[Demand], needs: &[usize]) -> bool {
        let mut found = false;
        for &need in needs {
            let demand = &demands[need];
            let classes = demand.sides.map(|side| self.position(side));
            for members in demand.generators.sets() {
                if let Some((class, bit)) = self.only_one(classes, members) {
                    self.classes[class].ruled_out_by[bit] = Some(need);
                    found = true;
                }
            }
        }
        found
    }

    fn position(&self, side: Side) -> Option<usize> {
        self.classes.iter().position(|class| class.side == side)
    }

    /// Class and bit of the only member that may still spread; `None` when there are more or none.
    fn only_one(
        &self,
        classes: [Option<usize>; 2],
        members: impl Iterator<Item = PairBit>,
    ) -> Option<(usize, usize)> {
        let mut only = None;
        for member in members {
            let Some(class) = classes[member.which.index()] else { continue };
            let Bits { all, ruled_out_by, .. } = &self.classes[class];
            let Some(start) = all.offset(member.field) else { continue };
            let bit = start + usize::from(member.bit);
            if ruled_out_by[bit].is_some() {
                continue;
            }
            match only {
                None => only = Some((class, bit)),
                Some(_) => return None,
            }
        }
        only
    }

    fn class(&self, side: Side) -> Option<&Bits> {
        self.classes.iter().find(|class| class.side == side)
    }

    /// Whether any bit of the packets of `side` may spread them.
    pub(crate) fn any(&self, side: Side) -> bool {
        self.class(side).is_some_and(|class| class.ruled_out_by.iter().any(Option::is_none))
    }

    /// How many bits of `input` may spread packets of `side`.
    pub(crate) fn count(&self, side: Side, input: &HashInput) -> usize {
        input.fields().iter().map(|field| self.count_of(side, *field)).sum()
    }

    /// How many bits of `field` may spread packets of `side`.
    pub(crate) fn count_of(&self, side: Side, field: Field) -> usize {
        let Some(class) = self.class(side) else { return 0 };
        let Some(start) = class.all.offset(field) else { return 0 };
        let bits = &class.ruled_out_by[start..start + usize::from(field.width())];
        bits.iter().filter(|bit| bit.is_none()).count()
    }

    /// The needs that rule bits of `side` out.
    pub(crate) fn culprits(&self, side: Side) -> Vec<usize> {
        let class = self.class(side);
        let mut needs: Vec<usize> = class
            .into_iter()
            .flat_map(|class| class.ruled_out_by.iter().flatten().copied())
            .collect();
        needs.sort_unstable();
        needs.dedup();
        needs
    }
}
