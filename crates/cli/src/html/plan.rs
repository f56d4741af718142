//! A plan as one HTML page.

use anabranch_analysis::Paths;
use anabranch_plan::Plan;

use super::svg::escape;

/// The page as a document.
pub(crate) fn render(_paths: &Paths, plan: &Plan) -> String {
    format!("<pre>{}</pre>", escape(&plan.to_text()))
}
