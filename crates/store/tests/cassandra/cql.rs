//! What somebody else does in a server, by statements of its own language.

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::value::Row;
use tokio::runtime::Runtime;

/// A connection beside the driver's.
pub struct Cql {
    runtime: Runtime,
    session: Session,
}

impl Cql {
    /// An error: the server does not let it in.
    pub fn connect(builder: SessionBuilder) -> Result<Self, String> {
        let runtime = Runtime::new().unwrap();
        let session = runtime.block_on(builder.build()).map_err(|why| why.to_string())?;
        Ok(Self { runtime, session })
    }

    /// Without a password, as somebody who may do everything.
    pub fn of(node: &str) -> Self {
        Self::connect(SessionBuilder::new().known_node(node)).unwrap()
    }

    pub fn ask(&self, statement: &str) -> Vec<Row> {
        let answer = self.runtime.block_on(self.session.query_unpaged(statement, ()));
        let answer = answer.unwrap_or_else(|why| panic!("{statement}: {why}"));
        if !answer.is_rows() {
            return Vec::new();
        }
        let rows = answer.into_rows_result().unwrap();
        rows.rows::<Row>().unwrap().map(Result::unwrap).collect()
    }

    /// All statements of a file, whose lines may be comments.
    pub fn run(&self, file: &str) {
        let lines = file.lines().filter(|line| !line.starts_with("--"));
        let text = lines.collect::<Vec<_>>().join("\n");
        for statement in text.split(";\n").map(str::trim).filter(|one| !one.is_empty()) {
            self.ask(statement.trim_end_matches(';'));
        }
    }
}
