//! The network functions a program knows, each behind one object-safe trait, so that one command
//! line serves any of them.

use std::marker::PhantomData;

use anabranch_nf::settings::{Command, Setting, Settings, nearest};
use anabranch_nf::{NetworkFunction, Source};
use anabranch_runtime::instance::own_settings;
use anabranch_runtime::report::RunReport;

use crate::error::Error;
use crate::profile::Measured;
use crate::run::{Order, execute};
use crate::trace::{Choice, Traced};
use crate::verify::{Trial, Verified};

/// One network function, as the command line sees it. Implemented for every
/// [`NetworkFunction`] by [`entry`].
pub trait Entry: Send + Sync {
    /// What there is to say about it.
    fn description(&self) -> Description;

    /// Its source text, for analysis.
    fn source(&self) -> Source;

    /// Runs it as ordered.
    ///
    /// # Errors
    /// When it cannot begin. What goes wrong later stands in the report.
    fn run(&self, order: Order) -> Result<RunReport, Error>;

    /// Verifies it on many cores.
    ///
    /// # Errors
    /// When it cannot begin.
    fn verify(&self, trial: Trial) -> Result<Verified, Error>;

    /// Runs it as ordered, in transactions that are watched, and not.
    ///
    /// # Errors
    /// When it cannot begin.
    fn profile(&self, order: Order) -> Result<Measured, Error>;

    /// Whether it takes these settings.
    ///
    /// # Errors
    /// Why not.
    fn accepts(&self, settings: &toml::Table) -> Result<(), String>;

    /// Follows packets of the order's inputs, one at a time.
    ///
    /// # Errors
    /// When it cannot begin, or an input fails.
    fn trace(&self, order: Order, choice: &Choice) -> Result<Traced, Error>;
}

/// A network function in words: what `anabranch nfs` prints.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its name.
    pub name: &'static str,
    /// Its documentation, in Markdown; the first line says what it does.
    pub docs: &'static str,
    /// Names of its ports; empty: any number, named on the command line.
    pub ports: &'static [&'static str],
    /// Where it is written.
    pub file: &'static str,
    /// Its settings.
    pub settings: Vec<Setting>,
    /// Whether it takes the tables of routing beside them.
    pub routes: bool,
    /// Its own drop reasons: word and meaning.
    pub reasons: Vec<(&'static str, &'static str)>,
    /// What `--control` accepts: name, fields, meaning.
    pub commands: Vec<(&'static str, Vec<Setting>, &'static str)>,
}

impl Description {
    /// The first sentence of the documentation.
    pub fn summary(&self) -> String {
        let paragraph = self.docs.trim().split("\n\n").next().unwrap_or_default();
        let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        // The dot of an abbreviation ends no sentence.
        let end = line.match_indices(". ").find(|(at, _)| !line[..*at].ends_with(" al"));
        let end = end.map_or(line.len(), |(at, _)| at + 1);
        line[..end].trim_start_matches("# ").to_string()
    }
}

/// The entry of the network function `F`.
pub fn entry<F: NetworkFunction>() -> Box<dyn Entry> {
    Box::new(Of::<F>(PhantomData))
}

struct Of<F>(PhantomData<fn() -> F>);

impl<F: NetworkFunction> Entry for Of<F> {
    fn description(&self) -> Description {
        Description {
            name: F::NAME,
            docs: F::DOCS,
            ports: F::PORTS,
            file: F::SOURCE.file,
            settings: F::Settings::schema(),
            routes: F::ROUTES,
            reasons: F::REASONS.iter().map(|reason| (reason.name, reason.help)).collect(),
            commands: F::Command::schema(),
        }
    }

    fn source(&self) -> Source {
        F::SOURCE
    }

    fn run(&self, order: Order) -> Result<RunReport, Error> {
        execute::<F>(order)
    }

    fn verify(&self, trial: Trial) -> Result<Verified, Error> {
        crate::verify::execute::<F>(trial)
    }

    fn profile(&self, order: Order) -> Result<Measured, Error> {
        crate::profile::execute::<F>(order)
    }

    fn accepts(&self, settings: &toml::Table) -> Result<(), String> {
        own_settings::<F>(settings).map(drop).map_err(|why| why.to_string())
    }

    fn trace(&self, order: Order, choice: &Choice) -> Result<Traced, Error> {
        crate::trace::execute::<F>(order, choice)
    }
}

/// The network functions of one program, in the order in which they are listed.
pub struct Library {
    entries: Vec<Box<dyn Entry>>,
    absent: &'static [(&'static str, &'static str)],
}

impl Library {
    /// A library of these functions.
    pub fn new(entries: Vec<Box<dyn Entry>>) -> Library {
        Library { entries, absent: &[] }
    }

    /// The same, which knows of functions that were not compiled in, by their names and the features
    /// of this crate that they need.
    #[must_use]
    pub fn without(self, absent: &'static [(&'static str, &'static str)]) -> Library {
        Library { absent, ..self }
    }

    /// All of them.
    pub fn entries(&self) -> impl Iterator<Item = &dyn Entry> {
        self.entries.iter().map(Box::as_ref)
    }

    /// The function called `name`.
    ///
    /// # Errors
    /// [`Error::UnknownNf`], with the name that may have been meant, or the feature that is lacking.
    pub fn find(&self, name: &str) -> Result<&dyn Entry, Error> {
        let found = self.entries().find(|entry| entry.description().name == name);
        found.ok_or_else(|| Error::UnknownNf(self.explain(name)))
    }

    /// Why there is no function called `name`.
    fn explain(&self, name: &str) -> String {
        if let Some((_, feature)) = self.absent.iter().find(|(absent, _)| *absent == name) {
            return format!(
                "this program was compiled without the NF `{name}`; build it with the feature \
                 `{feature}`: cargo build --release --package anabranch --features {feature}"
            );
        }
        let names: Vec<&str> = self.entries().map(|entry| entry.description().name).collect();
        match nearest(name, names.iter().copied()) {
            Some(meant) => format!("there is no NF `{name}`; did you mean `{meant}`?"),
            None => format!("there is no NF `{name}`; there are: {}", names.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Description, Library};

    #[test]
    fn a_summary_is_the_first_sentence() {
        let summary = |docs| {
            let (name, ports, file) = ("one", &[][..], "one.rs");
            let (settings, reasons, commands) = (Vec::new(), Vec::new(), Vec::new());
            let routes = false;
            Description { name, docs, ports, file, settings, routes, reasons, commands }.summary()
        };
        assert_eq!(summary("Counts\n(Jung et al. 2004). And more."), "Counts (Jung et al. 2004).");
        assert_eq!(summary("# Counts packets\n\nMore."), "Counts packets");
    }

    #[test]
    fn what_is_not_compiled_in_says_which_feature_it_needs() {
        let library = Library::new(Vec::new()).without(&[("portscan", "security")]);
        let told = |name| library.find(name).err().map(|error| error.to_string());
        let lacking = told("portscan").unwrap_or_default();
        assert!(lacking.contains("--features security"), "{lacking}");
        let unknown = told("port-scan").unwrap_or_default();
        assert!(unknown.contains("there is no NF `port-scan`"), "{unknown}");
    }
}
