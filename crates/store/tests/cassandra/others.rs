//! Key spaces and tables that somebody else has made: fit to keep state in, or it is told what is wrong with them.

use anabranch_store::Driver as _;

use crate::cql::Cql;
use crate::server::Server;
use crate::{RELEASE, alone, driver};

/// The columns as this release makes them.
const COLUMNS: &str =
    "scope text, kind text, id text, entry blob, value blob, number bigint, ends bigint";

#[test]
fn what_others_have_made_is_told_where_state_would_be_lost_in_it() {
    let _alone = alone();
    let Some(server) = Server::start(RELEASE) else { return };
    let cql = Cql::of(&server.node());
    let key = "PRIMARY KEY ((scope), kind, id, entry)";
    let backwards = "WITH CLUSTERING ORDER BY (kind DESC, id DESC, entry DESC)";
    let tables = [
        ("right", format!("{COLUMNS}, note text, {key}"), "", ""),
        ("backwards", format!("{COLUMNS}, {key}"), backwards, "no `kind text` (clustering, asc)"),
        ("ends", format!("{COLUMNS}, {key}"), "WITH default_time_to_live = 20", "time_to_live 20"),
        ("small", format!("{}, {key}", COLUMNS.replace("bigint", "int")), "", "no `number bigint`"),
        ("another", "a int PRIMARY KEY".to_owned(), "", "no `scope text` (partition_key)"),
    ];
    let opened = |keyspace: &str, more: &str| {
        driver(&server.address_in(keyspace, &format!("timeout_ms=30000{more}"))).keys("")
    };
    for (keyspace, columns, options, why) in tables {
        cql.ask(&format!(
            "CREATE KEYSPACE {keyspace} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ));
        cql.ask(&format!("CREATE TABLE {keyspace}.anabranch_state ({columns}) {options}"));
        match (opened(keyspace, ""), why) {
            (Ok(keys), "") => assert_eq!(keys, []),
            (Ok(keys), _) => panic!("{keyspace}: taken, with {keys:?}"),
            (Err(error), why) => {
                let error = error.to_string();
                assert!(!why.is_empty() && error.contains(why), "{keyspace}: {error}");
            }
        }
    }
    let error = opened("right", "&replication=3").unwrap_err().to_string();
    assert!(error.contains("copies of everything: 1; the address says 3"), "{error}");
    cql.ask(
        "ALTER KEYSPACE right WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
    );
    let error = opened("right", "&consistency=one").unwrap_err().to_string();
    assert!(error.contains("written to 1 of them may not be found again"), "{error}");
    let error = opened("right", "").unwrap_err().to_string();
    assert!(error.contains("fewer nodes are up"), "{error}");
}
