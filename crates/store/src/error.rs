//! What can go wrong with a store, and what to do about it.

use crate::content::Kind;
use crate::key::Key;

/// Why a call was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `create` found something there.
    #[error("`{0}` exists already: update it, or create it under another id")]
    Exists(Key),
    /// `update` found nothing there.
    #[error("there is no `{0}`: create it first, or use `put`")]
    Missing(Key),
    /// The type has no such call, or the content is of another type.
    #[error("a {kind} has no `{operation}`; see the table of calls in docs/stores.md")]
    NotOfKind {
        /// The call's name.
        operation: &'static str,
        /// The object's type.
        kind: Kind,
    },
    /// A batch holds only calls that say how an object ends.
    #[error("`{0}` cannot stand in a batch: only put, arm, delete, insert and erase can")]
    NotInBatch(&'static str),
    /// Something is longer than the store's limits allow.
    #[error("{what} of {bytes} bytes is over the limit of {limit}: store it in parts")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A name that keys cannot be made of.
    #[error("`{text}` is no key of a store: {why}")]
    BadKey {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A counter would leave the range of 64 bits with sign; it is unchanged.
    #[error("`{0}` would leave the range of a signed 64-bit number; it is unchanged")]
    OutOfRange(Key),
    /// The store did not answer, or cannot be used now. What was asked of it may or may not have been done.
    #[error("the store `{store}` {why}")]
    Unavailable {
        /// Which store.
        store: String,
        /// What it does not do, what the connection or file says, and what to look at.
        why: String,
    },
    /// More is waiting for the store than may wait.
    #[error("{limit} calls wait for the store already: it is too slow for what is asked of it")]
    Backlog {
        /// How many may wait.
        limit: usize,
    },
    /// What is in the store was not written by this library.
    #[error("`{key}` holds what Anabranch has not written ({why}): keep others out of its keys")]
    Foreign {
        /// Where.
        key: Key,
        /// What is wrong with it.
        why: String,
    },
    /// The entries of an object are made of something else than they are here.
    #[error(
        "`{key}` says that entries are `{stored}`, and here they are `{here}`: run the release of the function that \
         wrote them, or begin anew as another instance"
    )]
    OtherLayout {
        /// Where it is noted.
        key: Key,
        /// What is noted.
        stored: String,
        /// What they are here.
        here: String,
    },
    /// A file of a durable store is damaged where a crash cannot have damaged it.
    #[error(
        "`{file}` is damaged at byte {offset} ({why}): restore it, or begin with an empty store"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// Written by a later release.
    #[error("{what} is of format {found}, this release reads up to {known}: use the later release")]
    LaterFormat {
        /// What was read.
        what: String,
        /// Its format.
        found: u16,
        /// The last format known here.
        known: u16,
    },
    /// A newer instance writes this state now.
    #[error("another instance, started later, writes the state of `{0}` now: give each its own id")]
    Fenced(String),
    /// There is no thread for what writes to the store.
    #[error(
        "no thread for the store: {0}: the system limits those of a user (`ulimit -u`) and of a service (TasksMax= of \
         systemd): raise that limit, or take fewer --workers"
    )]
    Threads(String),
    /// It cannot be taken over: somebody else is always ahead.
    #[error(
        "another instance writes the state of `{0}` without a pause: end it, or give each its own id"
    )]
    Contended(String),
    /// The store is not configured right.
    #[error("store `{text}`: {why}")]
    Configuration {
        /// What was written.
        text: String,
        /// What is wrong, and what to write instead.
        why: String,
    },
}

impl Error {
    /// The error of a store that does not answer.
    pub fn unavailable(store: impl ToString, why: impl ToString) -> Self {
        let why = why.to_string();
        let why = format!("does not answer ({why}); is it running, and is its address right?");
        Self::Unavailable { store: store.to_string(), why }
    }

    /// The error of a store that answers, and refuses: what it says, and what to look at.
    pub fn refused(store: impl ToString, says: impl ToString, look: &str) -> Self {
        let why = format!("refuses what is asked of it ({}): {look}", says.to_string());
        Self::Unavailable { store: store.to_string(), why }
    }

    /// The error of a store whose files cannot be read or written, and what to do about it.
    pub(crate) fn unusable(place: impl ToString, why: impl ToString, look: &str) -> Self {
        let why = format!("cannot be used ({}): {look}", why.to_string());
        Self::Unavailable { store: place.to_string(), why }
    }

    /// The error of an address that is not right, which is shown without user and password, and without options:
    /// a password may have been given as one.
    pub(crate) fn configuration(address: &str, why: &str) -> Self {
        let text = match (address.split_once("://"), address.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, hosts))) => format!("{scheme}://…@{hosts}"),
            (None, Some((_, hosts))) => format!("…@{hosts}"),
            // Of `USER:PASSWORD` without a host the password stands where a port does.
            (Some((scheme, hosts)), None) => match hosts.split('/').next().unwrap_or(hosts) {
                host if host.split(',').all(is_port) => address.to_string(),
                host => format!("{scheme}://{}:…", host.split(':').next().unwrap_or(host)),
            },
            _ => address.to_string(),
        };
        let text = text.split_once('?').map_or(text.clone(), |(text, _)| format!("{text}?…"));
        Self::Configuration { text, why: why.to_string() }
    }

    /// Whether the store may have done what was asked all the same, or may do it when asked again.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}

/// Whether behind the last colon of `host` stands a port, or nothing; of an IPv6 address, what is in brackets.
fn is_port(host: &str) -> bool {
    let host = host.split('?').next().unwrap_or(host);
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    host.starts_with('[') && port.ends_with(']') || port.bytes().all(|digit| digit.is_ascii_digit())
}
