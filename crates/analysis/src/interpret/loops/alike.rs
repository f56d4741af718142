//! Loops whose end is unknown and whose turns touch nothing: one turn stands for all.
//!
//! ```text
//! no turn           ─▶ what comes after the loop
//! any turn, leaves  ─▶ where it leaves to
//! any turn, is last ─▶ what comes after the loop
//! ```
//!
//! The turn has any element of what the loop goes over, and before it any other turns may have been: locals that
//! turns leave to the next ones hold anything. So however often a packet goes round, what comes after it does what
//! one of these paths does, and all that the path asks of its turn was asked in the last one. Turns before that one
//! are not listed, and need not be: they change nothing else.

use std::collections::BTreeMap;

use super::{Endless, Local, Turn, marked_again, referred, unmarked};
use crate::expr::{LEFT, Term};
use crate::hash::{FastMap, FastSet};
use crate::interpret::packet::FieldName;
use crate::interpret::types::{Scalar, Type};
use crate::interpret::value::{Slot, Value};
use crate::interpret::{Eval, Exit, Interpreter, Stop, stop};

/// What has been found out about loops while they were followed; each find has their handler followed again.
#[derive(Default)]
pub(crate) struct Alike {
    /// Locals that turns leave to the next ones, by line of the loop.
    left: FastMap<(u32, Local), Type>,
    /// Lines of loops that are unrolled all the same.
    unrolled: FastSet<u32>,
}

/// What no turn may change: accesses, effects, random numbers, header fields.
type Touched = (usize, usize, usize, BTreeMap<FieldName, (Term, u32)>);

impl<'p> Interpreter<'p> {
    /// Whether one turn of the loop on this line may stand for all.
    pub(super) fn are_alike(
        &mut self,
        body: &'p syn::Block,
        condition: Option<&'p syn::Expr>,
    ) -> bool {
        let wanted = self.explorer.budget.turns_alike && self.explorer.explores();
        // What is being computed ahead or joined is tried as paths next.
        if !wanted || self.loops_apart || self.run.open > 0 || self.effect().is_err() {
            return false;
        }
        !self.alike.unrolled.contains(&self.line())
            && !self.purity.block_touches(body, self.program)
            && !condition.is_some_and(|asked| self.purity.touches(asked, self.program))
    }

    /// No turn, or the last one. `goes_on` is whether there is one.
    pub(super) fn last_turn(&mut self, endless: &Endless<'p, '_>, goes_on: Term) -> Eval {
        if !self.decide(goes_on)? {
            return Ok(Value::Unit);
        }
        let (here, line) = (self.here, self.line());
        self.run.loops += 1;
        self.run.alike.push(line);
        let slots = self.slots();
        self.leave_any(line, &slots)?;
        let marks = unmarked(&slots);
        let before = self.touched();
        self.run.turning.push(line);
        let turn = match self.one_turn(endless) {
            Err(exit) if matches!(*exit, Exit::Stop(_)) => return Err(exit),
            turn => turn,
        };
        self.run.turning.pop();
        self.here = here;
        if self.touched() != before {
            return self.unroll(line);
        }
        if matches!(turn, Ok(Turn::Next)) {
            self.left_by_turn(line, &slots)?;
        }
        marked_again(&slots, &marks);
        self.run.before_loops = self.run.accesses.len();
        match turn? {
            Turn::Next => Ok(Value::Unit),
            Turn::Left(value) => Ok(value),
        }
    }

    fn touched(&self) -> Touched {
        let run = &self.run;
        (run.accesses.len(), run.effects.len(), run.randoms, run.fields.clone())
    }

    /// Locals that turns of the loop on this line change hold anything.
    fn leave_any(&mut self, line: u32, slots: &[(Local, Slot)]) -> Eval<()> {
        for (local, slot) in slots {
            let Some(of) = self.alike.left.get(&(line, local.clone())).cloned() else { continue };
            let before = slot.value.borrow().clone();
            if !referred(&before).is_empty() || !self.type_of(&before).may_be(&of) {
                return self.unroll(line);
            }
            let (_, place, name) = local;
            let name = format!("{LEFT}{name} {place} at line {line} ({})", self.run.loops);
            let any = self.unknown(&name, &of, &[])?;
            slot.value.replace(any);
            if slot.written_at.get() == 0 {
                slot.written_at.set(line);
            }
        }
        Ok(())
    }

    /// Notes what a turn of the loop on this line has changed, with another one to come.
    fn left_by_turn(&mut self, line: u32, slots: &[(Local, Slot)]) -> Eval<()> {
        let known = self.alike.left.len();
        for (local, slot) in slots.iter().filter(|(_, slot)| slot.written_at.get() != 0) {
            let value = slot.value.borrow().clone();
            let of = match value {
                // Of a type that only shows elsewhere, if anywhere: there is none whose values are more.
                value if value.is_untyped() => Type::Scalar(Scalar::Signed(128)),
                value => self.type_of(&value),
            };
            self.alike.left.entry((line, local.clone())).or_insert(of);
        }
        if self.alike.left.len() > known { stop(Stop::Again) } else { Ok(()) }
    }

    fn unroll<T>(&mut self, line: u32) -> Eval<T> {
        self.alike.unrolled.insert(line);
        stop(Stop::Again)
    }

    /// Has no turn stand for others that have a loop in them which is cut off: what it changes is not all seen.
    pub(super) fn unroll_around(&mut self) -> Eval<()> {
        match self.run.turning.is_empty() {
            true => Ok(()),
            false => {
                self.alike.unrolled.extend(self.run.turning.drain(..));
                stop(Stop::Again)
            }
        }
    }

    /// Has all loops of this run be unrolled that are not; whether there are any.
    pub(crate) fn unroll_all(&mut self) -> bool {
        let any = !self.run.alike.is_empty();
        self.alike.unrolled.extend(self.run.alike.drain(..));
        any
    }
}
