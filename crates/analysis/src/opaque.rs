//! What `#[opaque]` functions return, for who knows their arguments: paths leave them unknown, their bodies compute
//! it.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::explore::Explorer;
use crate::interpret::call::parameters;
use crate::interpret::program::Program;
use crate::interpret::types::Type;
use crate::interpret::value::Value;
use crate::interpret::{Eval, Interpreter};
use crate::paths::{STACK, Source, opaque};

/// Answers that are remembered.
const KEPT: usize = 1 << 16;

/// Payloads that are read between two [`Opaque::begin`]: each takes up to a millisecond.
const PAYLOADS: usize = 5_000;

/// Terms that calls may leave behind, as every number does, before they are forgotten: some 40 MB.
const LEFT: usize = 1 << 18;

/// The parts of a result, by the names that they have in paths.
type Parts = Vec<(String, u128)>;

/// A call: the function, its arguments as they stand in paths, and the payload where one of them is part of it.
type Call = (String, Vec<u128>, Vec<u8>);

/// What a call returned.
struct Returned {
    parts: Parts,
    /// What it is below, as the function declares.
    limit: Option<u128>,
}

/// The opaque functions of a module, run on known arguments.
pub struct Opaque {
    /// Whether a part of the payload is among the arguments.
    functions: HashMap<String, bool>,
    asked: Sender<Call>,
    answers: Receiver<Option<Returned>>,
    known: HashMap<Call, Option<Parts>>,
    /// Payloads that may still be read.
    payloads: usize,
    /// Results that are not what their functions declare.
    wrong: Vec<String>,
}

