//! The connection: made when first used, made again after a failure, never waited for without end.

use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tokio::runtime::{Builder, Runtime};

use super::address::Address;
use super::requests::Requests;
use crate::error::Error;

/// Longest that a question of many requests may take, in timeouts; and a read, which may have to go through a
/// million rows that were erased.
const PATIENCE: u32 = 10;

pub(super) struct Link {
    address: Address,
    name: String,
    runtime: Option<Runtime>,
    requests: Option<Requests>,
}

impl Link {
    pub(super) fn new(address: Address) -> Self {
        Self { name: address.to_string(), address, runtime: None, requests: None }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Asks what `question` asks. After a failure the next question connects anew.
    pub(super) fn ask<T>(
        &mut self,
        question: impl AsyncFnOnce(&Requests) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.runtime.is_none() {
            let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
            self.runtime = Some(runtime.map_err(|why| Error::unavailable(&self.name, why))?);
        }
        let Some(runtime) = &self.runtime else { return Err(late(&self.name)) };
        let (address, name) = (&self.address, &self.name);
        if self.requests.is_none() {
            let connected = runtime.block_on(within(address.timeout * PATIENCE, name, async {
                let session =
                    connect(address).await.map_err(|why| Error::unavailable(name, why))?;
                let patience = address.timeout * PATIENCE;
                Requests::prepare(session, name, address.serial(), patience).await
            }));
            self.requests = Some(connected?);
        }
        let Some(requests) = &self.requests else { return Err(late(&self.name)) };
        let answer = runtime.block_on(within(address.timeout * PATIENCE, name, question(requests)));
        if answer.as_ref().is_err_and(Error::is_unavailable) {
            self.requests = None;
        }
        answer
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(runtime) = self.runtime.take() {
            // What the session has under way is of no interest any more.
            runtime.shutdown_background();
        }
    }
}

async fn within<T>(
    patience: Duration,
    name: &str,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(patience, answer).await.unwrap_or_else(|_| Err(late(name)))
}

fn late(name: &str) -> Error {
    Error::unavailable(name, "it takes too long to answer")
}

/// A session in the key space, which is made with its table if they are not there.
async fn connect(address: &Address) -> Result<Session, Box<dyn std::error::Error + Send + Sync>> {
    let profile = ExecutionProfile::builder()
        .consistency(address.consistency)
        .serial_consistency(Some(address.serial()))
        .request_timeout(Some(address.timeout))
        .build();
    let mut session = SessionBuilder::new()
        .known_nodes(&address.nodes)
        .connection_timeout(address.timeout)
        .default_execution_profile_handle(profile.into_handle());
    if let Some((user, password)) = &address.credentials {
        session = session.user(user, password);
    }
    #[cfg(feature = "cassandra-tls")]
    if address.is_secure {
        session = session.tls_context(Some(super::trust::trusting(address.authority.as_deref())?));
    }
    let session = session.build().await?;
    let keyspace = &address.keyspace;
    // Made only where they lack: several that make the same at once get in each other's way.
    let tables =
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
    let found = session.query_unpaged(tables, (keyspace, "anabranch_state")).await?;
    if found.into_rows_result()?.rows_num() == 0 {
        let replication = address.replication;
        // What is erased is remembered for replicas that missed it, three hours as hints are; of one copy
        // for nobody. Flows come and go: readers would wade through ten days of them.
        let kept_s = if replication == 1 { 0 } else { 3 * 3_600 };
        let make = format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', 'replication_factor': {replication}}}"
        );
        session.query_unpaged(make, ()).await?;
        let make = format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.anabranch_state (scope text, kind text, id text, \
             entry blob, value blob, number bigint, ends bigint, PRIMARY KEY ((scope), kind, id, entry)) \
             WITH gc_grace_seconds = {kept_s}"
        );
        session.query_unpaged(make, ()).await?;
    }
    session.use_keyspace(keyspace, false).await?;
    Ok(session)
}
