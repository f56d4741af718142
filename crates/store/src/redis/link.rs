//! Connections: which server has a key, reconnecting, pipelining, and whose answer is whose.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Cmd, ErrorKind, IntoConnectionInfo, RedisError, Value};

use super::address::{Address, Servers};
use super::cluster::{Redirection, node_at, slot, slots, without_slots};
use super::wire::Wire;
use crate::error::Error;

/// Commands that are sent before their answers are read.
const TOGETHER: usize = 512;
/// How many times as long as one answer those to a message may take that reads.
const PAGES: u32 = 4;
/// How many times as long as it was waited for a silent node of a cluster is left alone, so that others are not delayed
/// by it at each message of write-behind. Who reads waits.
const LEFT_ALONE: u32 = 2;
/// How often in a row a cluster's redirections are followed.
const REDIRECTIONS: u32 = 5;
/// How long to wait, at first, for keys that are on their way from one node of a cluster to another; then longer.
const PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// With which Redis begins what it says to who is not let in.
const REFUSALS: [&str; 3] = ["NOAUTH", "WRONGPASS", "NOPERM"];
/// With which a server begins what it says that cannot work now, whatever it is asked.
const NOT_NOW: [&str; 4] = ["LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN"];
/// The same of one that is the right one and is to stay connected.
const FULL_OR_BUSY: [&str; 4] = ["OOM", "MISCONF", "BUSY", "NOREPLICAS"];
/// What to look at where a server does not let somebody in, or not do something.
pub(super) const CREDENTIALS: &str = "are user and password right, and may the user do that?";
/// The same where it is not the user who may not.
pub(super) const STATE: &str = "see how the server is and what it is configured for";
/// The same where a sentinel does not.
const SENTINEL_CREDENTIALS: &str = "a sentinel is told the password of ?sentinel_password_file=FILE, or none where \
                                    the address has no such word; that of the servers is another";

/// The same where a server has no such command as it is asked for, or is another kind of server than the address says.
const NO_SUCH_COMMAND: &str = "a sentinel is named as redis+sentinel://HOST:PORT,…/NAME; any other server has to \
                               have this command";
const NO_SENTINEL: &str = "it is no sentinel: name a server as redis://HOST:PORT";
const NO_SUCH_NAME: &str = "behind the / stands the name of `sentinel monitor NAME …`";
const IN_CLUSTER: &str = "a node of a cluster is named as redis+cluster://HOST:PORT,…";
const NO_CLUSTER: &str = "name a server that is in no cluster as redis://HOST:PORT";
const NO_REDIS: &str = "name the port of a Redis; where it wants TLS, begin with rediss";

/// Connections to the servers of an address, made when first needed and made again when they broke.
pub(super) struct Link {
    address: Address,
    name: String,
    connections: BTreeMap<String, Connected>,
    /// How many there were.
    connected: u64,
    /// In a cluster: nodes that have not answered in time, and until when they are left alone.
    silent: BTreeMap<String, Instant>,
    /// In a cluster: the last slot of each range, and the node that has it.
    slots: BTreeMap<u16, String>,
    /// In a cluster: who has said last that a slot has moved to whom, and knows of it for certain.
    informed: Option<String>,
    /// With sentinels: who they say has the data, and said last.
    master: Option<String>,
    said_last: Option<String>,
}

/// Whether all answers of a message together may take longer than one, and whether keys are waited for, for as long as
/// for a server, that are on their way from one node of a cluster to another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    None,
    Timeout,
}

/// A command and the bytes of the key by which a cluster finds its server.
pub(super) struct Routed {
    pub(super) key: Vec<u8>,
    pub(super) command: Cmd,
    /// In a cluster: it may have to wait for a slot that moves, and what is about its key with it.
    pub(super) may_wait: bool,
}

/// What a server has answered.
#[derive(Default)]
pub(super) struct Answered {
    pub(super) value: Value,
    /// The number of the connection: of two answers with the same one the server was not started anew in between,
    /// nor was it another.
    pub(super) by: u64,
}

/// What was answered to each of several commands.
pub(super) type Answers = Vec<Result<Answered, Error>>;

struct Connected {
    wire: Wire,
    number: u64,
}

/// What is to be asked again.
#[derive(Default)]
struct Turn {
    /// Elsewhere.
    sent_on: Vec<Open>,
    /// Later: keys are on their way from one node to another.
    split: Vec<Open>,
    /// What was not asked yet.
    held: Vec<Open>,
}

