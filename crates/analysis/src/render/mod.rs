//! Call paths as text and as JSON. Both say the same, in the same words.

mod json;
mod text;

use crate::access::{Access, Part};
use crate::expr::{Kind, Node, Term};
use crate::interpret::packet::field_type;
use crate::interpret::types::Scalar;
use crate::path::{CallPath, Effect, Rewrite, Verdict};
use crate::paths::Paths;

impl Paths {
    /// What becomes of the packets of a path, as the author would write it.
    pub fn verdict_of(&self, path: &CallPath) -> String {
        self.verdict_text(&path.verdict)
    }

    fn print(&self, term: Term) -> String {
        self.terms.print(term, &self.words)
    }

    fn print_part(&self, part: &Part) -> String {
        self.terms.print_as(part.term, &part.kind, &self.words)
    }

    /// The new value of a field, a constant as the field is written.
    fn print_rewrite(&self, rewrite: &Rewrite) -> String {
        let of = field_type(rewrite.header, rewrite.field).and_then(Scalar::named);
        let kind = of.map_or(Kind::Number, Scalar::kind);
        self.terms.print_as(rewrite.term, &kind, &self.words)
    }

    fn print_port(&self, term: Term) -> String {
        self.terms.print_as(term, &Kind::Port, &self.words)
    }

    /// The outcome of an access on its path: `found`, `absent`, `stored`; nothing where the path
    /// does not ask.
    fn outcome(&self, path: &CallPath, access: &Access) -> Option<String> {
        let outcome = access.outcome?;
        let symbol = match self.terms.node(outcome) {
            Node::Not(inner) => *inner,
            _ => outcome,
        };
        let (yes, no) = match (self.terms.bool_of(outcome), self.terms.kind_of(symbol)) {
            (Some(_), _) => words_of(&access.operation),
            (None, Kind::Outcome(yes, no)) => (yes, no),
            _ => return None,
        };
        Some(if path.outcome(access, &self.terms)? { yes } else { no }.to_owned())
    }

    /// The verdict as the author would write it.
    fn verdict_text(&self, verdict: &Verdict) -> String {
        match verdict {
            Verdict::Forward(port) => format!("Forward({})", self.print_port(*port)),
            Verdict::Drop(reason) => format!("Drop({reason})"),
            Verdict::Flood => "Flood".to_owned(),
            Verdict::Recirculate(port) => format!("Recirculate({})", self.print_port(*port)),
            Verdict::Object(object) => format!("answered, held or dropped by {object}"),
            Verdict::Done => "done".to_owned(),
            Verdict::Refused(text) => format!("refused: {text}"),
        }
    }

    fn effect_text(&self, effect: &Effect) -> String {
        match effect {
            Effect::Emit { port, len, .. } => {
                format!("emit({}, {} bytes)", self.print_port(*port), self.print(*len))
            }
            Effect::SetExpiry { lifetime_ns, .. } => {
                format!("set_expiry({})", self.print(*lifetime_ns))
            }
            Effect::SetTimer { delay_ns, token, .. } => {
                format!("set_timer({}, {})", self.print(*delay_ns), self.print(*token))
            }
        }
    }

    /// `ipv4 tcp packets from lan`, or nothing where there is no packet.
    fn port_name(&self, path: &CallPath) -> Option<&str> {
        path.port.and_then(|port| self.words.ports.get(port)).map(String::as_str)
    }
}

/// Outcomes that are known before they are asked.
fn words_of(operation: &str) -> (&'static str, &'static str) {
    match operation {
        "insert" => ("stored", "full"),
        "allocate_at" => ("allocated", "taken"),
        _ => ("found", "absent"),
    }
}

fn effect_line(effect: &Effect) -> u32 {
    match effect {
        Effect::Emit { line, .. }
        | Effect::SetExpiry { line, .. }
        | Effect::SetTimer { line, .. } => *line,
    }
}
