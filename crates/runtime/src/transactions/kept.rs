//! State that a store keeps: put in before there are packets, told by who is alone, so that what is told
//! was there together and nothing older comes after it.

use std::sync::Arc;

use anabranch_nf::NetworkFunction;
use anabranch_nf::state::journal::{Layout, Moment};
use anabranch_store::{Content, Error, Key, Place};

use super::alone::{Alone, Floor};
use super::{Member, Members};
use crate::agenda::Agenda;
use crate::instance::storing::{Kept, V4, V6, layouts, moment, restore_timers};
use crate::instance::{Restored, Storing};
use crate::schedule::{Schedule, Turn};

impl<N: NetworkFunction> Members<N> {
    /// Puts in what a store has kept, after [`start`](Self::start).
    ///
    /// # Errors
    /// [`Error::OtherLayout`]: the entries of an object are made of something else than here.
    pub fn restore(&mut self, state: &[(Key, Content)]) -> Result<Restored, Error> {
        match self.members.first_mut() {
            Some(first) => first.with_floor(|alone, floor| alone.restore(floor, state)),
            None => Ok(Restored::default()),
        }
    }

    /// What the entries of each object and of the packet sets are made of.
    pub(crate) fn layouts(&mut self) -> Vec<(&'static str, Layout)> {
        let first = self.members.first_mut();
        first.map_or_else(Vec::new, |first| first.with_floor(|_, floor| floor.layouts()))
    }

    /// From now on tells `storing` what changes.
    pub fn keep(&mut self, storing: Storing) {
        if let Some(first) = self.members.first_mut() {
            first.shared.schedule.get_or_init(|| Arc::clone(&storing.schedule));
            first.with_floor(|alone, floor| alone.keep(floor, storing));
        }
    }
}

impl<N: NetworkFunction> Member<N> {
    /// Packets have been handled: tells what has changed, if it is time.
    pub(super) fn tell(&mut self) {
        let Some(schedule) = self.shared.schedule.get() else { return };
        let wrote = self.worker.take_wrote() | std::mem::take(&mut self.own.wrote);
        match wrote {
            true => {
                schedule.note_clock(self.own.last.arrival_ns);
                schedule.owe_changes();
            }
            false => schedule.owe_refreshes(),
        }
        self.tell_in_time();
    }

    /// Tells what was not told yet, if it is time.
    pub(super) fn tell_in_time(&mut self) {
        if let Some(turn) = self.telling().and_then(Schedule::claim) {
            self.with_floor(|alone, floor| alone.tell(floor, turn));
        }
    }

    /// When what has changed is told, where a store keeps the state.
    pub(super) fn telling(&self) -> Option<&Schedule> {
        self.shared.schedule.get().map(|schedule| &**schedule)
    }
}

impl<N: NetworkFunction> Kept for Floor<'_, N> {
    fn layouts(&self) -> Vec<(&'static str, Layout)> {
        layouts(&*self.nf)
    }

    fn put(&mut self, place: Place, object: &str, entry: (&[u8], &[u8]), moment: &Moment) -> bool {
        match object {
            V4 | V6 => self.shared.sets.restore(self.transaction, (place, object), entry, moment),
            object => self.nf.restore(object, entry.0, entry.1, moment),
        }
    }
}

impl<N: NetworkFunction> Alone<N> {
    fn restore(
        &mut self,
        floor: &mut Floor<'_, N>,
        state: &[(Key, Content)],
    ) -> Result<Restored, Error> {
        let moment = moment(&self.agenda.environment);
        let mut restored = floor.put_all(state, &moment)?;
        restored.add(restore_timers(&mut self.agenda.environment, state));
        // Something of it may have to be collected.
        self.agenda.collect_soon();
        floor.shared.publish(&self.agenda.environment);
        Ok(restored)
    }

    fn keep(&mut self, floor: &mut Floor<'_, N>, mut storing: Storing) {
        storing.begin(floor.layouts());
        let steps = storing.schedule.steps();
        self.agenda.keep(steps);
        floor.nf.keep(steps);
        floor.shared.sets.remember(steps);
        let steps = steps.clone();
        floor.transaction.domain().count_steps(move || steps.next());
        self.storing = Some(Box::new(storing));
    }

    /// Tells everything.
    pub(super) fn tell_whole(&mut self, floor: &mut Floor<'_, N>) {
        if let Some(turn) = self.storing.as_ref().map(|storing| storing.schedule.whole()) {
            self.tell(floor, turn);
        }
    }

    fn tell(&mut self, floor: &mut Floor<'_, N>, turn: Turn) {
        let Self { storing, agenda: Agenda { environment, .. }, .. } = self;
        let Some(storing) = storing else { return };
        if floor.shared.is_half_done() {
            return storing.schedule.put_off(turn);
        }
        storing.note_clock(environment.now());
        storing.tell(turn, moment(environment), |moment, sink| {
            floor.nf.drain(moment, sink);
            if N::SET.is_some() {
                floor.shared.sets.drain(floor.transaction, moment, sink);
            }
            environment.drain_timers(moment, sink);
        });
    }
}
