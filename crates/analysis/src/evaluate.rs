//! Concrete execution: the same interpreter on known values, for differential tests.

use crate::error::AnalysisError;
use crate::explore::Explorer;
use crate::interpret::call::parameters;
use crate::interpret::program::Program;
use crate::interpret::types::Type;
use crate::interpret::value::Value;
use crate::interpret::{Eval, Exit, Interpreter, Stop};
use crate::paths::{Source, on_a_deep_stack};

/// Runs the function `name` of a module on known integers and booleans (0 and 1); returns its
/// result as an integer, two's complement in the width of its type.
///
/// # Errors
/// The module is not in the language, has no such function, or the function depends on something
/// unknown or cannot be interpreted; with the author's line.
pub fn evaluate(
    source: &Source<'_>,
    name: &str,
    arguments: &[u128],
) -> Result<u128, AnalysisError> {
    evaluate_all(source, name, &[arguments]).map(|results| results.first().copied().unwrap_or(0))
}

/// [`evaluate`] for many inputs, reading the module once. One result an input, in order.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_all(
    source: &Source<'_>,
    name: &str,
    inputs: &[&[u128]],
) -> Result<Vec<u128>, AnalysisError> {
    on_a_deep_stack(|| {
        let program = Program::read(source.text, source.file, source.line)?;
        let mut interpreter = Interpreter::new(&program, Explorer::concrete());
        inputs.iter().map(|arguments| run(&mut interpreter, name, arguments)).collect()
    })
}

fn run(
    interpreter: &mut Interpreter<'_>,
    name: &str,
    arguments: &[u128],
) -> Result<u128, AnalysisError> {
    interpreter.restart();
    let file = interpreter.program.file.clone();
    let result = interpreter.run_function(name, arguments);
    result.map_err(|exit| match *exit {
        Exit::Stop(Stop::Error(line, message)) => AnalysisError::At { file, line, message },
        Exit::Stop(Stop::Solver(message)) => AnalysisError::Solver(message),
        _ => {
            let message =
                warned(interpreter).unwrap_or_else(|| format!("`{name}` does not run to its end"));
            AnalysisError::At { file, line: interpreter.line(), message }
        }
    })
}

fn warned(interpreter: &Interpreter<'_>) -> Option<String> {
    interpreter.run.warnings.first().map(|warning| warning.message.clone())
}

impl<'p> Interpreter<'p> {
    fn run_function(&mut self, name: &str, arguments: &[u128]) -> Eval<u128> {
        let Some(function) = self.function_named(name) else {
            return self.error(format!("no function `{name}` in this module"));
        };
        let mut values = Vec::new();
        for (typed, number) in parameters(function.signature).zip(arguments) {
            values.push(match self.resolve(&typed.ty)? {
                Type::Bool => Value::Bool(self.terms.bool(*number != 0)),
                Type::Scalar(scalar) => {
                    Value::Scalar(scalar, self.terms.constant(*number, scalar.width()))
                }
                _ => return self.error("only integers and booleans can be given"),
            });
        }
        let result = self.call_function(function, name, None, values, Vec::new())?;
        let result = self.settled(result)?;
        match self.term_of(&result).and_then(|term| self.terms.known_value(term)) {
            Some(number) => Ok(number),
            None => self.error(format!("`{name}` returns {}, no integer", result.describe())),
        }
    }
}
