//! What keeps a module from being analysed.

use anabranch_language::Problem;

/// Why there are no call paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnalysisError {
    /// The module is not in the language; one line a problem, with what to write instead.
    #[error("{}", problems_text(.file, .problems))]
    Language {
        /// The author's file.
        file: String,
        /// Every problem found.
        problems: Vec<Problem>,
    },
    /// Something in the module cannot be interpreted, or exceeds a budget.
    #[error("{file}:{line}: {message}")]
    At {
        /// The author's file.
        file: String,
        /// Line in it, from 1.
        line: u32,
        /// What is wrong and what to write instead.
        message: String,
    },
    /// The solver cannot be run.
    #[error("{0}")]
    Solver(String),
}

fn problems_text(file: &str, problems: &[Problem]) -> String {
    let lines = problems.iter();
    let lines: Vec<String> =
        lines.map(|problem| format!("{file}:{}: {}", problem.line, problem.message)).collect();
    lines.join("\n")
}
