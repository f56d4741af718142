//! Symbolic execution checked on known inputs: a function is explored with every input unknown,
//! and each known input is looked up among its paths. What the paths say has to be what runs.

use std::collections::BTreeMap;

use crate::error::AnalysisError;
use crate::explore::{Budget, Explorer};
use crate::expr::circuit::Circuit;
use crate::expr::{Kind, Sort, Term};
use crate::interpret::call::parameters;
use crate::interpret::program::Program;
use crate::interpret::types::Type;
use crate::interpret::value::Value;
use crate::interpret::{Eval, Exit, Interpreter, Stop};
use crate::paths::{Source, on_a_deep_stack};

/// A known input of a function.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// Parameters, and what packets are made of (`ipv4` where it has that header, `ipv4.src`,
    /// `payload.len`, `packet.len`, `port`, …), by the names that paths print. What is not here
    /// is 0.
    pub numbers: BTreeMap<String, u128>,
    /// The packet's payload.
    pub payload: Vec<u8>,
}

/// One way through the function: what holds on it, assumptions included, and its result, the last.
struct Way {
    terms: Vec<Term>,
}

/// Explores the function `name`, of integers, booleans or a packet, with everything unknown;
/// returns the result of the path that each of `inputs` takes, two's complement in the width of
/// its type, or `None` where that path was cut off in a loop whose end is unknown.
///
/// # Errors
/// As [`paths`](crate::paths); and an input that takes no path, or takes two.
pub fn follow_all(
    source: &Source<'_>,
    name: &str,
    inputs: &[Given],
) -> Result<Vec<Option<u128>>, AnalysisError> {
    on_a_deep_stack(|| {
        let program = Program::read(source.text, source.file, source.line)?;
        let explorer = Explorer::new(Budget { unrolled: 10, ..Budget::default() });
        let mut interpreter = Interpreter::new(&program, explorer);
        let (ways, cut_off) = ways(&mut interpreter, name)?;
        let mut circuits: Vec<Circuit> =
            ways.iter().map(|way| Circuit::new(&way.terms, &interpreter.terms)).collect();
        let results = inputs.iter().map(|given| {
            let taken = circuits.iter_mut().filter_map(|way| result(way, given, &interpreter));
            match taken.collect::<Vec<u128>>()[..] {
                [result] => Ok(Some(result)),
                [] if cut_off => Ok(None),
                ref taken => Err(AnalysisError::At {
                    file: program.file.clone(),
                    line: interpreter.line(),
                    message: format!("`{name}`: {} paths for {given:?}", taken.len()),
                }),
            }
        });
        results.collect()
    })
}

/// The result of a way, if the input takes it.
fn result(way: &mut Circuit, given: &Given, interpreter: &Interpreter<'_>) -> Option<u128> {
    for (place, unknown) in way.unknowns.iter().enumerate() {
        let name = &interpreter.terms.symbol_of(unknown.id).name;
        way.guess[place] = given.numbers.get(name).copied().unwrap_or(0);
    }
    way.payload.clone_from(&given.payload);
    let last = way.roots() - 1;
    let mut unmet = Vec::new();
    way.evaluate(&mut unmet);
    unmet.into_iter().all(|unmet| unmet == last).then(|| way.root(last))
}

/// Every way through the function, and whether some were cut off.
fn ways(interpreter: &mut Interpreter<'_>, name: &str) -> Result<(Vec<Way>, bool), AnalysisError> {
    let (mut ways, mut cut_off) = (Vec::new(), false);
    loop {
        interpreter.restart();
        let end = interpreter.run_unknown(name);
        cut_off |= !interpreter.run.warnings.is_empty();
        match end.map_err(|exit| *exit) {
            Ok(result) => {
                let mut terms = interpreter.explorer.assertions().to_vec();
                terms.push(result);
                ways.push(Way { terms });
            }
            Err(Exit::Stop(Stop::Infeasible | Stop::Impure)) => {}
            Err(Exit::Stop(Stop::Solver(message))) => return Err(AnalysisError::Solver(message)),
            Err(Exit::Stop(Stop::Error(line, message))) => {
                return Err(AnalysisError::At {
                    file: interpreter.program.file.clone(),
                    line,
                    message,
                });
            }
            Err(_) => {}
        }
        if ways.len() > interpreter.explorer.budget.paths || !interpreter.explorer.advance() {
            return Ok((ways, cut_off));
        }
    }
}

impl<'p> Interpreter<'p> {
    fn run_unknown(&mut self, name: &str) -> Eval<Term> {
        let Some(function) = self.function_named(name) else {
            return self.error(format!("no function `{name}` in this module"));
        };
        let mut values = Vec::new();
        for typed in parameters(function.signature) {
            values.push(self.unknown_argument(typed)?);
        }
        let result = self.call_function(function, name, None, values, Vec::new())?;
        let result = self.settled(result)?;
        match self.term_of(&result) {
            Some(term) => Ok(term),
            None => self.error(format!("`{name}` returns {}, no integer", result.describe())),
        }
    }

    fn unknown_argument(&mut self, typed: &'p syn::PatType) -> Eval {
        let syn::Pat::Ident(name) = &*typed.pat else {
            return self.error("only parameters with a name can be given");
        };
        let name = name.ident.to_string();
        if is_packet(&typed.ty) {
            self.arrive(None)?;
            return Ok(Value::Packet);
        }
        Ok(match self.resolve(&typed.ty)? {
            Type::Bool => Value::Bool(self.terms.symbol(&name, Sort::Bool, Kind::Number)),
            Type::Scalar(scalar) => {
                let sort = Sort::Bits(scalar.width());
                Value::Scalar(scalar, self.terms.symbol(&name, sort, Kind::Number))
            }
            _ => return self.error("only integers, booleans and a packet can be given"),
        })
    }
}

fn is_packet(of: &syn::Type) -> bool {
    match of {
        syn::Type::Reference(reference) => is_packet(&reference.elem),
        syn::Type::Path(path) => path.path.is_ident("Packet"),
        _ => false,
    }
}
