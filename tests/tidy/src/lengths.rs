//! Lengths: functions and files that a reader takes in at one go.

use crate::house::{self, House};
use crate::{Source, Violation};

/// Lines of the longest function, from `fn` to the closing brace.
pub const FUNCTION_LINES: usize = 70;
/// Lines of the median function stay below this.
pub const FUNCTION_MEDIAN: usize = 10;
/// Lines of the longest file.
pub const FILE_LINES: usize = 900;
/// Lines of the median file stay below this.
pub const FILE_MEDIAN: usize = 300;

/// What there is: printed, so that a change of the medians is seen before it breaks a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Rust files.
    pub files: usize,
    /// Lines of the file in the middle.
    pub median_file: usize,
    /// Lines of the longest file.
    pub longest_file: usize,
    /// Functions that are not tests.
    pub functions: usize,
    /// Lines of the function in the middle.
    pub median_function: usize,
    /// Lines of the longest function.
    pub longest_function: usize,
}

/// Functions and files over their limit.
pub fn check(house: &House) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (source, file) in house.rust() {
        let lines = source.text.lines().count();
        if lines > FILE_LINES {
            let message = format!(
                "{lines} lines; split the file where its subject changes (at most {FILE_LINES})"
            );
            violations.push(Violation::new(source, 0, message));
        }
        let long = house::functions(file).into_iter().filter(|one| length(one) > FUNCTION_LINES);
        violations.extend(long.map(|function| {
            let message = format!(
                "`{}` has {} lines; give its parts names (at most {FUNCTION_LINES})",
                function.name,
                length(&function)
            );
            Violation::new(source, function.first_line, message)
        }));
    }
    violations
}

/// Medians over their limit.
pub fn check_medians(house: &House) -> Vec<Violation> {
    let lengths = measure(house);
    let everything = Source::new("workspace", "");
    let mut violations = Vec::new();
    if lengths.median_function >= FUNCTION_MEDIAN {
        let message = format!(
            "the median function has {} lines (under {FUNCTION_MEDIAN})",
            lengths.median_function
        );
        violations.push(Violation::new(&everything, 0, message));
    }
    if lengths.median_file >= FILE_MEDIAN {
        let message =
            format!("the median file has {} lines (under {FILE_MEDIAN})", lengths.median_file);
        violations.push(Violation::new(&everything, 0, message));
    }
    violations
}

/// Measures the house.
pub fn measure(house: &House) -> Lengths {
    let mut files = Vec::new();
    let mut functions = Vec::new();
    for (source, file) in house.rust() {
        files.push(source.text.lines().count());
        let all = house::functions(file).into_iter();
        functions.extend(all.filter(|one| !one.test && !source.is_test()).map(|one| length(&one)));
    }
    files.sort_unstable();
    functions.sort_unstable();
    Lengths {
        files: files.len(),
        median_file: median(&files),
        longest_file: files.last().copied().unwrap_or(0),
        functions: functions.len(),
        median_function: median(&functions),
        longest_function: functions.last().copied().unwrap_or(0),
    }
}

fn length(function: &house::Function) -> usize {
    function.last_line + 1 - function.first_line
}

fn median(sorted: &[usize]) -> usize {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function_of(lines: usize) -> String {
        format!("/// Long.\nfn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn a_long_function_is_found() {
        let fits = House::of(&[("a.rs", &function_of(FUNCTION_LINES))]);
        assert_eq!(check(&fits), []);
        let long = House::of(&[("a.rs", &function_of(FUNCTION_LINES + 1))]);
        let found = check(&long);
        assert_eq!((found.len(), found[0].line), (1, 2));
        assert!(found[0].message.contains("`long` has 71 lines"));
    }

    #[test]
    fn a_long_file_is_found() {
        let text = "// a line\n".repeat(FILE_LINES + 1);
        assert_eq!(check(&House::of(&[("a.rs", &text)])).len(), 1);
    }

    #[test]
    fn a_house_of_long_functions_is_found() {
        let text = function_of(12).repeat(2) + "fn short() {}\n";
        let house = House::of(&[("a.rs", &text), ("b.rs", &"// a line\n".repeat(400))]);
        assert_eq!(check_medians(&house).len(), 2);
        assert_eq!(measure(&house).median_function, 12);
        assert_eq!(check_medians(&House::of(&[("a.rs", "fn short() {}\n")])), []);
    }
}
