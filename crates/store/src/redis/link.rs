//! Connections: which server has a key, reconnecting, pipelining, and whose answer is whose.

use std::collections::BTreeMap;
use std::time::Instant;

use redis::{
    Client, Cmd, Connection, ConnectionLike, ErrorKind, IntoConnectionInfo, RedisError, Value,
};

use super::address::{Address, Servers};
use crate::error::Error;

/// Commands that are sent before their answers are read.
const TOGETHER: usize = 512;
/// How often a cluster's redirections are followed.
const REDIRECTIONS: u32 = 5;
/// With which Redis begins what it says to who is not let in.
const REFUSALS: [&str; 3] = ["NOAUTH", "WRONGPASS", "NOPERM"];
/// What to look at where a server does not let somebody in, or not do something.
const CREDENTIALS: &str = "are user and password right, and may the user do that?";

/// Connections to the servers of an address, made when first needed and made again when they broke.
pub(super) struct Link {
    address: Address,
    name: String,
    connections: BTreeMap<String, Connection>,
    /// In a cluster: the last slot of each range, and the node that has it.
    slots: BTreeMap<u16, String>,
    /// With sentinels: who they say has the data.
    master: Option<String>,
}

/// A command and the bytes of the key by which a cluster finds its server.
pub(super) struct Routed {
    pub(super) key: Vec<u8>,
    pub(super) command: Cmd,
}

