//! The network functions a program knows, each behind one object-safe trait, so that one command
//! line serves any of them.

use std::marker::PhantomData;

use anabranch_nf::settings::{Command, Setting, Settings, nearest};
use anabranch_nf::{NetworkFunction, Source};
use anabranch_runtime::report::RunReport;

use crate::error::Error;
use crate::profile::Measured;
use crate::run::{Order, execute};
use crate::trace::{Choice, Shown};
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
    fn trace(&self, order: Order, choice: &Choice) -> Result<Vec<Shown>, Error>;
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
        let end = line.find(". ").map_or(line.len(), |end| end + 1);
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
        F::Settings::read(settings).map(drop).map_err(|why| why.to_string())
    }

    fn trace(&self, order: Order, choice: &Choice) -> Result<Vec<Shown>, Error> {
        crate::trace::execute::<F>(order, choice)
    }
}

/// The network functions of one program, in the order in which they are listed.
pub struct Library {
    entries: Vec<Box<dyn Entry>>,
}

impl Library {
    /// A library of these functions.
    pub fn new(entries: Vec<Box<dyn Entry>>) -> Library {
        Library { entries }
    }

    /// All of them.
    pub fn entries(&self) -> impl Iterator<Item = &dyn Entry> {
        self.entries.iter().map(Box::as_ref)
    }

    /// The function called `name`.
    ///
    /// # Errors
    /// [`Error::UnknownNf`], with the name that may have been meant.
    pub fn find(&self, name: &str) -> Result<&dyn Entry, Error> {
        self.entries().find(|entry| entry.description().name == name).ok_or_else(|| {
            let names: Vec<&str> = self.entries().map(|entry| entry.description().name).collect();
            Error::UnknownNf(match nearest(name, names.iter().copied()) {
                Some(meant) => format!("there is no NF `{name}`; did you mean `{meant}`?"),
                None => format!("there is no NF `{name}`; there are: {}", names.join(", ")),
            })
        })
    }
}
