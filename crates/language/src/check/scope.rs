//! Local names.

/// The local names in scope, innermost last.
#[derive(Default)]
pub(super) struct Scopes(Vec<Vec<String>>);

impl Scopes {
    pub(super) fn open(&mut self) {
        self.0.push(Vec::new());
    }

    pub(super) fn close(&mut self) {
        self.0.pop();
    }

    pub(super) fn bind(&mut self, name: &str) {
        if self.0.is_empty() {
            self.open();
        }
        if let Some(scope) = self.0.last_mut() {
            scope.push(name.to_owned());
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().flatten().any(|known| known == name)
    }
}