impl Link {
    pub(super) fn new(address: Address) -> Self {
        let name = address.to_string();
        let connections = BTreeMap::new();
        Self { address, name, connections, slots: BTreeMap::new(), master: None }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn failed(&self, why: impl ToString) -> Error {
        let says = why.to_string();
        if REFUSALS.iter().any(|word| says.contains(word)) {
            return Error::refused(&self.name, says, CREDENTIALS);
        }
        // Of a socket that has a timeout.
        if says.contains("os error 11") {
            let timeout_ms = self.address.timeout.as_millis();
            return Error::unavailable(&self.name, format!("nothing within {timeout_ms} ms"));
        }
        Error::unavailable(&self.name, says)
    }

    /// Why there is no connection. A server that answers and refuses is running, and at its address.
    fn not_connected(&self, error: &RedisError) -> Error {
        let says = error.to_string();
        match error.kind() {
            ErrorKind::AuthenticationFailed => Error::refused(&self.name, says, CREDENTIALS),
            _ if says.contains("switch database") && says.contains("Authentication required") => {
                Error::refused(&self.name, says, CREDENTIALS)
            }
            _ if says.contains("switch database") => {
                Error::refused(&self.name, says, "name a database that it has: …/0 is always there")
            }
            _ => self.failed(says),
        }
    }

    /// Sends all and answers each, in order. An error leaves nothing half read: what broke is
    /// connected anew next time.
    pub(super) fn ask(&mut self, commands: &[Routed]) -> Result<Vec<Value>, Error> {
        let answered = self.ask_all(commands);
        if answered.is_err() {
            self.connections.clear();
            self.slots.clear();
            self.master = None;
        }
        answered
    }

    fn ask_all(&mut self, commands: &[Routed]) -> Result<Vec<Value>, Error> {
        let mut answers: Vec<Value> = commands.iter().map(|_| Value::Nil).collect();
        let mut left: Vec<usize> = (0..commands.len()).collect();
        for _ in 0..REDIRECTIONS {
            let mut moved = Vec::new();
            for (node, indices) in self.by_node(commands, left)? {
                for indices in indices.chunks(TOGETHER) {
                    let commands = indices.iter().map(|index| &commands[*index].command);
                    let packed: Vec<Vec<u8>> = commands.map(Cmd::get_packed_command).collect();
                    let found = self.exchange(&node, &packed)?;
                    for (index, answer) in indices.iter().zip(found) {
                        match self.redirection(&answer, &packed, indices, *index)? {
                            Redirected::No => answers[*index] = answer,
                            Redirected::Asked(answer) => answers[*index] = answer,
                            Redirected::Moved => moved.push(*index),
                        }
                    }
                }
            }
            if moved.is_empty() {
                return Ok(answers);
            }
            self.slots.clear();
            left = moved;
        }
        Err(self.failed("the cluster's nodes send commands back and forth"))
    }

    /// What an answer says of where the key is. A command that was sent elsewhere has not been
    /// carried out, so that it may be sent again whatever it does.
    fn redirection(
        &mut self,
        answer: &Value,
        packed: &[Vec<u8>],
        indices: &[usize],
        index: usize,
    ) -> Result<Redirected, Error> {
        let Value::ServerError(error) = answer else { return Ok(Redirected::No) };
        let details = error.details().unwrap_or_default();
        match error.code() {
            "MOVED" => Ok(Redirected::Moved),
            "ASK" => {
                let node = details.split(' ').nth(1).unwrap_or_default().to_string();
                let at = indices.iter().position(|one| *one == index).unwrap_or(0);
                let asking = redis::cmd("ASKING").get_packed_command();
                let mut answers = self.exchange(&node, &[asking, packed[at].clone()])?;
                Ok(Redirected::Asked(answers.pop().unwrap_or_default()))
            }
            // The server cannot work now: not a matter of this call.
            code @ ("NOAUTH" | "WRONGPASS" | "NOPERM") => {
                Err(Error::refused(&self.name, format!("{code} {details}"), CREDENTIALS))
            }
            code @ ("LOADING" | "READONLY" | "CLUSTERDOWN" | "TRYAGAIN" | "MASTERDOWN" | "OOM"
            | "MISCONF" | "BUSY" | "NOREPLICAS") => {
                let look = "see how the server is and what it is configured for";
                Err(Error::refused(&self.name, format!("{code} {details}"), look))
            }
            _ => Ok(Redirected::No),
        }
    }

    /// Which of `left` go to which node, in their order.
    fn by_node(
        &mut self,
        commands: &[Routed],
        left: Vec<usize>,
    ) -> Result<BTreeMap<String, Vec<usize>>, Error> {
        let mut nodes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for index in left {
            let node = self.node_of(&commands[index].key)?;
            nodes.entry(node).or_default().push(index);
        }
        Ok(nodes)
    }

    fn node_of(&mut self, key: &[u8]) -> Result<String, Error> {
        match &self.address.servers {
            Servers::Single(node) => Ok(node.clone()),
            Servers::Socket(path) => Ok(path.clone()),
            Servers::Sentinels(..) => self.master(),
            Servers::Cluster(_) => {
                self.learn_slots()?;
                let owner = self.slots.range(slot(key)..).next().map(|(_, node)| node.clone());
                owner.ok_or_else(|| self.failed("no node of the cluster has this part of the keys"))
            }
        }
    }

    /// Every server that has keys.
    pub(super) fn nodes(&mut self) -> Result<Vec<String>, Error> {
        if matches!(self.address.servers, Servers::Cluster(_)) {
            self.learn_slots()?;
            let mut nodes: Vec<String> = self.slots.values().cloned().collect();
            nodes.sort();
            nodes.dedup();
            return Ok(nodes);
        }
        Ok(vec![self.node_of(b"")?])
    }

    /// Asks one server.
    pub(super) fn ask_node(&mut self, node: &str, command: &Cmd) -> Result<Value, Error> {
        let answer = self.exchange(node, &[command.get_packed_command()]);
        if answer.is_err() {
            self.connections.remove(node);
        }
        Ok(answer?.pop().unwrap_or_default())
    }

    fn exchange(&mut self, node: &str, packed: &[Vec<u8>]) -> Result<Vec<Value>, Error> {
        let began = Instant::now();
        // A server that dribbles its answers has not answered.
        let patience = self.address.timeout * 4;
        let url = self.address.of_node(node);
        let connection = match self.connections.remove(node).filter(ConnectionLike::is_open) {
            Some(connection) => connection,
            None => self.connect(&url).map_err(|error| self.not_connected(&error))?,
        };
        let connection = self.connections.entry(node.to_string()).or_insert(connection);
        let failed = |error: RedisError| Error::unavailable(&self.name, error);
        connection.send_packed_command(&packed.concat()).map_err(failed)?;
        let mut answers = Vec::with_capacity(packed.len());
        while answers.len() < packed.len() {
            match connection.recv_response().map_err(failed)? {
                Value::Push { .. } => {}
                answer => answers.push(answer),
            }
            if began.elapsed() > patience {
                return Err(self.failed("it takes too long to answer"));
            }
        }
        Ok(answers)
    }

    fn connect(&self, url: &str) -> Result<Connection, RedisError> {
        let timeout = self.address.timeout;
        let address = url.into_connection_info()?;
        let settings = address.redis_settings().clone().set_skip_set_lib_name();
        let address = address.set_redis_settings(settings);
        let connection = self.client(address)?.get_connection_with_timeout(timeout)?;
        connection.set_read_timeout(Some(timeout))?;
        connection.set_write_timeout(Some(timeout))?;
        Ok(connection)
    }

    #[cfg(not(feature = "redis-tls"))]
    fn client(&self, address: redis::ConnectionInfo) -> Result<Client, RedisError> {
        Client::open(address)
    }

    #[cfg(feature = "redis-tls")]
    fn client(&self, address: redis::ConnectionInfo) -> Result<Client, RedisError> {
        if !self.address.is_secure() {
            return Client::open(address);
        }
        // Fails where the program has chosen one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let root_cert = self.address.authority.as_ref().map(std::fs::read).transpose()?;
        let certificates = redis::TlsCertificates { client_tls: None, root_cert };
        Client::build_with_tls(address, certificates)
    }

    /// Asks the sentinels who has the data, and that server whether it thinks so too.
    fn master(&mut self) -> Result<String, Error> {
        if let Some(master) = &self.master {
            return Ok(master.clone());
        }
        let Servers::Sentinels(sentinels, name) = self.address.servers.clone() else {
            return Err(self.failed("there are no sentinels"));
        };
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&name);
        let mut why = "no sentinel is configured".to_string();
        for sentinel in &sentinels {
            let asked = self.connect(&self.address.of_sentinel(sentinel));
            match asked.and_then(|mut one| question.query::<Option<(String, String)>>(&mut one)) {
                Ok(Some((host, port))) => {
                    let node = format!("{host}:{port}");
                    let role = self.ask_node(&node, &redis::cmd("ROLE"));
                    match role.map(first_word) {
                        Ok(role) if role == b"master" => {
                            self.master = Some(node.clone());
                            return Ok(node);
                        }
                        Ok(_) => why = format!("{node} is no master yet"),
                        Err(error) => why = error.to_string(),
                    }
                }
                Ok(None) => why = format!("{sentinel} knows no `{name}`"),
                Err(error) => why = format!("{sentinel}: {error}"),
            }
        }
        Err(self.failed(why))
    }

