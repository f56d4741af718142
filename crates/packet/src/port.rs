//! Ports: where packets come from and go to.

use std::fmt;

/// A port of a network function, by its index in the order the function declares its ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(u8);

impl Port {
    /// The port of index `index`.
    #[inline(always)]
    pub const fn new(index: u8) -> Self {
        Self(index)
    }

    /// The index in the order of declaration, from zero.
    #[inline(always)]
    pub const fn index(self) -> u8 {
        self.0
    }

    /// Of two ports the other one: 0 and 1, 2 and 3, and so on are each other's.
    #[inline(always)]
    pub const fn other(self) -> Self {
        Self(self.0 ^ 1)
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::Port;

    #[test]
    fn other_is_an_involution_on_pairs() {
        assert_eq!(Port::new(0).other(), Port::new(1));
        assert_eq!(Port::new(1).other(), Port::new(0));
        assert!((0..=255).all(|i| Port::new(i).other().other() == Port::new(i)));
        assert_eq!(Port::new(7).to_string(), "7");
    }
}
