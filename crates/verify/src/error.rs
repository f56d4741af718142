//! What keeps a verification from beginning.

use std::fmt;

/// Why nothing was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyError {
    /// The function's settings are wrong, or it needs some that were not given.
    Settings(String),
    /// The plan cannot be followed.
    Plan(String),
    /// The call paths cannot be found.
    Analysis(String),
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(why) | Self::Plan(why) | Self::Analysis(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for VerifyError {}
