//! Indices past the end. They read zero and write nothing, as in the native worlds, and the output
//! names the lines where some packet brings one about.

use super::fresh::zero_like;
use super::types::Type;
use super::value::{LocalCell, Place, Step, Value};
use super::{Eval, Interpreter, place};
use crate::expr::Term;
use crate::path::Warning;

/// Paths on which a line is asked for faults: a line that is right on these is taken as right.
const FAULT_QUESTIONS: u32 = 8;

/// Where an index or a range lies.
pub(crate) enum Reach {
    Inside,
    Outside,
    /// Inside where this holds.
    Perhaps(Term),
}

impl<'p> Interpreter<'p> {
    /// Where something lies that is inside under this condition; a warning where it can be past
    /// the end.
    pub(crate) fn reach(&mut self, inside: Term, message: impl FnOnce() -> String) -> Eval<Reach> {
        if self.known(inside) == Some(true) {
            return Ok(Reach::Inside);
        }
        self.guarded()?;
        let outside = self.terms.not(inside);
        if !self.possible(outside)? {
            return Ok(Reach::Inside);
        }
        self.warn_if(outside, message)?;
        Ok(match self.possible(inside)? {
            true => Reach::Perhaps(inside),
            false => Reach::Outside,
        })
    }

    /// Which way a path goes that does one thing inside and another past the end.
    pub(crate) fn is_inside(&mut self, reach: &Reach) -> Eval<bool> {
        match *reach {
            Reach::Inside => Ok(true),
            Reach::Outside => Ok(false),
            Reach::Perhaps(inside) => self.decide(inside),
        }
    }

    /// The step to an element of so many.
    pub(crate) fn element_step(&mut self, index: Value, length: usize) -> Eval<Step> {
        let index = self.index_term(index)?;
        let end = self.terms.constant(length as u128, 64);
        let inside = self.less_terms(true, false, index, end);
        let known = self.terms.constant_of(index).and_then(|known| usize::try_from(known).ok());
        let message = || match known {
            Some(known) => format!("index {known} is past the end of {length} elements"),
            None => format!("the index can be past the end of {length} elements"),
        };
        Ok(match (self.reach(inside, message)?, known) {
            (Reach::Inside, Some(known)) if known < length => Step::Index(known),
            (Reach::Inside, None) => Step::Symbolic(index),
            _ => Step::Anywhere(index),
        })
    }

    /// A place that keeps what is written to it for as long as it is borrowed: past the end a value
    /// of its own, which nothing else sees.
    pub(crate) fn solid(&mut self, place: Place) -> Eval<Place> {
        let mut here = Place::of(place.slot.clone());
        for step in &place.steps {
            let Step::Anywhere(index) = *step else {
                here = here.then(*step);
                continue;
            };
            let array = self.read(&here)?;
            let Value::Array(items) = self.settled(array)? else {
                return self
                    .error("these elements can't be borrowed: copy them into a local first");
            };
            let end = self.terms.constant(items.len() as u128, 64);
            let inside = self.less_terms(true, false, index, end);
            if !self.decide(inside)? {
                return self.spare(&place);
            }
            here = here.then(Step::Symbolic(index));
        }
        Ok(here)
    }

    fn spare(&mut self, place: &Place) -> Eval<Place> {
        let value = self.read(place)?;
        match zero_like(&value, &mut self.terms) {
            Some(zero) => Ok(Place::of(LocalCell::new(zero))),
            None => self.error("this element can't be borrowed: copy it into a local first"),
        }
    }

    /// The element of an array; zero past the end.
    pub(crate) fn element(&mut self, array: Value, index: Value) -> Eval {
        let Value::Array(items) = &array else {
            return self.error(format!("{} has no elements", array.describe()));
        };
        let items = items.clone();
        let step = self.element_step(index, items.len())?;
        match place::part(&array, step, &mut self.terms) {
            Some(found) => Ok(found),
            None => self.element_by_path(&items, step),
        }
    }

    /// Elements that have no common form are paths of their own.
    fn element_by_path(&mut self, items: &[Value], step: Step) -> Eval {
        let (Step::Symbolic(index) | Step::Anywhere(index)) = step else {
            return self.error("these elements can't be chosen from");
        };
        for (position, item) in items.iter().enumerate() {
            let position = self.terms.constant(position as u128, 64);
            let here = self.terms.equal(index, position);
            if self.decide(here)? {
                return Ok(item.clone());
            }
        }
        let of = items.first().map_or(Type::Unknown, |item| self.type_of(item));
        match of {
            // Elements of different lengths are slices.
            Type::Array(..) => Ok(Value::array(Vec::new())),
            of => self.zero(&of),
        }
    }

    /// What is found inside, else zero.
    pub(crate) fn or_zero(&mut self, reach: &Reach, found: Value, zero: Value) -> Eval {
        match *reach {
            Reach::Inside => Ok(found),
            Reach::Outside => Ok(zero),
            Reach::Perhaps(inside) => match place::choose(inside, &found, &zero, &mut self.terms) {
                Some(value) => Ok(value),
                None => Ok(if self.decide(inside)? { found } else { zero }),
            },
        }
    }

    /// Warns where a fault is possible. Each line is asked about a few times and warned of once.
    pub(crate) fn warn_if(&mut self, fault: Term, message: impl FnOnce() -> String) -> Eval<()> {
        let asked = self.faults.get(&self.line()).copied().unwrap_or(0);
        if asked >= FAULT_QUESTIONS || self.known(fault) == Some(false) {
            return Ok(());
        }
        let possible = self.certainly_possible(fault)?;
        let asked = if possible { FAULT_QUESTIONS } else { asked + 1 };
        self.faults.insert(self.line(), asked);
        if possible {
            self.warn(message());
        }
        Ok(())
    }

    /// Reports something that can go wrong on the line being executed.
    pub(crate) fn warn(&mut self, message: String) {
        self.run.warnings.insert(Warning { line: self.line(), message });
    }
}