impl Opaque {
    /// Those of this source; `None`: it has none, or cannot be read. They run on a thread of their own, which ends
    /// with this.
    pub fn of(source: Source<'static>) -> Option<Self> {
        let (asked, asks) = channel::<Call>();
        let (answer, answers) = channel();
        let (name, names) = channel();
        let work = move || {
            let read = Program::read(source.text, source.file, source.line);
            let Ok(program) = read else { return };
            let mut bodies = Bodies::of(&program);
            let functions = opaque(&program).into_iter();
            let functions = functions.map(|name| {
                let takes_payload = bodies.interpreter.takes_slice(&name);
                (name, takes_payload)
            });
            if name.send(functions.collect::<HashMap<_, _>>()).is_err() {
                return;
            }
            for call in asks {
                if answer.send(bodies.run(&call)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("opaque".to_owned()).stack_size(STACK).spawn(work).ok()?;
        let functions: HashMap<String, bool> = names.recv().ok()?;
        let (known, payloads, wrong) = (HashMap::new(), PAYLOADS, Vec::new());
        let is_any = !functions.is_empty();
        is_any.then_some(Self { functions, asked, answers, known, payloads, wrong })
    }

    /// Begins anew: what is known does not depend on what was asked before.
    pub fn begin(&mut self) {
        self.known.clear();
        self.payloads = PAYLOADS;
    }

    /// The part of a function's result that paths call `symbol` (`aged.0`, `mix`), for these arguments and this
    /// payload; `None`: it has none, cannot be computed from them, or too many payloads have been read.
    pub fn value(
        &mut self,
        symbol: &str,
        arguments: &[u128],
        payload: impl FnOnce() -> Vec<u8>,
    ) -> Option<u128> {
        let name = symbol.split_once('.').map_or(symbol, |(name, _)| name);
        let takes_payload = *self.functions.get(name)?;
        let payload = if takes_payload { payload() } else { Vec::new() };
        let call = (name.to_owned(), arguments.to_vec(), payload);
        if !self.known.contains_key(&call) {
            if self.known.len() >= KEPT {
                self.known.clear();
            }
            if takes_payload {
                self.payloads = self.payloads.checked_sub(1)?;
            }
            self.asked.send(call.clone()).ok()?;
            let returned = self.answers.recv().ok()?;
            self.wrong.extend(returned.as_ref().and_then(|returned| returned.wrong(&call)));
            self.known.insert(call.clone(), returned.map(|returned| returned.parts));
        }
        let parts = self.known.get(&call)?.as_ref()?;
        parts.iter().find(|(part, _)| part == symbol).map(|(_, value)| *value)
    }

    /// Results so far that are not what their functions declare, in words.
    pub fn take_wrong(&mut self) -> Vec<String> {
        std::mem::take(&mut self.wrong)
    }
}

impl Returned {
    fn wrong(&self, (name, arguments, _): &Call) -> Option<String> {
        let (_, value) = self.parts.iter().find(|(part, _)| part == name)?;
        let limit = self.limit.filter(|limit| value >= limit)?;
        Some(format!("{name}, given {arguments:?}, returns {value}, which is not below {limit}"))
    }
}

/// The bodies of functions.
struct Bodies<'p> {
    program: &'p Program,
    interpreter: Interpreter<'p>,
}

impl<'p> Bodies<'p> {
    fn of(program: &'p Program) -> Self {
        Self { program, interpreter: Interpreter::new(program, Explorer::concrete()) }
    }

    fn run(&mut self, (name, arguments, payload): &Call) -> Option<Returned> {
        if self.interpreter.terms.len() > LEFT {
            *self = Self::of(self.program);
        }
        self.interpreter.returned(name, arguments, payload)
    }
}

impl Interpreter<'_> {
    fn takes_slice(&mut self, name: &str) -> bool {
        let types = self.parameters(name).unwrap_or_default();
        types.iter().any(|of| matches!(of, Type::Slice(_)))
    }

    fn parameters(&mut self, name: &str) -> Eval<Vec<Type>> {
        let Some(function) = self.function_named(name) else { return Ok(Vec::new()) };
        parameters(function.signature).map(|typed| self.resolve(&typed.ty)).collect()
    }

    fn returned(&mut self, name: &str, arguments: &[u128], payload: &[u8]) -> Option<Returned> {
        self.restart();
        let function = self.function_named(name)?;
        let types = self.parameters(name).ok()?;
        let mut numbers = arguments.iter().copied();
        let values = types.iter().map(|of| self.value_of(of, &mut numbers, payload));
        let values = values.collect::<Option<Vec<Value>>>()?;
        if numbers.next().is_some() {
            return None;
        }
        let limit = function.opaque.and_then(|declared| values.get(declared.below?));
        let limit = limit.and_then(|limit| match limit {
            Value::Scalar(_, term) => self.terms.known_value(*term),
            _ => None,
        });
        let result = self.call_function(function, name, None, values, Vec::new()).ok()?;
        let result = self.settled(result).ok()?;
        let parts = self.parts(&result, name).ok()?;
        let known = |part: crate::access::Part| {
            // As parts of unknown values are called.
            let called = part.name.replace(".some.0", ".value");
            let called = called.strip_suffix(".variant").unwrap_or(&called).to_owned();
            Some((called, self.terms.known_value(part.term)?))
        };
        let parts = parts.into_iter().map(known).collect::<Option<Parts>>()?;
        Some(Returned { parts, limit })
    }

    /// A value of this type, of the next numbers.
    fn value_of(
        &mut self,
        of: &Type,
        numbers: &mut impl Iterator<Item = u128>,
        payload: &[u8],
    ) -> Option<Value> {
        Some(match of {
            Type::Bool => Value::Bool(self.terms.bool(numbers.next()? != 0)),
            Type::Scalar(scalar) => {
                Value::Scalar(*scalar, self.terms.constant(numbers.next()?, scalar.width()))
            }
            Type::Tuple(types) => {
                let values = types.iter().map(|of| self.value_of(of, numbers, payload));
                Value::tuple(values.collect::<Option<_>>()?)
            }
            Type::Array(element, length) => {
                let values = (0..*length).map(|_| self.value_of(element, numbers, payload));
                Value::array(values.collect::<Option<_>>()?)
            }
            Type::Struct(shape) => {
                let values = shape.fields.iter().map(|(_, of)| self.value_of(of, numbers, payload));
                Value::Struct(shape.clone(), std::rc::Rc::new(values.collect::<Option<_>>()?))
            }
            Type::Enum(shape) if shape.variants.iter().all(|one| one.fields.is_empty()) => {
                let number = numbers.next()? as usize;
                (number < shape.variants.len())
                    .then(|| Value::variant(shape, number, Vec::new()))?
            }
            // A part of the payload stands in paths for where it begins and ends.
            Type::Slice(element) => {
                let (from, to) = (numbers.next()? as usize, numbers.next()? as usize);
                let bytes = payload.get(from..to)?.iter().map(|byte| u128::from(*byte));
                let mut bytes = bytes.collect::<Vec<_>>().into_iter();
                let values = (from..to).map(|_| self.value_of(element, &mut bytes, &[]));
                Value::array(values.collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
#[network_function(ports(lan, wan))]
pub mod nothing {
    pub struct Nothing {}

    #[opaque]
    fn mix(a: u64, b: u64) -> u64 {
        (a ^ b.wrapping_mul(3)).rotate_left(29)
    }

    impl Nothing {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Forward(pkt.port().other())
        }
    }
}
"#;

    #[test]
    fn calls_leave_no_more_than_a_bound() {
        let program = Program::read(TEXT, "nothing.rs", 1).unwrap();
        let mut bodies = Bodies::of(&program);
        let mut most = 0;
        for a in 0..u64::MAX {
            let b = !a;
            let is = (a ^ b.wrapping_mul(3)).rotate_left(29);
            let parts = bodies.run(&("mix".to_owned(), vec![a.into(), b.into()], Vec::new()));
            let parts = parts.map(|returned| returned.parts);
            assert_eq!(parts, Some(vec![("mix".to_owned(), u128::from(is))]));
            let left = bodies.interpreter.terms.len();
            if left < most {
                break;
            }
            most = left;
        }
        assert!((LEFT..LEFT + 100).contains(&most), "{most}");
    }
}