    /// Asks any node which has which part of the keys.
    fn learn_slots(&mut self) -> Result<(), Error> {
        if !self.slots.is_empty() {
            return Ok(());
        }
        let Servers::Cluster(seeds) = self.address.servers.clone() else { return Ok(()) };
        let known: Vec<String> = self.connections.keys().cloned().collect();
        let mut why = "no node is configured".to_string();
        for node in known.iter().chain(&seeds) {
            let mut question = redis::cmd("CLUSTER");
            match self.ask_node(node, question.arg("SLOTS")) {
                Ok(answer) => {
                    self.slots = slots(answer, node).unwrap_or_default();
                    if !self.slots.is_empty() {
                        return Ok(());
                    }
                    why = format!("{node} is not in a cluster that works");
                }
                Err(error) => why = error.to_string(),
            }
        }
        Err(self.failed(why))
    }
}

enum Redirected {
    No,
    Asked(Value),
    Moved,
}

fn first_word(answer: Value) -> Vec<u8> {
    match answer {
        Value::Array(parts) => match parts.into_iter().next() {
            Some(Value::BulkString(word)) => word,
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The last slot of each range and its node, as `CLUSTER SLOTS` says. A node without an address is
/// the one that was asked.
fn slots(answer: Value, asked: &str) -> Option<BTreeMap<u16, String>> {
    let Value::Array(ranges) = answer else { return None };
    let mut slots = BTreeMap::new();
    for range in ranges {
        let Value::Array(parts) = range else { return None };
        let [_, Value::Int(last), Value::Array(master), ..] = &parts[..] else { return None };
        let [host, Value::Int(port), ..] = &master[..] else { return None };
        let host = match host {
            Value::BulkString(host) if !host.is_empty() => String::from_utf8_lossy(host),
            _ => asked.rsplit_once(':')?.0.into(),
        };
        slots.insert(u16::try_from(*last).ok()?, format!("{host}:{port}"));
    }
    Some(slots)
}

/// The hash slot of a key: CRC-16 (XMODEM) of what stands in its first braces, else of all of it,
/// modulo 16384 (Redis cluster specification, "Hash tags").
pub(super) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then_some(&rest[..close])
    });
    let mut sum: u16 = 0;
    for byte in tag.unwrap_or(key) {
        sum ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            sum = if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 };
        }
    }
    sum % 16384
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        // The check value of CRC-16/XMODEM is 0x31c3.
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"a{}b"), slot(b"a{}b"));
        assert_ne!(slot(b"a{}b"), slot(b""));
    }
}
