//! Why transactions are given up at a structure, and what can be done about it: what a profile is made
//! of. Each structure declares its own, next to its implementation, from which they follow.

use anabranch_txn::Relation;

/// A structure that transactions meet in.
#[derive(Debug)]
pub struct Structure {
    /// As an author writes it: `Map`; `packet set`.
    pub kind: &'static str,
    /// Everything for which transactions are given up at it. Of several that apply the first counts.
    pub causes: &'static [Cause],
}

/// One reason.
#[derive(Debug)]
pub struct Cause {
    /// What it is called: stable, in lower case.
    pub name: &'static str,
    /// When it is the reason.
    pub when: When,
    /// Why that is so, in a sentence.
    pub why: &'static str,
    /// What can be done, the least relaxing first.
    pub recipes: &'static [Recipe],
}

/// When a cause is the reason.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// Two operations about the same key met in this part, and one of them wrote.
    Same(&'static str),
    /// Two operations about different keys did.
    Different(&'static str),
    /// Two operations did, whatever they were about.
    Met(&'static str),
    /// One of these operations had to be alone.
    Alone(&'static [Operation]),
    /// Another worker committed anything.
    Overtaken,
    /// An operation was the first to change an object beside others.
    First,
    /// An operation read or wrote more than a transaction has room for.
    TooLarge,
}

/// A change that relieves a cause.
#[derive(Debug)]
pub struct Recipe {
    /// What to change.
    pub change: Change,
    /// What the NF does then that it did not do before; empty: nothing.
    pub relaxes: &'static str,
    /// What is to be expected of it.
    pub effect: &'static str,
}

/// What a recipe changes.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// The capacity of the object, so many times as large.
    Capacity(u64),
    /// A setting that decides whether the line writes: so many times as large, 1 instead of 0. Where
    /// there is none, the line gets a condition.
    Guard(u64),
    /// How old what is read may be: at least so many milliseconds.
    Staleness(u64),
    /// The type of the field: one text in place of another.
    Declaration(&'static str, &'static str),
    /// The line: what to write there instead, in words.
    Line(&'static str),
    /// The plan: packets that share state are steered to one worker, or all run under one lock.
    Strategy,
}

/// Why something runs alone where little room is left.
pub(super) const NEARLY_FULL: &str = "whether there is room for one more is certain beside others \
                                      only while there is room for 512 a worker";

/// For a table that is nearly full.
pub(super) const TWICE_THE_ROOM: Recipe = Recipe {
    change: Change::Capacity(2),
    relaxes: "",
    effect: "no packet runs alone for it until the table fills again",
};

/// For what is exact only alone.
pub(super) const ASK_IN_PERIODIC: Recipe = Recipe {
    change: Change::Line("ask it in `periodic` and keep the answer in a `Cell`"),
    relaxes: "the number may be as old as the period is long",
    effect: "no packet runs alone for it",
};

macro_rules! operations {
    ($($operation:ident $name:literal,)+) => {
        /// What is asked of a structure, or of the runtime.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Operation {
            $(#[doc = concat!("`", $name, "`.")] $operation,)+
        }

        impl Operation {
            const ALL: &[Self] = &[$(Self::$operation),+];

            /// As an author writes it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$operation => $name,)+ }
            }
        }
    };
}
operations! {
    Get "get", Contains "contains", Insert "insert", Remove "remove", Update "update", Len "len",
    Read "read", Write "write", Set "set", Add "add",
    Allocate "allocate", AllocateAt "allocate_at", AllocateWithin "allocate_within", Free "free",
    Refresh "refresh", Touch "touch", IsAllocated "is_allocated",
    Receive "receive", Forward "forward",
    Find "find", Open "open", Keep "keep",
    Due "due", Log "log!", SetTimer "set_timer", Reenter "Recirculate",
}

/// An operation, where the author wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// What was asked.
    pub operation: Operation,
    /// Of which object, by its number; `None`: of the runtime.
    pub object: Option<u16>,
    /// At which line of the author's file; 0: nowhere in it, the runtime does it for the author.
    pub line: u32,
}

/// Lines that are told apart.
const MOST_LINES: u32 = (1 << 24) - 1;

impl From<Site> for anabranch_txn::Site {
    #[inline(always)]
    fn from(site: Site) -> Self {
        // An object's number is counted from 1, so that no site is 0.
        let object = site.object.map_or(u64::from(u16::MAX), |object| u64::from(object) + 1);
        let line = u64::from(site.line.min(MOST_LINES));
        Self(object << 32 | line << 8 | site.operation as u64)
    }
}

impl Site {
    /// The site that was made that number; `None`: none was.
    pub fn of(site: anabranch_txn::Site) -> Option<Self> {
        let operation = *Operation::ALL.get(site.0 as u8 as usize)?;
        let object = match (site.0 >> 32) as u16 {
            0 => return None,
            u16::MAX => None,
            number => Some(number - 1),
        };
        Some(Self { operation, object, line: (site.0 >> 8) as u32 & MOST_LINES })
    }
}

impl Structure {
    /// The cause of a conflict in the part of that name.
    pub fn conflict(&self, part: &str, relation: Relation) -> Option<&'static Cause> {
        self.causes.iter().find(|cause| match cause.when {
            When::Same(there) => there == part && relation != Relation::Different,
            When::Different(there) => there == part && relation != Relation::Same,
            When::Met(there) => there == part,
            When::Overtaken | When::Alone(_) | When::First | When::TooLarge => false,
        })
    }

    /// The cause for which an operation has to be alone.
    pub fn alone(&self, operation: Operation) -> Option<&'static Cause> {
        let alone =
            |cause: &&Cause| matches!(cause.when, When::Alone(all) if all.contains(&operation));
        self.causes.iter().find(alone)
    }

    /// The first cause of that kind.
    pub fn cause(&self, is_it: impl Fn(When) -> bool) -> Option<&'static Cause> {
        self.causes.iter().find(|cause| is_it(cause.when))
    }
}

/// A structure of a run, as transactions see it.
pub trait Contended {
    /// What there is to know of its kind.
    const STRUCTURE: &'static Structure;

    /// Its memories, by number, and which part of it each is.
    fn parts(&self) -> Vec<(u16, &'static str)>;

    /// A key or index in words, as text.
    fn key(words: &[u64]) -> String;
}

/// An index in words, as text.
pub(super) fn index(words: &[u64]) -> String {
    words.first().map(u64::to_string).unwrap_or_default()
}