/// A command that is not answered yet, by its number among all.
#[derive(Clone)]
struct Open {
    index: usize,
    /// Where it was sent on to; by the slot of its key if nowhere.
    to: Option<String>,
    /// `to` does not have the slot yet, and takes it only from who says that he was sent.
    is_asking: bool,
}

impl Open {
    fn new(index: usize) -> Self {
        Self { index, to: None, is_asking: false }
    }
}

impl Link {
    pub(super) fn new(address: Address) -> Self {
        let name = address.to_string();
        let connections = BTreeMap::new();
        Self {
            address,
            name,
            connections,
            connected: 0,
            silent: BTreeMap::new(),
            slots: BTreeMap::new(),
            informed: None,
            master: None,
            said_last: None,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn failed(&self, why: impl ToString) -> Error {
        let says = why.to_string();
        if REFUSALS.iter().any(|word| says.contains(word)) {
            return Error::refused(&self.name, says, CREDENTIALS);
        }
        #[cfg(feature = "redis-tls")]
        if crate::trust::is_of_tls(&says) {
            return Error::unusable(&self.name, says, crate::trust::TLS_LOOK);
        }
        Error::unavailable(&self.name, says)
    }

    /// Why there is no connection. A server that answers and refuses is running, and at its address.
    fn not_connected(&self, error: &RedisError) -> Error {
        match error.kind() {
            _ if is_refusal(error) => Error::refused(&self.name, error, CREDENTIALS),
            ErrorKind::Server(_) | ErrorKind::Extension => self.not_taken(&error.to_string()),
            _ => self.broken("", error, true),
        }
    }

    /// Why a server answers but does not take what it is told first: user, password, database.
    fn not_taken(&self, says: &str) -> Error {
        if let Some(says) = unknown_command(says) {
            return Error::refused(&self.name, says, NO_SUCH_COMMAND);
        }
        let look = match says.contains("DB index") {
            true => "name a database that it has: …/0 is always there",
            false => STATE,
        };
        Error::refused(&self.name, says, look)
    }

    /// Why a connection did not last, to whom `from` says where it is not of the address.
    fn broken(&self, from: &str, error: &RedisError, is_new: bool) -> Error {
        let is_closed = error.is_connection_dropped() && !error.is_connection_refusal();
        let may_want_tls =
            !self.address.is_secure() && !matches!(self.address.servers, Servers::Socket(_));
        match error.kind() {
            ErrorKind::Parse => {
                let says = format!("{from}what it answers is nothing that a Redis says");
                Error::refused(&self.name, says, NO_REDIS)
            }
            _ if is_new && is_closed && may_want_tls => {
                self.failed(format!("{from}{error}; where it wants TLS, begin with rediss"))
            }
            _ => self.failed(format!("{from}{error}")),
        }
    }

    /// Sends all and answers each, in order; one that is not answered stands for all. An error leaves nothing half
    /// read: what broke is connected anew next time.
    pub(super) fn ask(
        &mut self,
        commands: &[Routed],
        patience: Patience,
    ) -> Result<Vec<Answered>, Error> {
        self.ask_each(commands, patience).into_iter().collect()
    }

    /// The same, where what a server does not answer, or refuses to do, is no matter of what others were asked.
    pub(super) fn ask_each(&mut self, commands: &[Routed], patience: Patience) -> Answers {
        let mut answers: Answers = commands.iter().map(|_| Ok(Answered::default())).collect();
        let mut open: Vec<Open> = (0..commands.len()).map(Open::new).collect();
        let (began, mut turns, mut pause) = (Instant::now(), 0, PAUSE);
        while !open.is_empty() {
            let Turn { sent_on, mut split, held } =
                self.turn(commands, &open, patience, &mut answers);
            turns = if sent_on.is_empty() { 0 } else { turns + 1 };
            if !split.is_empty() {
                if patience == Patience::None || began.elapsed() + pause > self.address.timeout {
                    // What the node has said stays the answer.
                    split.clear();
                } else {
                    thread::sleep(pause);
                    (turns, pause) = (0, (pause * 2).min(LONGEST_PAUSE));
                }
            }
            open = [sent_on, split, held].concat();
            open.sort_by_key(|one| one.index);
            if turns == REDIRECTIONS {
                let error = self.failed("the cluster's nodes send commands back and forth");
                self.forget_where();
                fail(&open, &error, &mut answers);
                break;
            }
        }
        answers
    }

    /// Whether no server is connected: none has answered last, or none was the right one. Not where one was not even
    /// asked.
    pub(super) fn is_alone(&self) -> bool {
        self.connections.is_empty() && self.silent.is_empty()
    }

    /// Asks each of `open` once, but for what has to come after another.
    fn turn(
        &mut self,
        commands: &[Routed],
        open: &[Open],
        patience: Patience,
        answers: &mut Answers,
    ) -> Turn {
        let mut turn = Turn::default();
        if open.iter().any(|one| one.to.is_none())
            && let Err(error) = self.learn_where()
        {
            self.forget_where();
            fail(open, &error, answers);
            return turn;
        }
        for (node, open) in self.by_node(commands, open, &mut turn.held, answers) {
            let mut rest = &open[..];
            while !rest.is_empty() {
                let (some, later) = rest.split_at(rest.len().min(TOGETHER));
                match self.send(&node, commands, some, patience) {
                    Ok(found) => {
                        for (one, answer) in some.iter().zip(found) {
                            self.take(one.index, answer, &node, &mut turn, answers);
                        }
                    }
                    Err(error) => {
                        self.forget_where();
                        fail(rest, &error, answers);
                        break;
                    }
                }
                rest = later;
            }
        }
        turn
    }

    /// Takes what `node` has answered to a command, and whether it is to be asked again.
    fn take(
        &mut self,
        index: usize,
        answer: Answered,
        node: &str,
        turn: &mut Turn,
        answers: &mut Answers,
    ) {
        match self.redirection(&answer.value, node) {
            Ok(None) => answers[index] = Ok(answer),
            Ok(Some(Redirection::Moved(to))) => {
                self.forget_slots(&to);
                turn.sent_on.push(Open { index, to: Some(to), is_asking: false });
            }
            Ok(Some(Redirection::Ask(to))) => {
                turn.sent_on.push(Open { index, to: Some(to), is_asking: true });
            }
            Ok(Some(Redirection::Split)) => {
                answers[index] = Ok(answer);
                turn.split.push(Open::new(index));
            }
            Err(error) => {
                let stays = |code| code == "NOPERM" || FULL_OR_BUSY.contains(&code);
                if !matches!(&answer.value, Value::ServerError(says) if stays(says.code())) {
                    // Another may have taken over, also behind the same address.
                    self.connections.remove(node);
                    self.forget_where();
                }
                answers[index] = Err(error);
            }
        }
    }

    /// Sends these to a node, and gives the answer to each.
    fn send(
        &mut self,
        node: &str,
        commands: &[Routed],
        open: &[Open],
        patience: Patience,
    ) -> Result<Vec<Answered>, Error> {
        let mut packed = Vec::with_capacity(open.len());
        for one in open {
            if one.is_asking {
                packed.push(redis::cmd("ASKING").get_packed_command());
            }
            packed.push(commands[one.index].command.get_packed_command());
        }
        let all = match patience {
            Patience::None => self.address.timeout,
            // Each may be a page of something large.
            Patience::Timeout => self.address.timeout * PAGES,
        };
        if patience == Patience::None {
            self.is_not_left_alone(node)?;
        }
        let mut found = self.exchange(node, &packed, all)?.into_iter();
        let by = self.connections.get(node).map_or(0, |connected| connected.number);
        let answer = |one: &Open| {
            // One more comes before it, to `ASKING`.
            let value = found.nth(usize::from(one.is_asking)).unwrap_or_default();
            Answered { value, by }
        };
        Ok(open.iter().map(answer).collect())
    }

    /// Where `node` sends a command on to. That has not been carried out, so that it may be sent again whatever it
    /// does.
    fn redirection(&self, answer: &Value, node: &str) -> Result<Option<Redirection>, Error> {
        let Value::ServerError(error) = answer else { return Ok(None) };
        let details = error.details().unwrap_or_default();
        let code = error.code();
        let redirection = Redirection::read(code, details, node);
        let is_cluster = matches!(self.address.servers, Servers::Cluster(_));
        if !is_cluster && (redirection.is_some() || code == "CROSSSLOT") {
            let says = format!("{node}: {code} {details}");
            return Err(Error::refused(&self.name, says, IN_CLUSTER));
        }
        if redirection.is_some() {
            return Ok(redirection);
        }
        match code {
            // The server cannot work now: not a matter of this call.
            "NOAUTH" | "WRONGPASS" | "NOPERM" => {
                Err(Error::refused(&self.name, format!("{code} {details}"), CREDENTIALS))
            }
            _ if NOT_NOW.contains(&code) || FULL_OR_BUSY.contains(&code) => {
                Err(Error::refused(&self.name, format!("{code} {details}"), STATE))
            }
            _ if let Some(says) = unknown_command(details) => {
                Err(Error::refused(&self.name, format!("{node}: {says}"), NO_SUCH_COMMAND))
            }
            _ => Ok(None),
        }
    }

    /// Which of `open` go to which node, in their order. What is about a key that an earlier one may wait for is held
    /// back until that is answered.
    fn by_node(
        &mut self,
        commands: &[Routed],
        open: &[Open],
        held: &mut Vec<Open>,
        answers: &mut Answers,
    ) -> BTreeMap<String, Vec<Open>> {
        let mut nodes: BTreeMap<String, Vec<Open>> = BTreeMap::new();
        let mut waited_for = BTreeSet::new();
        for one in open {
            let Routed { key, may_wait, .. } = &commands[one.index];
            if waited_for.contains(key) {
                held.push(one.clone());
                continue;
            }
            if *may_wait {
                waited_for.insert(key);
            }
            match one.to.clone().map_or_else(|| self.node_of(key), Ok) {
                Ok(node) => nodes.entry(node).or_default().push(one.clone()),
                Err(error) => fail(std::slice::from_ref(one), &error, answers),
            }
        }
        nodes
    }

    /// Learns who has which keys, where that is not known.
    fn learn_where(&mut self) -> Result<(), Error> {
        match &self.address.servers {
            Servers::Single(_) | Servers::Socket(_) => Ok(()),
            Servers::Sentinels(..) => self.master().map(drop),
            Servers::Cluster(_) => self.learn_slots(),
        }
    }

    fn forget_where(&mut self) {
        self.slots.clear();
        self.informed = None;
        self.master = None;
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

    /// Every server that has keys. In a cluster one that has no slot yet has some of the first one that it is given.
    pub(super) fn nodes(&mut self) -> Result<Vec<String>, Error> {
        if matches!(self.address.servers, Servers::Cluster(_)) {
            // What was learnt may be from before slots have moved.
            self.slots.clear();
            self.learn_slots()?;
            let mut nodes: BTreeSet<String> = self.slots.values().cloned().collect();
            let first = nodes.first().cloned().unwrap_or_default();
            let answer = self.ask_node(&first, redis::cmd("CLUSTER").arg("NODES"))?;
            nodes.extend(without_slots(answer));
            return Ok(nodes.into_iter().collect());
        }
        Ok(vec![self.node_of(b"")?])
    }

    /// Asks one server.
    pub(super) fn ask_node(&mut self, node: &str, command: &Cmd) -> Result<Value, Error> {
        self.is_not_left_alone(node)?;
        let packed = [command.get_packed_command()];
        let answer = self.exchange(node, &packed, self.address.timeout)?;
        let answer = answer.into_iter().next().unwrap_or_default();
        self.redirection(&answer, node)?;
        Ok(answer)
    }

    /// # Errors
    /// The node was silent just now: it is not asked again yet.
    fn is_not_left_alone(&mut self, node: &str) -> Result<(), Error> {
        let now = Instant::now();
        self.silent.retain(|_, until| now < *until);
        match self.silent.contains_key(node) {
            true => Err(self.failed(format!("{node} was silent and is left alone for a while"))),
            false => Ok(()),
        }
    }

    /// Sends these and reads an answer to each, all within so long. A connection that breaks is closed.
    fn exchange(
        &mut self,
        node: &str,
        packed: &[Vec<u8>],
        all: Duration,
    ) -> Result<Vec<Value>, Error> {
        let before = self.connections.remove(node);
        let is_new = before.is_none();
        let mut connected = match before {
            Some(connected) => connected,
            None => {
                let made = self.connect(&self.address.of_node(node));
                self.connected += 1;
                let made = made.inspect_err(|error| self.leave_alone_if_silent(node, error));
                let wire = made.map_err(|error| self.not_connected(&error))?;
                Connected { wire, number: self.connected }
            }
        };
        let answers = connected.wire.ask(packed, self.address.timeout, all);
        let answers = answers.inspect_err(|error| self.leave_alone_if_silent(node, error));
        let answers = answers.map_err(|error| self.broken("", &error, is_new))?;
        self.connections.insert(node.to_string(), connected);
        self.silent.remove(node);
        Ok(answers)
    }

    /// For the sake of others that answer: where there are none it is waited for.
    fn leave_alone_if_silent(&mut self, node: &str, error: &RedisError) {
        let has_others = !self.connections.is_empty();
        if has_others && error.is_timeout() && matches!(self.address.servers, Servers::Cluster(_)) {
            let until = Instant::now() + self.address.timeout * LEFT_ALONE;
            self.silent.insert(node.to_string(), until);
        }
    }

    fn connect(&self, url: &str) -> Result<Wire, RedisError> {
        Wire::open(&url.into_connection_info()?, &self.address)
    }

    /// Asks the sentinels who has the data, and that server whether it thinks so too; where none of them is there, it
    /// is still whom they have named last, if he thinks so.
    fn master(&mut self) -> Result<String, Error> {
        if let Some(master) = &self.master {
            return Ok(master.clone());
        }
        let Servers::Sentinels(sentinels, name) = self.address.servers.clone() else {
            return Err(self.failed("there are no sentinels"));
        };
        let (mut refused, mut last) = (None, self.failed("no sentinel is configured"));
        let mut is_silent = true;
        for sentinel in &sentinels {
            let answer = self.ask_sentinel(sentinel, &name);
            is_silent &= answer.as_ref().is_err_and(RedisError::is_io_error);
            let node = match answer {
                Ok(Some((host, port))) => node_at(&host, port),
                Ok(None) => {
                    let says = format!("{sentinel} knows no `{name}`");
                    last = Error::refused(&self.name, says, NO_SUCH_NAME);
                    continue;
                }
                Err(error) => {
                    let says = format!("{sentinel}: {error}");
                    if is_refusal(&error) {
                        refused = Some(Error::refused(&self.name, says, SENTINEL_CREDENTIALS));
                    } else if let Some(says) = unknown_command(&says) {
                        let says = format!("{sentinel}: {says}");
                        refused = Some(Error::refused(&self.name, says, NO_SENTINEL));
                    } else {
                        last = self.broken(&format!("{sentinel}: "), &error, true);
                    }
                    continue;
                }
            };
            match self.named_master(node) {
                Ok(node) => return Ok(node),
                Err(error) => last = error,
            }
        }
        if let Some(node) = self.said_last.clone().filter(|_| is_silent) {
            return self.named_master(node);
        }
        // Who sets it right has to know this first; one that is away comes back by itself.
        Err(refused.unwrap_or(last))
    }

    /// Takes this server for the one that has the data, if it thinks so too.
    fn named_master(&mut self, node: String) -> Result<String, Error> {
        let role = self.ask_node(&node, &redis::cmd("ROLE")).map(first_word)?;
        if role != b"master" {
            return Err(self.failed(format!("{node} is no master yet")));
        }
        (self.master, self.said_last) = (Some(node.clone()), Some(node.clone()));
        Ok(node)
    }

    /// Host and port of the server that a sentinel takes for the master.
    fn ask_sentinel(
        &self,
        sentinel: &str,
        name: &str,
    ) -> Result<Option<(String, String)>, RedisError> {
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        let mut wire = self.connect(&self.address.of_sentinel(sentinel))?;
        Ok(redis::from_redis_value(wire.ask_one(&question, self.address.timeout)?)?)
    }

    /// A slot is at `node` that was thought to be elsewhere; the others may hear of that later than we do.
    fn forget_slots(&mut self, node: &str) {
        self.slots.clear();
        self.informed = Some(node.to_string());
    }

    /// Asks any node which has which part of the keys.
    fn learn_slots(&mut self) -> Result<(), Error> {
        if !self.slots.is_empty() {
            return Ok(());
        }
        let Servers::Cluster(seeds) = self.address.servers.clone() else { return Ok(()) };
        let known: Vec<String> = self.connections.keys().cloned().collect();
        let informed = self.informed.take();
        let mut last = self.failed("no node is configured");
        for node in informed.iter().chain(&known).chain(&seeds) {
            let mut question = redis::cmd("CLUSTER");
            match self.ask_node(node, question.arg("SLOTS")) {
                Ok(Value::ServerError(error)) => {
                    let says = format!("{node}: {}", error.details().unwrap_or(error.code()));
                    // Any other may pass.
                    last = match says.contains("cluster support disabled") {
                        true => Error::refused(&self.name, says, NO_CLUSTER),
                        false => self.failed(says),
                    };
                }
                Ok(answer) => {
                    self.slots = slots(answer, node).unwrap_or_default();
                    if !self.slots.is_empty() {
                        return Ok(());
                    }
                    last = self.failed(format!("{node} is not in a cluster that works"));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// These are not answered, for this reason.
fn fail(open: &[Open], error: &Error, answers: &mut Answers) {
    open.iter().for_each(|one| answers[one.index] = Err(error.clone()));
}

/// Whether a server has answered, and lets nobody in.
fn is_refusal(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || error.code().is_some_and(|code| REFUSALS.contains(&code))
}

/// What a server says, in short, that has no such command as it was asked for.
fn unknown_command(says: &str) -> Option<&str> {
    let says = says.get(says.find("unknown command ")?..)?;
    says.split(", with args").next()
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
