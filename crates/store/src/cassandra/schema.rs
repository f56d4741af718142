//! The key space and its table: made where they lack, and looked at where they are there. Of a table that somebody else
//! has made in another way, whole pages would be missed, or rows end by themselves, without a word.

use std::collections::BTreeMap;

use scylla::client::session::Session;

use super::address::Address;

/// The table that has all state.
const TABLE: &str = "anabranch_state";

/// Its columns as servers describe them: name, part of the key or not, place in it, order, type.
const COLUMNS: [Column<'static>; 7] = [
    ("scope", "partition_key", 0, "none", "text"),
    ("kind", "clustering", 0, "asc", "text"),
    ("id", "clustering", 1, "asc", "text"),
    ("entry", "clustering", 2, "asc", "blob"),
    ("value", "regular", -1, "none", "blob"),
    ("number", "regular", -1, "none", "bigint"),
    ("ends", "regular", -1, "none", "bigint"),
];

type Column<'a> = (&'a str, &'a str, i32, &'a str, &'a str);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What is there and is none to keep state in: what is wrong, and what to do about it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}: {look}")]
pub(super) struct Unfit {
    pub(super) why: String,
    pub(super) look: &'static str,
}

/// Makes the key space and its table where they lack.
///
/// # Errors
/// [`Unfit`]: they are there, and are not as state needs them.
pub(super) async fn prepare(session: &Session, address: &Address) -> Result<(), Failure> {
    const OPTIONS: &str = "SELECT default_time_to_live FROM system_schema.tables \
                           WHERE keyspace_name = ? AND table_name = ?";
    const OF_TABLE: &str = "SELECT column_name, kind, position, clustering_order, type \
                            FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?";
    const OF_KEYSPACE: &str =
        "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let keyspace = &address.keyspace;
    let found = session.query_unpaged(OPTIONS, (keyspace, TABLE)).await?.into_rows_result()?;
    match found.maybe_first_row::<(Option<i32>,)>()? {
        Some((ends_s,)) => {
            let columns = session.query_unpaged(OF_TABLE, (keyspace, TABLE)).await?;
            let columns = columns.into_rows_result()?;
            let columns = columns.rows::<Column>()?.collect::<Result<Vec<_>, _>>()?;
            fit_table(keyspace, &columns, ends_s.unwrap_or(0))?;
        }
        None => {
            for make in making(address) {
                session.query_unpaged(make, ()).await?;
            }
        }
    }
    let found = session.query_unpaged(OF_KEYSPACE, (keyspace,)).await?.into_rows_result()?;
    match found.maybe_first_row::<(BTreeMap<String, String>,)>()? {
        Some((replication,)) => Ok(fit_copies(address, &replication)?),
        None => Ok(()),
    }
}

/// # Errors
/// Rows of this table would come in another order, be of other types, or end by themselves.
fn fit_table(keyspace: &str, columns: &[Column], ends_s: i32) -> Result<(), Unfit> {
    let look = "it was made by something else; name another key space, or drop the table, with all that it holds";
    let unfit = |what: &str| Unfit { why: format!("its table {keyspace}.{TABLE} {what}"), look };
    let told = |(name, kind, _, order, of): &Column| match *order {
        "none" => format!("`{name} {of}` ({kind})"),
        order => format!("`{name} {of}` ({kind}, {order})"),
    };
    if let Some(lacking) = COLUMNS.iter().find(|column| !columns.contains(column)) {
        return Err(unfit(&format!("has no {}", told(lacking))));
    }
    // More columns are no harm, but for a longer key.
    let is_more = |column: &&Column| column.2 >= 0 && !COLUMNS.contains(column);
    if let Some(more) = columns.iter().find(is_more) {
        return Err(unfit(&format!("has {} beside", told(more))));
    }
    match ends_s {
        0 => Ok(()),
        _ => {
            Err(unfit(&format!("has default_time_to_live {ends_s}, so that state ends by itself")))
        }
    }
}

/// # Errors
/// The key space has fewer copies than the address says, or so many that it writes to too few of them.
fn fit_copies(address: &Address, replication: &BTreeMap<String, String>) -> Result<(), Unfit> {
    let copies = copies(replication);
    let unfit = |what: String, look| {
        let why = format!(
            "its key space {} has copies of everything: {copies}; {what}",
            address.keyspace
        );
        Err(Unfit { why, look })
    };
    if copies < u32::from(address.replication) {
        let look = "give it more (ALTER KEYSPACE, then nodetool repair), or write replication=N with what it has";
        return unfit(format!("the address says {}", address.replication), look);
    }
    match address.asked() {
        Some(asked) if 2 * asked <= copies => {
            let what = format!("what is written to {asked} of them may not be found again");
            unfit(what, "write consistency=quorum or local-quorum")
        }
        _ => Ok(()),
    }
}

