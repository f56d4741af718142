//! Calls as commands of Redis, on its own types; its answers as replies.
//!
//! | type | in Redis | calls |
//! |---|---|---|
//! | value | string | `SET`, `GET`, `SET PX`, `PTTL` |
//! | counter | string | `INCRBY` |
//! | list | list | `RPUSH`, `LPUSH`, `RPOP`, `LPOP`, `LLEN`, `LRANGE` |
//! | set | set | `SADD`, `SREM`, `SISMEMBER`, `SCARD`, `SSCAN` |
//! | map, counter map | hash | `HSET`, `HDEL`, `HGET`, `HEXISTS`, `HLEN`, `HSCAN`, `HINCRBY` |
//!
//! What goes away goes by `UNLINK`, so that the server answers others while it frees a large one.
//!
//! What looks before it writes is a script of these commands, which the server runs as one.
//!
//! **Invariant: a script is carried out to its end or not begun.** In a cluster a slot may be on its way to another
//! node. Who has it still refuses each command on a key that it has not got, in the middle of a script too: what came
//! before is done then, and what comes after is not. So a script that takes keys away and goes on with them names one
//! more key, which is never there, and for want of which it waits until the slot has moved.

use std::collections::BTreeSet;

use redis::{Cmd, Value};

use super::cluster::SPLIT;
use super::link::{CREDENTIALS, STATE};
use crate::call::{Call, End, Operation, Reply};
use crate::content::{Bytes, Content, Entry, Kind};
use crate::driver::{Answer, Batch, Outcome};
use crate::error::Error;
use crate::key::Key;

/// Runs commands if what is found first is as it should be: `{1}` if they ran, `{0, found}` if not.
/// `found` is `=` and the bytes, or `-`: nothing. Every command is written as the number of its
/// words, and its words; below zero, its last word is what is to be found by the others, and where it is not, `{2}`.
/// An error says at which key it came about.
const GUARDED: &str = "\
local how, want, at = ARGV[1], ARGV[2], 4
if how == 'absent' or how == 'present' then
  if (redis.call('EXISTS', KEYS[1]) == 1) ~= (how == 'present') then return {0, '-'} end
elseif how ~= 'always' then
  local found
  if how == 'value' then found = redis.call('GET', KEYS[1])
  else found = redis.call('HGET', KEYS[1], ARGV[3]) end
  if found then found = '=' .. found else found = '-' end
  if found ~= want then return {0, found} end
end
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  local looks = words < 0
  if looks then words = -words end
  local done = redis.pcall(unpack(ARGV, at + 1, at + words - (looks and 1 or 0)))
  local fails = type(done) == 'table' and done.err
  if fails then return {err = done.err .. ' at ' .. ARGV[at + 2]} end
  if looks and done ~= ARGV[at + words] then return {2, '-'} end
  at = at + words + 1
end
return {1, '-'}";

/// What to look at where a slot does not come to its new node.
const MOVING: &str = "a hash slot is on its way from one node to another; where none is meant to move, \
                      `redis-cli --cluster fix` brings it to its end";

/// What a server says where a key holds something else than it should, or a count would leave its range.
const OF_CONTENT: [&str; 3] = ["WRONGTYPE", "not an integer", "would overflow"];
/// What it says, beside its words for it, to a user who may not do that: in a script (Redis, and since 7.2 and as
/// Valkey), and of a message that is too long for somebody whose password is right no more.
const OF_USER: [&str; 3] =
    ["The user executing the script", "ACL failure in script", "unauthenticated"];

/// Entries in one command of a script: its interpreter takes some thousand words at once.
const ENTRIES: usize = 500;

/// How keys are written: in a cluster, what has one writer lies on one server, by a hash tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    Plain,
    Tagged,
}

impl Spelling {
    pub(super) fn of(self, key: &Key) -> Bytes {
        let text = key.as_str();
        match self {
            Self::Plain => text.as_bytes().to_vec(),
            Self::Tagged => {
                let (scope, rest) = text.split_at(key.scope_str().len());
                format!("{{{scope}}}{rest}").into_bytes()
            }
        }
    }

