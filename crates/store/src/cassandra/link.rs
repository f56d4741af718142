//! The connection: made when first used, made again after a failure, never waited for without end.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{ConnectionSetupRequestErrorKind, DbError};
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use tokio::runtime::{Builder, Runtime};

use super::address::Address;
use super::requests::Requests;
use super::schema;
use crate::error::Error;

/// Longest that a question of many requests may take, in timeouts; and a read, which may have to go through a
/// million rows that were erased.
const PATIENCE: u32 = 10;

/// How many more nodes are asked what one does not answer, and each after which part of the timeout: a node that is
/// cut off from the others waits for them until it takes them for gone.
const MORE_NODES: usize = 2;
const PART: u32 = 4;

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
                let session = connect(address).await.map_err(|why| not_connected(name, why))?;
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

/// Why there is no session.
fn not_connected(name: &str, why: Box<dyn std::error::Error + Send + Sync>) -> Error {
    match why.downcast::<schema::Unfit>() {
        Ok(unfit) => Error::unusable(name, unfit.why, unfit.look),
        Err(why) => failed(name, why),
    }
}

/// Why a question was not answered. A server that answers and refuses is running, and at its address.
pub(super) fn failed(name: &str, why: impl ToString) -> Error {
    let says = why.to_string();
    let has = |word: &dyn std::fmt::Display| says.contains(&word.to_string());
    if has(&ConnectionSetupRequestErrorKind::MissingAuthentication) {
        let look =
            "write USER:PASSWORD@ before the hosts, or USER@ and after `?` password_file=FILE";
        return Error::refused(name, "it asks who this is", look);
    }
    if has(&DbError::AuthenticationError) {
        return Error::refused(name, says, "are user and password right?");
    }
    if has(&DbError::Unauthorized) {
        let look = "the user must be granted SELECT and MODIFY on the key space, and CREATE on all key spaces where \
                    key space and table are not there yet";
        return Error::refused(name, says, look);
    }
    #[cfg(feature = "cassandra-tls")]
    if crate::trust::is_of_tls(&says) {
        return Error::unusable(name, says, crate::trust::TLS_LOOK);
    }
    if says.contains("Not enough nodes are alive") {
        let look = "fewer nodes are up than that level takes, of as many copies as the key space has: see how the \
                    nodes are, or write another consistency=LEVEL";
        return Error::refused(name, says, look);
    }
    Error::unavailable(name, says)
}

fn late(name: &str) -> Error {
    Error::unavailable(name, "it takes too long to answer")
}

/// A session in the key space, which is made with its table where they lack.
async fn connect(address: &Address) -> Result<Session, Box<dyn std::error::Error + Send + Sync>> {
    let profile = ExecutionProfile::builder()
        .consistency(address.consistency)
        .serial_consistency(Some(address.serial()))
        .request_timeout(Some(address.timeout))
        .build();
    let mut handle = profile.clone().into_handle();
    let mut session = SessionBuilder::new()
        .known_nodes(&address.nodes)
        .connection_timeout(address.timeout)
        .metadata_request_serverside_timeout(address.timeout)
        .metadata_request_clientside_timeout(address.timeout)
        .default_execution_profile_handle(handle.clone());
    if let Some((user, password)) = &address.credentials {
        session = session.user(user, password);
    }
    #[cfg(feature = "cassandra-tls")]
    if address.is_secure {
        session = session.tls_context(Some(crate::trust::trusting(address.authority.as_deref())?));
    }
    let session = session.build().await?;
    // What a single one refuses, it would be waited for all the same.
    if session.get_cluster_state().get_nodes_info().len() > 1 {
        let others = SimpleSpeculativeExecutionPolicy {
            max_retry_count: MORE_NODES,
            retry_interval: address.timeout / PART,
        };
        let builder = profile.to_builder().speculative_execution_policy(Some(Arc::new(others)));
        handle.map_to_another_profile(builder.build());
    }
    agree(&session, address.timeout).await;
    schema::prepare(&session, address).await?;
    session.use_keyspace(&address.keyspace, false).await?;
    Ok(session)
}

/// Waits until the servers know the same tables, or for that long: some may not answer, and while releases are mixed
/// they never do.
async fn agree(session: &Session, patience: Duration) {
    let agreed = async {
        while let Ok(None) = session.check_schema_agreement().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    // What is asked of a server that does not know the table yet fails and is asked again.
    let _late = tokio::time::timeout(patience, agreed).await;
}
