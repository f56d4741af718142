//! The plan as a file that an operator may read and edit.

use crate::error::PlanError;
use crate::model::Plan;

/// What stands at the head of the file.
const HEAD: &str = "\
# How a network function runs on many cores. Keys, fields and modes may be edited;
# `anabranch plan NF --check FILE` says whether what must meet still does.
";

impl Plan {
    /// The plan as a TOML file.
    ///
    /// # Errors
    /// [`PlanError::Text`]: the plan has something that TOML cannot hold.
    pub fn to_toml(&self) -> Result<String, PlanError> {
        let text = toml::to_string(self).map_err(|cause| PlanError::Text(cause.to_string()))?;
        Ok(format!("{HEAD}\n{text}"))
    }

    /// Reads a plan from a TOML file. Whether it fits a network function is asked of
    /// [`check`](crate::check).
    ///
    /// # Errors
    /// [`PlanError::Text`] with the place.
    pub fn from_toml(text: &str) -> Result<Self, PlanError> {
        toml::from_str(text).map_err(|cause| PlanError::Text(cause.to_string()))
    }
}
