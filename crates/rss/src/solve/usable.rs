//! Which bits of which packets may influence the entry at all, whatever the key: a bit that may
//! differ between two packets that must meet, with nothing else differing that is hashed, may not.

use crate::field::Field;
use crate::need::Side;
use crate::nic::HashInput;
use crate::solve::pairs::{PairBits, Run, low};
use crate::solve::setting::Setting;
use crate::solve::space::Demand;

/// The places in [`Usable`] of the classes of the two packets.
type Classes = [Option<usize>; 2];

/// The bits that may spread, per class.
pub(crate) struct Usable {
    classes: Vec<Bits>,
}

struct Bits {
    side: Side,
    /// Every field that the NIC can hash for this class, with its bits that may spread, the first
    /// one lowest.
    fields: Vec<(Field, u128)>,
    /// The needs that rule bits out.
    culprits: Vec<usize>,
}

impl Bits {
    fn new(setting: &Setting, side: Side) -> Self {
        let all = setting.hashing(side).fields();
        let open = |&field: &Field| (field, low(field.width()));
        Self { side, fields: all.iter().map(open).collect(), culprits: Vec::new() }
    }

    fn of(&self, field: Field) -> u128 {
        let own = self.fields.iter().find(|(own, _)| *own == field);
        own.map_or(0, |(_, open)| *open)
    }

    /// Rules out `bits` of `field`, because of `need`.
    fn rule_out(&mut self, field: Field, bits: u128, need: usize) {
        let own = self.fields.iter_mut().filter(|(own, _)| *own == field);
        own.for_each(|(_, open)| *open &= !bits);
        if self.culprits.last() != Some(&need) {
            self.culprits.push(need);
        }
    }
}

impl Usable {
    pub(crate) fn new(setting: &Setting, sides: &[Side], needs: &[usize]) -> Self {
        let classes = sides.iter().map(|side| Bits::new(setting, *side)).collect();
        let mut usable = Self { classes };
        while usable.rule_out(&setting.demands, needs) {}
        usable
    }

    /// Rules out what stands alone in a generator; whether there was any.
    fn rule_out(&mut self, demands: &[Demand], needs: &[usize]) -> bool {
        let mut found = false;
        for &need in needs {
            let Demand { sides, generators } = &demands[need];
            let classes = sides.map(|side| self.classes.iter().position(|own| own.side == side));
            for run in generators.runs() {
                found |= self.rule_out_of_run(classes, run, need);
            }
            found |= self.rule_out_of_set(classes, generators.fixed(), need);
        }
        found
    }

    /// Of each set of a run the bit that alone may still spread; whether there was any.
    fn rule_out_of_run(&mut self, classes: Classes, run: Run<'_>, need: usize) -> bool {
        let (mut one, mut more) = (0, 0);
        for bits in run.bits() {
            let open = self.open(classes, bits);
            more |= one & open;
            one |= open;
        }
        self.rule_out_among(classes, run.bits(), one & !more, need)
    }

    /// The bit that alone may still spread of a set that is all of `bits`; whether there was one.
    fn rule_out_of_set(
        &mut self,
        classes: Classes,
        bits: impl Iterator<Item = PairBits> + Clone,
        need: usize,
    ) -> bool {
        let open: u32 = bits.clone().map(|bits| self.open(classes, bits).count_ones()).sum();
        open == 1 && self.rule_out_among(classes, bits, u128::MAX, need)
    }

    /// Those of each of `bits` that are in `alone`; whether there was any.
    fn rule_out_among(
        &mut self,
        classes: Classes,
        bits: impl Iterator<Item = PairBits>,
        alone: u128,
        need: usize,
    ) -> bool {
        for bits in bits.filter(|_| alone != 0) {
            let ruled_out = self.open(classes, bits) & alone;
            if let (Some(class), true) = (classes[bits.which.index()], ruled_out != 0) {
                self.classes[class].rule_out(bits.field, ruled_out << bits.first, need);
            }
        }
        alone != 0
    }

    /// Those of `bits` that may still spread, the first one lowest.
    fn open(&self, classes: Classes, bits: PairBits) -> u128 {
        let class = classes[bits.which.index()];
        let open = class.map_or(0, |class| self.classes[class].of(bits.field));
        open >> bits.first & low(bits.len)
    }

    fn class(&self, side: Side) -> Option<&Bits> {
        self.classes.iter().find(|class| class.side == side)
    }

    /// Whether any bit of the packets of `side` may spread them.
    pub(crate) fn any(&self, side: Side) -> bool {
        self.class(side).is_some_and(|class| class.fields.iter().any(|(_, open)| *open != 0))
    }

    /// How many bits of `input` may spread packets of `side`.
    pub(crate) fn count(&self, side: Side, input: &HashInput) -> usize {
        input.fields().iter().map(|field| self.count_of(side, *field)).sum()
    }

    /// How many bits of `field` may spread packets of `side`.
    pub(crate) fn count_of(&self, side: Side, field: Field) -> usize {
        self.class(side).map_or(0, |class| class.of(field).count_ones() as usize)
    }

    /// The needs that rule bits of `side` out.
    pub(crate) fn culprits(&self, side: Side) -> Vec<usize> {
        let mut needs = self.class(side).map_or_else(Vec::new, |class| class.culprits.clone());
        needs.sort_unstable();
        needs.dedup();
        needs
    }
}
