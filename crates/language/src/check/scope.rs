//! Local names.

/// The local names in scope, innermost last.
#[derive(Default)]
pub(super) struct Scopes {
    open: Vec<Vec<Local>>,
    /// How many `loop`s are around the code in hand.
    loops: usize,
}

struct Local {
    name: String,
    /// Of a `let` without a value, until it has one: how many `loop`s are around it.
    waits: Option<usize>,
}

impl Scopes {
    pub(super) fn open(&mut self) {
        self.open.push(Vec::new());
    }

    pub(super) fn close(&mut self) {
        self.open.pop();
    }

    pub(super) fn bind(&mut self, name: &str) {
        if self.open.is_empty() {
            self.open();
        }
        if let Some(scope) = self.open.last_mut() {
            scope.push(Local { name: name.to_owned(), waits: None });
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.open.iter().flatten().any(|known| known.name == name)
    }

    pub(super) fn enter_loop(&mut self) {
        self.loops += 1;
    }

    pub(super) fn leave_loop(&mut self) {
        self.loops -= 1;
    }

    /// How many names the innermost scope has.
    pub(super) fn count(&self) -> usize {
        self.open.last().map_or(0, Vec::len)
    }

    /// The names of the innermost scope from number `first` on have no value yet.
    pub(super) fn wait(&mut self, first: usize) {
        let loops = self.loops;
        let names = self.open.last_mut().into_iter().flatten().skip(first);
        names.for_each(|local| local.waits = Some(loops));
    }

    /// Gives `name` a value; whether it is the first one, and in a `loop` that the name outlives.
    pub(super) fn first_in_loop(&mut self, name: &str) -> bool {
        let local = self.open.iter_mut().flatten().rfind(|known| known.name == name);
        let waited = local.and_then(|local| local.waits.take());
        waited.is_some_and(|loops| loops < self.loops)
    }
}
