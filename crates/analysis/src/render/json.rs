//! Call paths for programs. Names are stable; `docs/paths.md` describes them.

use serde::{Serialize, Serializer};

use super::effect_line;
use crate::access::{Access, Mode, Part};
use crate::path::{CallPath, Effect, Verdict};
use crate::paths::{Paths, Statistics};

#[derive(Serialize)]
struct Document<'a> {
    nf: &'a str,
    file: &'a str,
    statistics: Statistics,
    warnings: Vec<LineJson>,
    opaque: &'a [String],
    declared: &'a [String],
    distant: &'a std::collections::BTreeSet<usize>,
    proved: Vec<String>,
    paths: Vec<PathJson>,
}

/// Text and the line it is about.
#[derive(Serialize)]
struct LineJson {
    text: String,
    line: u32,
}

#[derive(Serialize)]
struct PathJson {
    number: usize,
    handler: String,
    port: Option<String>,
    class: Option<String>,
    conditions: Vec<LineJson>,
    accesses: Vec<AccessJson>,
    rewrites: Vec<RewriteJson>,
    effects: Vec<LineJson>,
    verdict: VerdictJson,
    line: u32,
}

#[derive(Serialize)]
struct AccessJson {
    number: usize,
    object: String,
    kind: &'static str,
    operation: String,
    mode: Mode,
    key: Vec<PartJson>,
    symmetric: bool,
    value: Vec<PartJson>,
    result: Vec<PartJson>,
    outcome: Option<String>,
    line: u32,
}

#[derive(Serialize)]
struct PartJson {
    name: String,
    value: String,
}

#[derive(Serialize)]
struct RewriteJson {
    field: String,
    value: String,
    line: u32,
}

#[derive(Serialize)]
struct VerdictJson {
    action: &'static str,
    port: Option<String>,
    reason: Option<String>,
}

impl Serialize for Paths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let warnings = self.warnings.iter();
        let document = Document {
            nf: &self.name,
            file: &self.file,
            statistics: self.statistics,
            warnings: warnings
                .map(|warning| LineJson { text: warning.message.clone(), line: warning.line })
                .collect(),
            opaque: &self.opaque,
            declared: &self.declared,
            distant: &self.distant,
            proved: self.proved(),
            paths: self.paths.iter().map(|path| self.path_json(path)).collect(),
        };
        document.serialize(serializer)
    }
}

impl Paths {
    fn path_json(&self, path: &CallPath) -> PathJson {
        PathJson {
            number: path.number,
            handler: path.handler.clone(),
            port: self.port_name(path).map(str::to_owned),
            class: path.class.clone(),
            conditions: path
                .conditions
                .iter()
                .map(|made| LineJson { text: self.print(made.term), line: made.line })
                .collect(),
            accesses: path.accesses.iter().map(|access| self.access_json(path, access)).collect(),
            rewrites: path
                .rewrites
                .iter()
                .map(|made| RewriteJson {
                    field: format!("{}.{}", made.header, made.field),
                    value: self.print_rewrite(made),
                    line: made.line,
                })
                .collect(),
            effects: path.effects.iter().map(|effect| self.effect_json(effect)).collect(),
            verdict: self.verdict_json(&path.verdict),
            line: path.line,
        }
    }

    fn access_json(&self, path: &CallPath, access: &Access) -> AccessJson {
        AccessJson {
            number: access.number,
            object: access.object.clone(),
            kind: access.kind,
            operation: access.operation.clone(),
            mode: access.mode,
            key: self.parts_json(&access.key),
            symmetric: access.symmetric,
            value: self.parts_json(&access.value),
            result: self.parts_json(&access.result),
            outcome: self.outcome(path, access),
            line: access.line,
        }
    }

    fn parts_json(&self, parts: &[Part]) -> Vec<PartJson> {
        let part = |part: &Part| PartJson { name: part.name.clone(), value: self.print_part(part) };
        parts.iter().map(part).collect()
    }

    fn effect_json(&self, effect: &Effect) -> LineJson {
        LineJson { text: self.effect_text(effect), line: effect_line(effect) }
    }

    fn verdict_json(&self, verdict: &Verdict) -> VerdictJson {
        let (action, port, reason) = match verdict {
            Verdict::Forward(port) => ("forward", Some(*port), None),
            Verdict::Drop(reason) => ("drop", None, Some(reason.clone())),
            Verdict::Flood => ("flood", None, None),
            Verdict::Recirculate(port) => ("recirculate", Some(*port), None),
            Verdict::Object(object) => ("object", None, Some(object.clone())),
            Verdict::Done => ("done", None, None),
            Verdict::Refused(text) => ("refused", None, Some(text.clone())),
        };
        VerdictJson { action, port: port.map(|port| self.print_port(port)), reason }
    }
}