    /// In a cluster a key of the same slot that is never there: it is none of ours.
    fn absent(self, scope: &str) -> Option<Bytes> {
        (self == Self::Tagged).then(|| format!("{{{scope}}}").into_bytes())
    }

    /// The key that is written so; `None`: it is none of ours.
    pub(super) fn read(self, name: &[u8]) -> Option<Key> {
        let name = std::str::from_utf8(name).ok()?;
        match self {
            Self::Plain => name.parse().ok(),
            Self::Tagged => {
                let (scope, rest) = name.strip_prefix('{')?.split_once('}')?;
                format!("{scope}{rest}").parse().ok()
            }
        }
    }

    /// A pattern that every key beginning with `prefix` matches.
    pub(super) fn pattern(self, prefix: &str) -> String {
        let of_scope = prefix.match_indices('@').nth(2).map_or(prefix, |(at, _)| &prefix[..at]);
        let (open, text) = match self {
            Self::Plain => ("", prefix),
            Self::Tagged => ("{", of_scope),
        };
        let mut pattern = open.to_string();
        for letter in text.chars() {
            if "*?[]\\^".contains(letter) {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        pattern + "*"
    }
}

fn command(name: &str, key: &[u8]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(key);
    command
}

/// The command that is a call.
pub(super) fn of_call(call: &Call, spelling: Spelling) -> Cmd {
    let key = &spelling.of(&call.key);
    let kind = call.key.kind();
    let is_set = kind == Kind::Set;
    let guard = |found, commands: &[Vec<Bytes>]| {
        let mut keys = vec![key];
        let absent = spelling.absent(call.key.scope_str());
        keys.extend(absent.iter().filter(|_| goes_on_without(commands)));
        guarded(found, &keys, commands)
    };
    match &call.operation {
        Operation::Create(content) => match simple(content) {
            Some(text) => command("SET", key).arg(text).arg("NX").take(),
            None => guard(("absent", "-".into(), b""), &writes(key, content)),
        },
        Operation::Update(content) => match simple(content) {
            Some(text) => command("SET", key).arg(text).arg("XX").take(),
            None => guard(("present", "-".into(), b""), &replaces(key, content)),
        },
        Operation::Put(content) => match simple(content) {
            Some(text) => command("SET", key).arg(text).take(),
            None => guard(("always", "-".into(), b""), &replaces(key, content)),
        },
        Operation::Read => match kind {
            Kind::Value | Kind::Counter => command("GET", key),
            Kind::List => command("LRANGE", key).arg(0).arg(-1).take(),
            Kind::Set => command("SMEMBERS", key),
            Kind::Map | Kind::CounterMap => command("HGETALL", key),
        },
        Operation::Delete => command("UNLINK", key),
        Operation::CompareAndUpdate { from, to, ttl_ms } => {
            let set = set(key, to, *ttl_ms);
            guard(("value", found_text(from.as_deref()), b""), &[set])
        }
        Operation::Arm(value, ttl_ms) => {
            command("SET", key).arg(value).arg("PX").arg((*ttl_ms).max(1)).take()
        }
        Operation::TimeLeft => command("PTTL", key),
        Operation::Add(by) => command("INCRBY", key).arg(by).take(),
        Operation::Push(End::Front, element) => command("LPUSH", key).arg(element).take(),
        Operation::Push(End::Back, element) => command("RPUSH", key).arg(element).take(),
        Operation::Pop(End::Front) => command("LPOP", key),
        Operation::Pop(End::Back) => command("RPOP", key),
        Operation::Insert(entry) => words(&inserts(key, std::slice::from_ref(entry))),
        Operation::Erase(entry) => {
            command(if is_set { "SREM" } else { "HDEL" }, key).arg(entry).take()
        }
        Operation::Contains(entry) => {
            command(if is_set { "SISMEMBER" } else { "HEXISTS" }, key).arg(entry).take()
        }
        Operation::Find(entry) => command("HGET", key).arg(entry).take(),
        Operation::AddTo(entry, by) => command("HINCRBY", key).arg(entry).arg(by).take(),
        Operation::CompareAndInsert { key: entry, from, to } => {
            let set = vec![b"HSET".to_vec(), key.clone(), entry.clone(), to.clone()];
            guard(("field", found_text(from.as_deref()), entry), &[set])
        }
        Operation::Size => match kind {
            Kind::List => command("LLEN", key),
            Kind::Set => command("SCARD", key),
            _ => command("HLEN", key),
        },
        Operation::Iterate { cursor, limit } => iterate(kind, key, cursor, *limit),
    }
}

/// Whether a call may have to wait until a slot has moved: it replaces a collection.
pub(super) fn may_wait(call: &Call, spelling: Spelling) -> bool {
    let (Operation::Put(content) | Operation::Update(content)) = &call.operation else {
        return false;
    };
    spelling == Spelling::Tagged && simple(content).is_none()
}

fn iterate(kind: Kind, key: &[u8], cursor: &Bytes, limit: u32) -> Cmd {
    let limit = u64::from(limit.max(1));
    let start = match cursor.split(|byte| *byte == b' ').next() {
        Some(start) if !start.is_empty() => start,
        _ => b"0",
    };
    match kind {
        Kind::List => {
            let start = position(cursor);
            command("LRANGE", key).arg(start).arg(start + limit - 1).take()
        }
        Kind::Set => command("SSCAN", key).arg(start).arg("COUNT").arg(limit).take(),
        _ => command("HSCAN", key).arg(start).arg("COUNT").arg(limit).take(),
    }
}

/// The call from the beginning, where it goes on with what another server has given than `by`: a cursor is a place in
/// a hash table, and each server that is started hashes in its own way. `None`: it is right as it is.
pub(super) fn anew(call: &Call, by: u64) -> Option<Call> {
    let Operation::Iterate { cursor, limit } = &call.operation else { return None };
    let is_hashed = call.key.kind() != Kind::List;
    let is_of_another = !cursor.is_empty() && !cursor.ends_with(format!(" {by}").as_bytes());
    let again = Operation::Iterate { cursor: Bytes::new(), limit: *limit };
    (is_hashed && is_of_another).then(|| Call::new(&call.key, again))
}

fn position(cursor: &Bytes) -> u64 {
    std::str::from_utf8(cursor).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The script that is a batch.
pub(super) fn of_batch(batch: &Batch, spelling: Spelling) -> Cmd {
    let mark = spelling.of(&batch.mark);
    let mut keys = vec![mark.clone()];
    let (mut looks, mut commands) = (Vec::new(), Vec::new());
    let calls = batch.present.iter().map(|call| (call, true));
    for (call, is_present) in calls.chain(batch.calls.iter().map(|call| (call, false))) {
        let key = spelling.of(&call.key);
        match is_present {
            true => looks.extend(look_of(&key, call)),
            false => write_of(&key, call, &mut commands),
        }
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    commands.push(set(&mark, &batch.next, None));
    if goes_on_without(&commands) {
        keys.extend(spelling.absent(batch.mark.scope_str()));
    }
    let keys: Vec<&Bytes> = keys.iter().collect();
    let guard = ("value", found_text(batch.expected.as_deref()), &b""[..]);
    guarded_by(guard, &keys, &looks, &commands)
}

/// The command that finds what `call` says is there, and that behind it.
fn look_of(key: &Bytes, call: &Call) -> Option<Vec<Bytes>> {
    let (name, rest) = match &call.operation {
        Operation::Put(content) => ("GET", vec![simple(content)?]),
        Operation::Insert(entry) => ("HGET", words_of(entry)),
        _ => return None,
    };
    Some([vec![name.into(), key.clone()], rest].concat())
}

/// Whether one of the commands may take away a key that a later one has to do with.
fn goes_on_without(commands: &[Vec<Bytes>]) -> bool {
    let mut gone = BTreeSet::new();
    commands.iter().any(|words| {
        let (name, key) = (&words[0][..], &words[1]);
        let is_gone = gone.contains(key);
        if [&b"UNLINK"[..], b"HDEL", b"SREM"].contains(&name) {
            gone.insert(key);
        }
        is_gone
    })
}

/// The commands of an absolute call.
fn write_of(key: &Bytes, call: &Call, commands: &mut Vec<Vec<Bytes>>) {
    let erase = if call.key.kind() == Kind::Set { "SREM" } else { "HDEL" };
    match &call.operation {
        Operation::Put(content) => commands.extend(replaces(key, content)),
        Operation::Arm(value, ttl_ms) => commands.push(set(key, value, Some(*ttl_ms))),
        Operation::Delete => commands.push(vec![b"UNLINK".to_vec(), key.clone()]),
        Operation::Insert(entry) => commands.push(inserts(key, std::slice::from_ref(entry))),
        Operation::Erase(entry) => commands.push(vec![erase.into(), key.clone(), entry.clone()]),
        _ => {}
    }
}

fn guarded(guard: (&str, Bytes, &[u8]), keys: &[&Bytes], commands: &[Vec<Bytes>]) -> Cmd {
    guarded_by(guard, keys, &[], commands)
}

fn guarded_by(
    guard: (&str, Bytes, &[u8]),
    keys: &[&Bytes],
    looks: &[Vec<Bytes>],
    commands: &[Vec<Bytes>],
) -> Cmd {
    let mut script = redis::cmd("EVAL");
    script.arg(GUARDED).arg(keys.len());
    for key in keys {
        script.arg(key);
    }
    let (how, want, field) = guard;
    script.arg(how).arg(want).arg(field);
    let looks = looks.iter().map(|words| (-(words.len() as i64), words));
    for (len, words) in looks.chain(commands.iter().map(|words| (words.len() as i64, words))) {
        script.arg(len);
        for word in words {
            script.arg(word);
        }
    }
    script
}

fn words(words: &[Bytes]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(word);
    }
    command
}

fn found_text(found: Option<&[u8]>) -> Bytes {
    found.map_or(b"-".to_vec(), |bytes| [b"=", bytes].concat())
}

fn set(key: &Bytes, to: &Bytes, ttl_ms: Option<u64>) -> Vec<Bytes> {
    let mut words = vec![b"SET".to_vec(), key.clone(), to.clone()];
    if let Some(ttl_ms) = ttl_ms {
        words.extend([b"PX".to_vec(), ttl_ms.max(1).to_string().into_bytes()]);
    }
    words
}

/// The text that a value or counter is.
fn simple(content: &Content) -> Option<Bytes> {
    match content {
        Content::Value(bytes) => Some(bytes.clone()),
        Content::Counter(count) => Some(count.to_string().into_bytes()),
        _ => None,
    }
}

fn replaces(key: &Bytes, content: &Content) -> Vec<Vec<Bytes>> {
    if simple(content).is_some() {
        // `SET` replaces whatever was there, and when it would have ended.
        return writes(key, content);
    }
    let delete = vec![b"UNLINK".to_vec(), key.clone()];
    [delete].into_iter().chain(writes(key, content)).collect()
}

fn writes(key: &Bytes, content: &Content) -> Vec<Vec<Bytes>> {
    if let Some(text) = simple(content) {
        return vec![set(key, &text, None)];
    }
    let entries = content.entries();
    let chunks = entries.chunks(ENTRIES).map(|entries| match content {
        Content::List(_) => push(key, entries),
        _ => inserts(key, entries),
    });
    chunks.collect()
}

fn push(key: &Bytes, entries: &[Entry]) -> Vec<Bytes> {
    let mut words = vec![b"RPUSH".to_vec(), key.clone()];
    words.extend(entries.iter().flat_map(words_of));
    words
}

fn inserts(key: &Bytes, entries: &[Entry]) -> Vec<Bytes> {
    let name = if matches!(entries.first(), Some(Entry::Member(_))) { "SADD" } else { "HSET" };
    let mut words = vec![name.into(), key.clone()];
    words.extend(entries.iter().flat_map(words_of));
    words
}

fn words_of(entry: &Entry) -> Vec<Bytes> {
    match entry {
        Entry::Member(member) => vec![member.clone()],
        Entry::Pair(key, value) => vec![key.clone(), value.clone()],
        Entry::Count(key, count) => vec![key.clone(), count.to_string().into_bytes()],
    }
}

/// Why `store` has not done what it was asked, where that is not because of what it has there: it may do it later.
pub(super) fn refusal(store: &str, answer: &Value) -> Option<Error> {
    let Value::ServerError(error) = answer else { return None };
    let says = format!("{} {}", error.code(), error.details().unwrap_or_default());
    let has = |words: &[&str]| words.iter().any(|word| says.contains(word));
    let look = match error.code() {
        _ if has(&OF_CONTENT) => return None,
        SPLIT => MOVING,
        _ if has(&OF_USER) => CREDENTIALS,
        _ => STATE,
    };
    Some(Error::refused(store, says, look))
}

/// By which policy a server evicts keys of whatever kind, as `INFO memory` says; those of the others (`noeviction`,
/// `volatile-…`) evict nothing that has no end.
pub(super) fn eviction(told: &str) -> Option<&str> {
    let policy = told.lines().find_map(|line| line.strip_prefix("maxmemory_policy:"))?.trim_end();
    policy.starts_with("allkeys-").then_some(policy)
}

/// The reply to a call, as the server's answer on connection `by` says.
pub(super) fn reply(call: &Call, answer: Value, by: u64) -> Answer {
    let key = &call.key;
    if let Value::ServerError(error) = &answer {
        let text = format!("{} {}", error.code(), error.details().unwrap_or_default());
        return Err(match text.contains("would overflow") {
            true => Error::OutOfRange(key.clone()),
            false => foreign(key, &text),
        });
    }
    let reply = match &call.operation {
        Operation::Create(_) if is_refused(&answer) => return Err(Error::Exists(key.clone())),
        Operation::Update(_) if is_refused(&answer) => return Err(Error::Missing(key.clone())),
        Operation::Create(_) | Operation::Update(_) | Operation::Put(_) | Operation::Arm(..) => {
            Some(Reply::Done)
        }
        Operation::Read => content(key.kind(), answer).map(Reply::Content),
        Operation::CompareAndUpdate { .. } | Operation::CompareAndInsert { .. } => {
            Some(Reply::Was(!is_refused(&answer)))
        }
        Operation::TimeLeft => {
            integer(&answer).map(|left| Reply::TimeLeft(u64::try_from(left).ok()))
        }
        Operation::Add(_) | Operation::AddTo(..) => integer(&answer).map(Reply::Number),
        Operation::Push(..) | Operation::Size => {
            integer(&answer).map(|size| Reply::Size(size.max(0) as u64))
        }
        Operation::Pop(_) => found(answer, |bytes| Some(Entry::Member(bytes))),
        // `HSET` and `SADD` say how many are new.
        Operation::Insert(_) => integer(&answer).map(|new| Reply::Was(new == 0)),
        Operation::Delete | Operation::Erase(_) | Operation::Contains(_) => {
            integer(&answer).map(|count| Reply::Was(count > 0))
        }
        Operation::Find(entry) => found(answer, |bytes| pair(key.kind(), entry.clone(), bytes)),
        Operation::Iterate { cursor, limit } => page(key.kind(), answer, (cursor, *limit), by),
    };
    reply.ok_or_else(|| foreign(key, "it cannot be read as its type"))
}

fn foreign(key: &Key, why: &str) -> Error {
    Error::Foreign { key: key.clone(), why: why.to_string() }
}

/// Whether `SET NX`, `SET XX` or a script did nothing.
fn is_refused(answer: &Value) -> bool {
    match answer {
        Value::Nil => true,
        Value::Array(parts) => parts.first() == Some(&Value::Int(0)),
        _ => false,
    }
}

fn integer(answer: &Value) -> Option<i64> {
    match answer {
        Value::Int(number) => Some(*number),
        _ => None,
    }
}

fn bytes(answer: Value) -> Option<Bytes> {
    match answer {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

fn array(answer: Value) -> Option<Vec<Bytes>> {
    match answer {
        Value::Array(parts) => parts.into_iter().map(bytes).collect(),
        _ => None,
    }
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn found(answer: Value, read: impl Fn(Bytes) -> Option<Entry>) -> Option<Reply> {
    match answer {
        Value::Nil => Some(Reply::Found(None)),
        answer => Some(Reply::Found(Some(read(bytes(answer)?)?))),
    }
}

fn pair(kind: Kind, key: Bytes, value: Bytes) -> Option<Entry> {
    match kind {
        Kind::CounterMap => Some(Entry::Count(key, number(&value)?)),
        _ => Some(Entry::Pair(key, value)),
    }
}

fn content(kind: Kind, answer: Value) -> Option<Option<Content>> {
    match (kind, &answer) {
        (Kind::Value | Kind::Counter, Value::Nil) => Some(None),
        (Kind::Value, _) => Some(Some(Content::Value(bytes(answer)?))),
        (Kind::Counter, _) => Some(Some(Content::Counter(number(&bytes(answer)?)?))),
        _ => {
            let mut content = Content::empty(kind)?;
            for entry in entries(kind, array(answer)?)? {
                content.insert(entry);
            }
            Some(Some(content))
        }
    }
}

fn entries(kind: Kind, words: Vec<Bytes>) -> Option<Vec<Entry>> {
    if matches!(kind, Kind::List | Kind::Set) {
        return Some(words.into_iter().map(Entry::Member).collect());
    }
    let mut words = words.into_iter();
    let mut entries = Vec::new();
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        entries.push(pair(kind, key, value)?);
    }
    Some(entries)
}

fn page(kind: Kind, answer: Value, (cursor, limit): (&Bytes, u32), by: u64) -> Option<Reply> {
    if kind == Kind::List {
        let entries = entries(kind, array(answer)?)?;
        let next = position(cursor) + entries.len() as u64;
        let full = entries.len() as u64 >= u64::from(limit.max(1));
        return Some(Reply::Page(entries, full.then(|| next.to_string().into_bytes())));
    }
    let Value::Array(parts) = answer else { return None };
    let [next, words] = <[Value; 2]>::try_from(parts).ok()?;
    let next = bytes(next)?;
    let more = next != b"0";
    let next = [&next[..], b" ", by.to_string().as_bytes()].concat();
    Some(Reply::Page(entries(kind, array(words)?)?, more.then_some(next)))
}

/// What became of a batch, as the server's answer says. What others have written into its scope is no matter of other
/// scopes.
pub(super) fn outcome(batch: &Batch, answer: Value) -> Outcome {
    let text = match answer {
        Value::ServerError(error) => {
            format!("{} {}", error.code(), error.details().unwrap_or_default())
        }
        Value::Array(parts) => match <[Value; 2]>::try_from(parts) {
            Ok([Value::Int(1), _]) => return Outcome::Committed,
            Ok([Value::Int(2), _]) => return Outcome::Lacks,
            Ok([Value::Int(0), Value::BulkString(found)]) => {
                return Outcome::Found(found.strip_prefix(b"=").map(<[u8]>::to_vec));
            }
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    };
    // In a cluster braces stand around the scope; no key of ours has any.
    let written = |name: &str| name.replace(['{', '}'], "");
    let of = |(says, name): (&str, &str)| {
        let mut calls = batch.present.iter().chain(&batch.calls);
        let call = calls.find(|call| call.key.as_str() == written(name))?;
        Some((call.key.clone(), says.to_string()))
    };
    let (key, says) = text.rsplit_once(" at ").and_then(of).unwrap_or((batch.mark.clone(), text));
    Outcome::Refused(foreign(&key, &says))
}