/// Copies in all data centres together, as a key space describes them: `class`, and a number for each data centre, or
/// one for all (`3`, or `3/1`, where one of them is transient).
fn copies(replication: &BTreeMap<String, String>) -> u32 {
    let number = |text: &String| text.split('/').next()?.parse::<u32>().ok();
    replication
        .iter()
        .filter(|(name, _)| *name != "class")
        .filter_map(|(_, text)| number(text))
        .sum()
}

/// What makes the key space and its table.
///
/// **Invariant: the same table wherever it is made.** Servers that have not told each other yet, as when a cluster
/// comes up and several instances with it, each make one; of two with identities of their own the servers would keep
/// one, and lose what had been written to the other.
fn making(address: &Address) -> [String; 2] {
    let Address { keyspace, replication, .. } = address;
    // What is erased is remembered for replicas that missed it, three hours as hints are; of one copy
    // for nobody. Flows come and go: readers would wade through ten days of them.
    let kept_s = if *replication == 1 { 0 } else { 3 * 3_600 };
    let id = identity(keyspace);
    [
        format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', 'replication_factor': {replication}}}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.{TABLE} (scope text, kind text, id text, \
             entry blob, value blob, number bigint, ends bigint, PRIMARY KEY ((scope), kind, id, entry)) \
             WITH id = '{id}' AND gc_grace_seconds = {kept_s}"
        ),
    ]
}

/// The identity of the table in this key space: a UUID of version 8 (RFC 9562, section 5.8), by the hash of its name.
fn identity(keyspace: &str) -> String {
    let hash = hash(format!("{keyspace}.{TABLE}").as_bytes());
    let id = hash & !(0xf << 76) & !(0b11 << 62) | 8 << 76 | 0b10 << 62;
    let parts = [(96, 8), (80, 4), (64, 4), (48, 4), (0, 12)];
    let parts = parts.map(|(at, digits)| {
        let part = id >> at & ((1 << (4 * digits)) - 1);
        format!("{part:0digits$x}")
    });
    parts.join("-")
}

/// FNV-1a, 128 bits.
fn hash(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_another_kind_is_told_and_more_columns_are_no_harm() {
        let told =
            |columns: &[Column], ends_s| fit_table("k", columns, ends_s).map_err(|unfit| unfit.why);
        assert_eq!(told(&COLUMNS, 0), Ok(()));
        let more = [&COLUMNS[..], &[("note", "regular", -1, "none", "text")]].concat();
        assert_eq!(told(&more, 0), Ok(()));
        let has = |what: &str| Err(format!("its table k.anabranch_state has {what}"));
        assert_eq!(
            told(&COLUMNS, 20),
            has("default_time_to_live 20, so that state ends by itself")
        );
        assert_eq!(told(&COLUMNS[..6], 0), has("no `ends bigint` (regular)"));
        let mut backwards = COLUMNS;
        backwards[3].3 = "desc";
        assert_eq!(told(&backwards, 0), has("no `entry blob` (clustering, asc)"));
        let longer = [&COLUMNS[..], &[("more", "clustering", 3, "asc", "int")]].concat();
        assert_eq!(told(&longer, 0), has("`more int` (clustering, asc) beside"));
    }

    #[test]
    fn copies_are_those_that_there_are_and_most_of_them_are_written_to() {
        let fits = |text: &str, numbers: &[(&str, &str)]| {
            let address = Address::parse(&format!("cassandra://a/k?{text}")).unwrap();
            let numbers = [&[("class", "…Strategy")], numbers].concat();
            let own = |(name, text): &(&str, &str)| (name.to_string(), text.to_string());
            fit_copies(&address, &numbers.iter().map(own).collect()).map_err(|unfit| unfit.why)
        };
        let (one, three) = ([("dc", "1")], [("replication_factor", "3")]);
        assert_eq!(fits("consistency=one", &one), Ok(()));
        assert_eq!(fits("", &three), Ok(()));
        assert_eq!(fits("consistency=two", &three), Ok(()));
        assert_eq!(fits("replication=3", &[("a", "2"), ("b", "3/1")]), Ok(()));
        let too_few = fits("consistency=one", &three).unwrap_err();
        assert!(too_few.contains("written to 1 of them may not be found"), "{too_few}");
        let fewer = fits("replication=3", &one).unwrap_err();
        assert!(fewer.ends_with("of everything: 1; the address says 3"), "{fewer}");
    }

    #[test]
    fn the_table_has_one_identity_wherever_it_is_made() {
        let id = identity("anabranch");
        assert_eq!(id, identity("anabranch"));
        assert_ne!(id, identity("anabranch_2"));
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
        assert!(id.as_bytes()[14] == b'8' && b"89ab".contains(&id.as_bytes()[19]), "{id}");
        // Of releases that were, which may make it beside this one.
        assert_eq!(id, "965a1700-e6fb-8d1d-b31c-8a510baac89f");
        // As published with the algorithm.
        assert_eq!(hash(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
