//! Calls and batches as requests: what is looked at, and the transaction that comes of it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use scylla::client::session::Session;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::batch::{Batch as Transaction, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::{CqlValue, Row};

use super::link::failed;
use super::retry::ReadAgain;
use super::rows::{Cell, End as Ending, Rows, content_of, entry_of, position, row_of, rows_of};
use crate::call::{Call, End, Operation, Reply};
use crate::content::{Bytes, Entry, Kind};
use crate::driver::{Answer, Batch, Outcome};
use crate::error::Error;
use crate::key::Key;

/// Requests under way at once.
const TOGETHER: usize = 64;
/// Rows of an object that are removed one by one at most, where others are put in the same transaction.
const FEW: i32 = 1_000;
/// How often a change is tried that others get ahead of.
const TRIES: u32 = 400;

type Values = Vec<Option<CqlValue>>;

/// What can be asked of the table, prepared.
pub(super) struct Requests {
    session: Session,
    name: String,
    version: PreparedStatement,
    all: PreparedStatement,
    names: PreparedStatement,
    one: PreparedStatement,
    from: PreparedStatement,
    after: PreparedStatement,
    last: PreparedStatement,
    count: PreparedStatement,
    scopes: PreparedStatement,
    objects: PreparedStatement,
    put: PreparedStatement,
    put_value: PreparedStatement,
    put_number: PreparedStatement,
    remove: PreparedStatement,
    clear: PreparedStatement,
    renew: PreparedStatement,
    renew_if: PreparedStatement,
    mark_first: PreparedStatement,
    same_value: PreparedStatement,
    some: PreparedStatement,
}

/// What a call comes to: its answer, and what is to change for it.
struct Effect {
    answer: Answer,
    rows: Rows,
    /// All rows of the object are to go; there are none to put then.
    clears: bool,
}

impl Effect {
    fn none(answer: Answer) -> Self {
        Self { answer, rows: Rows::new(), clears: false }
    }

    fn of(reply: Reply, rows: Rows) -> Self {
        Self { answer: Ok(reply), rows, clears: false }
    }

    fn one(reply: Reply, name: Bytes, cell: Option<Cell>) -> Self {
        Self::of(reply, [(name, cell)].into())
    }

    fn changes_nothing(&self) -> bool {
        self.rows.is_empty() && !self.clears
    }
}

fn text(text: &str) -> Option<CqlValue> {
    Some(CqlValue::Text(text.to_string()))
}

fn blob(bytes: &[u8]) -> Option<CqlValue> {
    Some(CqlValue::Blob(bytes.to_vec()))
}

fn big(number: i64) -> Option<CqlValue> {
    Some(CqlValue::BigInt(number))
}

/// Scope, type and id, which all statements about objects begin with.
fn object(key: &Key) -> Values {
    let id = key.as_str().rsplit('@').next().unwrap_or_default();
    vec![text(key.scope_str()), text(key.kind().word()), text(id)]
}

fn with(key: &Key, more: impl IntoIterator<Item = Option<CqlValue>>) -> Values {
    object(key).into_iter().chain(more).collect()
}

/// What may be asked again, and takes as long as it takes.
fn that_reads(mut statement: PreparedStatement, patience: Duration) -> PreparedStatement {
    statement.set_is_idempotent(true);
    statement.set_retry_policy(Some(Arc::new(ReadAgain)));
    statement.set_request_timeout(Some(patience));
    statement
}

/// Such reads see every transaction that was answered, and end those that were not.
fn seen_by_all(serial: SerialConsistency) -> Consistency {
    match serial {
        SerialConsistency::LocalSerial => Consistency::LocalSerial,
        SerialConsistency::Serial => Consistency::Serial,
    }
}

impl Requests {
    pub(super) async fn prepare(
        session: Session,
        name: &str,
        serial: SerialConsistency,
        patience: Duration,
    ) -> Result<Self, Error> {
        const OBJECT: &str = "WHERE scope = ? AND kind = ? AND id = ?";
        const CELL: &str = "SELECT entry, value, number, ends FROM anabranch_state";
        let write = async |text: &str| session.prepare(text).await.map_err(|why| failed(name, why));
        let read = async |text: String| {
            let mut statement = that_reads(write(&text).await?, patience);
            statement.set_consistency(seen_by_all(serial));
            Ok::<_, Error>(statement)
        };
        let scopes = "SELECT DISTINCT scope FROM anabranch_state";
        // One after the other: a list of them all would go through all of their rows.
        let objects = "SELECT kind, id FROM anabranch_state WHERE scope = ? AND (kind, id) > (?, ?) \
                       LIMIT 1";
        let put = "INSERT INTO anabranch_state (scope, kind, id, entry, value, number, ends) \
                   VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL ?";
        // A column that is written as null would be an erased one, for readers to step over.
        let put_one = |column: &str| {
            format!(
                "INSERT INTO anabranch_state (scope, kind, id, entry, {column}) VALUES (?, ?, ?, ?, ?) \
                 USING TTL ?"
            )
        };
        let mark_first = "INSERT INTO anabranch_state (scope, kind, id, entry, value) \
                          VALUES (?, ?, ?, ?, ?) IF NOT EXISTS";
        let same_value =
            format!("UPDATE anabranch_state SET value = ? {OBJECT} AND entry = ? IF value = ?");
        let some = "SELECT entry, value, number, ends, kind, id FROM anabranch_state \
                    WHERE scope = ? AND (kind, id, entry) IN ?";
        // A row before all others, by its name: a static column would be read with the first row that lives, behind all
        // that were erased.
        const VERSION: &str = "WHERE scope = ? AND kind = '' AND id = '' AND entry = 0x";
        let renew = format!("UPDATE anabranch_state SET number = ? {VERSION}");
        let of_object = |columns: &str| format!("SELECT {columns} FROM anabranch_state {OBJECT}");
        Ok(Self {
            version: read(format!("SELECT number FROM anabranch_state {VERSION}")).await?,
            all: read(format!("{CELL} {OBJECT}")).await?,
            names: read(format!("{} LIMIT ?", of_object("entry"))).await?,
            one: read(format!("{CELL} {OBJECT} AND entry = ?")).await?,
            from: read(format!("{CELL} {OBJECT} LIMIT ?")).await?,
            after: read(format!("{CELL} {OBJECT} AND entry > ? LIMIT ?")).await?,
            last: read(format!("{CELL} {OBJECT} ORDER BY kind DESC, id DESC, entry DESC LIMIT 1"))
                .await?,
            count: read(of_object("COUNT(*)")).await?,
            // Of many partitions: no transaction covers them.
            scopes: that_reads(write(scopes).await?, patience),
            objects: read(objects.to_string()).await?,
            put: write(put).await?,
            put_value: write(&put_one("value")).await?,
            put_number: write(&put_one("number")).await?,
            remove: write(&format!("DELETE FROM anabranch_state {OBJECT} AND entry = ?")).await?,
            clear: write(&format!("DELETE FROM anabranch_state {OBJECT}")).await?,
            renew: write(&renew).await?,
            renew_if: write(&format!("{renew} IF number = ?")).await?,
            mark_first: write(mark_first).await?,
            same_value: write(&same_value).await?,
            some: read(some.to_string()).await?,
            session,
            name: name.to_string(),
        })
    }

    fn failed(&self, why: impl ToString) -> Error {
        failed(&self.name, why)
    }

    async fn ask(&self, statement: &PreparedStatement, values: Values) -> Result<Vec<Row>, Error> {
        let answer = self.session.execute_unpaged(statement, values).await;
        let answer = answer.map_err(|why| self.failed(why))?;
        let rows = answer.into_rows_result().map_err(|why| self.failed(why))?;
        let rows = rows.rows::<Row>().map_err(|why| self.failed(why))?;
        rows.collect::<Result<_, _>>().map_err(|why| self.failed(why))
    }

    /// Rows of an object that have not ended.
    async fn cells(
        &self,
        statement: &PreparedStatement,
        values: Values,
    ) -> Result<Vec<(Bytes, Cell)>, Error> {
        let rows = self.ask(statement, values).await?;
        let cells = rows.into_iter().filter_map(|row| named(&mut row.columns.into_iter()));
        Ok(cells.filter(|(_, cell)| cell.is_alive()).collect())
    }

    async fn all(&self, key: &Key) -> Result<Vec<(Bytes, Cell)>, Error> {
        self.cells(&self.all, object(key)).await
    }

    async fn one(&self, key: &Key, entry: &[u8]) -> Result<Option<Cell>, Error> {
        let found = self.cells(&self.one, with(key, [blob(entry)])).await?;
        Ok(found.into_iter().next().map(|(_, cell)| cell))
    }

    /// The first rows, behind `after` where that is given.
    async fn page(
        &self,
        key: &Key,
        after: Option<&[u8]>,
        limit: u32,
    ) -> Result<Vec<(Bytes, Cell)>, Error> {
        let limit = Some(CqlValue::Int(i32::try_from(limit.max(1)).unwrap_or(i32::MAX)));
        match after {
            None => self.cells(&self.from, with(key, [limit])).await,
            Some(after) => self.cells(&self.after, with(key, [blob(after), limit])).await,
        }
    }

    async fn edge(&self, key: &Key, end: End) -> Result<Option<(Bytes, Cell)>, Error> {
        let found = match end {
            End::Front => self.page(key, None, 1).await?,
            End::Back => self.cells(&self.last, object(key)).await?,
        };
        Ok(found.into_iter().next())
    }

    async fn count(&self, key: &Key) -> Result<u64, Error> {
        let counted = self.ask(&self.count, object(key)).await?;
        let count = counted.into_iter().next().and_then(|row| row.columns.into_iter().next());
        let count = count.flatten().and_then(|count| count.as_bigint());
        Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }

    async fn version(&self, scope: &str) -> Result<Option<i64>, Error> {
        let found = self.ask(&self.version, vec![text(scope)]).await?;
        let version = found.into_iter().next().and_then(|row| row.columns.into_iter().next());
        Ok(version.flatten().and_then(|version| version.as_bigint()))
    }

    /// Carries out calls in their order; those that only look, together.
    pub(super) async fn run(&self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        let mut answers = Vec::with_capacity(calls.len());
        for part in calls.chunk_by(|a, b| a.operation.is_read() && b.operation.is_read()) {
            let some = stream::iter(part).map(|call| self.call(call)).buffered(TOGETHER);
            answers.extend(some.try_collect::<Vec<_>>().await?);
        }
        Ok(answers)
    }

    async fn call(&self, call: &Call) -> Result<Answer, Error> {
        if let Err(refused) = call.check() {
            return Ok(Err(refused));
        }
        if call.operation.is_read() {
            return self.look(&call.key, &call.operation).await.map(Ok);
        }
        let scope = call.key.scope_str();
        for tried in 0..TRIES {
            let version = self.version(scope).await?;
            let effect = self.effect(&call.key, &call.operation).await?;
            if effect.changes_nothing() {
                return Ok(effect.answer);
            }
            let mut transaction = Change::once();
            let renewed = vec![big(random()), text(scope), version.and_then(big)];
            transaction.add(&self.renew_if, renewed);
            if effect.clears {
                transaction.add(&self.clear, object(&call.key));
            }
            self.add_rows(&mut transaction, &call.key, effect.rows);
            if self.take_effect(transaction).await? {
                return Ok(effect.answer);
            }
            // Somebody was faster; not all try again at once.
            let most_ms = 1 << tried.min(5);
            let pause_ms = random().unsigned_abs() % most_ms;
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        Err(self.failed("others write to the same scope all the time"))
    }

    async fn look(&self, key: &Key, operation: &Operation) -> Result<Reply, Error> {
        Ok(match operation {
            Operation::Read => {
                let rows = self.all(key).await?;
                Reply::Content(content_of(key.kind(), rows))
            }
            Operation::TimeLeft => {
                let found = self.one(key, &[]).await?;
                Reply::TimeLeft(found.and_then(|cell| cell.left_ms()))
            }
            Operation::Contains(name) => Reply::Was(self.one(key, name).await?.is_some()),
            Operation::Find(name) => {
                let found = self.one(key, name).await?;
                Reply::Found(found.map(|cell| entry_of(key.kind(), name.clone(), cell)))
            }
            Operation::Size => Reply::Size(self.count(key).await?),
            Operation::Iterate { cursor, limit } => {
                // A cursor that is not empty is the last entry behind one byte: its key may be empty.
                let rows = self.page(key, cursor.get(1..), *limit).await?;
                let next = rows.last().filter(|_| rows.len() >= (*limit).max(1) as usize);
                let next = next.map(|(name, _)| [&[1], &name[..]].concat());
                let entry = |(name, cell)| entry_of(key.kind(), name, cell);
                Reply::Page(rows.into_iter().map(entry).collect(), next)
            }
            _ => return Err(self.failed("a call that writes was only to look")),
        })
    }

    async fn effect(&self, key: &Key, operation: &Operation) -> Result<Effect, Error> {
        Ok(match operation {
            Operation::Create(content) => match self.page(key, None, 1).await?.is_empty() {
                true => Effect::of(Reply::Done, rows_of(content)),
                false => Effect::none(Err(Error::Exists(key.clone()))),
            },
            Operation::Update(_) if self.page(key, None, 1).await?.is_empty() => {
                Effect::none(Err(Error::Missing(key.clone())))
            }
            Operation::Put(content) | Operation::Update(content) => {
                Effect::of(Reply::Done, self.instead(key, rows_of(content)).await?)
            }
            Operation::Delete => {
                let was = !self.page(key, None, 1).await?.is_empty();
                Effect { answer: Ok(Reply::Was(was)), rows: Rows::new(), clears: was }
            }
            Operation::CompareAndUpdate { from, to, ttl_ms } => {
                let cell = match ttl_ms {
                    Some(ttl_ms) => Cell::ending(to.clone(), *ttl_ms),
                    None => Cell::value(to.clone()),
                };
                self.compare(key, &[], from.as_ref(), cell).await?
            }
            Operation::CompareAndInsert { key: name, from, to } => {
                self.compare(key, name, from.as_ref(), Cell::value(to.clone())).await?
            }
            Operation::Arm(bytes, ttl_ms) => {
                let cell = Cell::ending(bytes.clone(), *ttl_ms);
                Effect::one(Reply::Done, Bytes::new(), Some(cell))
            }
            Operation::Add(by) => self.add(key, &[], *by).await?,
            Operation::AddTo(name, by) => self.add(key, name, *by).await?,
            Operation::Push(end, element) => {
                let steps = if *end == End::Front { -1 } else { 1 };
                let edge = self.edge(key, *end).await?.map(|(at, _)| at);
                let (size, cell) = (self.count(key).await? + 1, Cell::value(element.clone()));
                Effect::one(Reply::Size(size), position(edge.as_ref(), steps), Some(cell))
            }
            Operation::Pop(end) => match self.edge(key, *end).await? {
                None => Effect::none(Ok(Reply::Found(None))),
                Some((at, cell)) => {
                    let element = Entry::Member(cell.value.unwrap_or_default());
                    Effect::one(Reply::Found(Some(element)), at, None)
                }
            },
            Operation::Insert(entry) => {
                let (name, cell) = row_of(entry.clone());
                let was = self.one(key, &name).await?.is_some();
                Effect::one(Reply::Was(was), name, cell)
            }
            Operation::Erase(name) => match self.one(key, name).await? {
                None => Effect::none(Ok(Reply::Was(false))),
                Some(_) => Effect::one(Reply::Was(true), name.clone(), None),
            },
            _ => return Err(self.failed("a call that only looks was to write")),
        })
    }

    /// `rows` and nothing else: what is there besides is to go.
    async fn instead(&self, key: &Key, mut rows: Rows) -> Result<Rows, Error> {
        if !key.kind().is_collection() {
            // Its only row is among them.
            return Ok(rows);
        }
        for row in self.ask(&self.names, with(key, [Some(CqlValue::Int(i32::MAX))])).await? {
            let name = row.columns.into_iter().next().flatten().and_then(CqlValue::into_blob);
            if let Some(name) = name {
                rows.entry(name).or_insert(None);
            }
        }
        Ok(rows)
    }

    async fn compare(
        &self,
        key: &Key,
        name: &[u8],
        from: Option<&Bytes>,
        to: Cell,
    ) -> Result<Effect, Error> {
        let found = self.one(key, name).await?.and_then(|cell| cell.value);
        Ok(match found.as_ref() == from {
            true => Effect::one(Reply::Was(true), name.to_vec(), Some(to)),
            false => Effect::none(Ok(Reply::Was(false))),
        })
    }

    async fn add(&self, key: &Key, name: &[u8], by: i64) -> Result<Effect, Error> {
        let found = self.one(key, name).await?.and_then(|cell| cell.number);
        Ok(match found.unwrap_or(0).checked_add(by) {
            Some(sum) => Effect::one(Reply::Number(sum), name.to_vec(), Some(Cell::number(sum))),
            None => Effect::none(Err(Error::OutOfRange(key.clone()))),
        })
    }

    fn add_rows(&self, transaction: &mut Change, key: &Key, rows: Rows) {
        for (name, cell) in rows {
            match cell {
                None => transaction.add(&self.remove, with(key, [blob(&name)])),
                Some(cell) => {
                    let (ttl, Cell { value, number, ends }) = (cell.ttl_s(), cell);
                    let (name, ttl) = (blob(&name), Some(CqlValue::Int(ttl)));
                    // Only single values may have had an end before.
                    let is_plain = key.kind() != Kind::Value && ends.is_none();
                    match (value, number) {
                        (Some(value), None) if is_plain => {
                            let row = [name, Some(CqlValue::Blob(value)), ttl];
                            transaction.add(&self.put_value, with(key, row));
                        }
                        (None, Some(number)) if is_plain => {
                            transaction.add(&self.put_number, with(key, [name, big(number), ttl]));
                        }
                        (value, number) => {
                            let (value, ends) = (value.map(CqlValue::Blob), ends.and_then(big));
                            let row = [name, value, number.and_then(big), ends, ttl];
                            transaction.add(&self.put, with(key, row));
                        }
                    }
                }
            }
        }
    }

    /// Whether it was applied: nobody has written in between.
    async fn take_effect(&self, transaction: Change) -> Result<bool, Error> {
        let Change { statements, values } = transaction;
        let answer = self.session.batch(&statements, values).await;
        let answer = answer.map_err(|why| self.failed(why))?;
        let rows = answer.into_rows_result().map_err(|why| self.failed(why))?;
        let row = rows.first_row::<Row>().map_err(|why| self.failed(why))?;
        let applied = row.columns.first().and_then(Option::as_ref);
        Ok(applied.and_then(CqlValue::as_boolean) == Some(true))
    }

    /// Batches of one scope in their order, scopes side by side: those whose nodes do not answer are refused. An error
    /// if that is all of them.
    pub(super) async fn commit(&self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        let mut scopes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, batch) in batches.iter().enumerate() {
            scopes.entry(batch.mark.scope_str()).or_default().push(number);
        }
        let of_scope = async |numbers: Vec<usize>| {
            let mut outcomes = Vec::with_capacity(numbers.len());
            let mut broken = Ok(());
            for number in numbers {
                // What comes after one of which nobody knows would be judged by a mark that may yet change.
                let outcome = match broken.clone() {
                    Ok(()) => self.commit_one(&batches[number]).await,
                    Err(error) => Err(error),
                };
                broken = outcome.as_ref().map(drop).map_err(Error::clone);
                outcomes.push((number, outcome));
            }
            outcomes
        };
        let scopes: Vec<Vec<usize>> = scopes.into_values().collect();
        let outcomes = stream::iter(scopes).map(of_scope).buffer_unordered(TOGETHER);
        let mut outcomes = outcomes.concat().await;
        outcomes.sort_by_key(|(number, _)| *number);
        of_some(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
    }

    async fn commit_one(&self, batch: &Batch) -> Result<Outcome, Error> {
        let mut ends: BTreeMap<&Key, Ending> = BTreeMap::new();
        for call in &batch.calls {
            ends.entry(&call.key).or_default().apply(call);
        }
        if let Some(outcome) = self.looked_at(batch).await? {
            return Ok(outcome);
        }
        if let Some(outcome) = self.cleared(batch, &ends).await? {
            return Ok(outcome);
        }
        let mut transaction = Change::repeatable();
        let next = blob(&batch.next);
        match &batch.expected {
            None => transaction.add(&self.mark_first, with(&batch.mark, [blob(&[]), next])),
            Some(expected) => {
                let place = with(&batch.mark, [blob(&[]), blob(expected)]);
                transaction.add(&self.same_value, [next].into_iter().chain(place).collect());
            }
        }
        let (version, scope) = (random(), batch.mark.scope_str());
        transaction.add(&self.renew, vec![big(version), text(scope)]);
        for (key, Ending { clears, mut rows }) in ends {
            if clears && rows.is_empty() {
                transaction.add(&self.clear, object(key));
            } else if clears {
                // Rows that are removed as a range would be removed after they were put.
                rows = self.instead(key, rows).await?;
            }
            self.add_rows(&mut transaction, key, rows);
        }
        if self.take_effect(transaction).await? {
            return Ok(Outcome::Committed);
        }
        let found = self.one(&batch.mark, &[]).await?.and_then(|cell| cell.value);
        // Asked of two nodes, it took effect by the other one: nobody else draws the same version.
        if found.as_ref() == Some(&batch.next) && self.version(scope).await? == Some(version) {
            return Ok(Outcome::Committed);
        }
        Ok(Outcome::Found(found))
    }

    /// What becomes of a batch of which not everything is there that is to be: nothing is written to find that out.
    async fn looked_at(&self, batch: &Batch) -> Result<Option<Outcome>, Error> {
        if batch.present.is_empty() {
            return Ok(None);
        }
        let mark = [(&batch.mark, Bytes::new())];
        let looks = batch.present.iter().filter_map(|call| Some((&call.key, expected(call)?.0)));
        let places = mark.into_iter().chain(looks).map(|(key, name)| {
            let [_, kind, id] = <[Option<CqlValue>; 3]>::try_from(object(key)).unwrap_or_default();
            CqlValue::Tuple(vec![kind, id, blob(&name)])
        });
        let places = Some(CqlValue::List(places.collect()));
        let rows = self.ask(&self.some, vec![text(batch.mark.scope_str()), places]).await?;
        let cells: Vec<(Values, Bytes, Cell)> = rows.into_iter().filter_map(placed).collect();
        let found = |key: &Key, name: &[u8]| {
            let place = object(key);
            let mut cells = cells.iter();
            let cell = cells.find(|(of, entry, _)| of[..] == place[1..] && entry == name);
            cell.map(|(_, _, cell)| cell).filter(|cell| cell.is_alive())
        };
        let mark = found(&batch.mark, &[]).and_then(|cell| cell.value.clone());
        if mark != batch.expected {
            return Ok(Some(Outcome::Found(mark)));
        }
        let is_there = |call: &Call| {
            expected(call).is_none_or(|(name, cell)| {
                found(&call.key, &name)
                    .is_some_and(|found| (&found.value, found.number) == (&cell.value, cell.number))
            })
        };
        Ok((!batch.present.iter().all(is_there)).then_some(Outcome::Lacks))
    }

    /// Removes first what is to go of objects that have more than goes row by row into one transaction with what comes
    /// in its place; another outcome where the mark is not as expected.
    async fn cleared(
        &self,
        batch: &Batch,
        ends: &BTreeMap<&Key, Ending>,
    ) -> Result<Option<Outcome>, Error> {
        let mut crowded = Vec::new();
        for (key, Ending { clears, rows }) in ends {
            if *clears && !rows.is_empty() && key.kind().is_collection() {
                let names = self.ask(&self.names, with(key, [Some(CqlValue::Int(FEW))])).await?;
                crowded.extend((names.len() >= FEW as usize).then_some(*key));
            }
        }
        let scope = batch.mark.scope_str();
        for _ in 0..if crowded.is_empty() { 0 } else { TRIES } {
            let version = self.version(scope).await?;
            let found = self.one(&batch.mark, &[]).await?.and_then(|cell| cell.value);
            if found != batch.expected {
                return Ok(Some(Outcome::Found(found)));
            }
            let mut transaction = Change::once();
            let renewed = vec![big(random()), text(scope), version.and_then(big)];
            transaction.add(&self.renew_if, renewed);
            crowded.iter().for_each(|key| transaction.add(&self.clear, object(key)));
            if self.take_effect(transaction).await? {
                return Ok(None);
            }
        }
        match crowded.is_empty() {
            true => Ok(None),
            false => Err(self.failed("others write to the same scope all the time")),
        }
    }

    pub(super) async fn keys(&self, prefix: &str) -> Result<Vec<Key>, Error> {
        let scope = prefix.match_indices('@').nth(2).map(|(at, _)| prefix[..at].to_string());
        let scopes = match scope {
            Some(scope) => vec![scope],
            None => {
                let rows = self.session.execute_iter(self.scopes.clone(), ()).await;
                let rows = rows.map_err(|why| self.failed(why))?;
                let rows = rows.rows_stream::<(String,)>().map_err(|why| self.failed(why))?;
                let scopes = rows.map_ok(|(scope,)| scope).try_collect::<Vec<String>>().await;
                scopes.map_err(|why| self.failed(why))?
            }
        };
        let begins = |scope: &String| scope.starts_with(prefix) || prefix.starts_with(&scope[..]);
        let scopes: Vec<String> = scopes.into_iter().filter(begins).collect();
        let keys = stream::iter(scopes).map(|scope| self.keys_of(scope)).buffer_unordered(TOGETHER);
        let mut keys = keys.try_concat().await?;
        keys.retain(|key| key.as_str().starts_with(prefix));
        keys.sort();
        Ok(keys)
    }

    async fn keys_of(&self, scope: String) -> Result<Vec<Key>, Error> {
        let (mut keys, mut last) = (Vec::new(), (String::new(), String::new()));
        loop {
            let after = vec![text(&scope), text(&last.0), text(&last.1)];
            let found = self.ask(&self.objects, after).await?.into_iter().next();
            let mut columns = found.into_iter().flat_map(|row| row.columns);
            let mut next = || columns.next().flatten().and_then(CqlValue::into_string);
            let (Some(kind), Some(id)) = (next(), next()) else { return Ok(keys) };
            keys.extend(format!("{scope}@{kind}@{id}").parse::<Key>());
            last = (kind, id);
        }
    }
}

/// Statements that take effect together, if their conditions hold.
struct Change {
    statements: Transaction,
    values: Vec<Values>,
}

impl Change {
    /// What is asked of one node, once: a node that says that it cannot may have brought it about all the same, and
    /// asked again it would find what it has done itself, and be counted twice.
    fn once() -> Self {
        let mut statements = Transaction::new(BatchType::Unlogged);
        statements.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy)));
        Self { statements, values: Vec::new() }
    }

    /// What may be asked of another node too: by its mark it takes effect once.
    fn repeatable() -> Self {
        let mut statements = Transaction::new(BatchType::Unlogged);
        statements.set_is_idempotent(true);
        Self { statements, values: Vec::new() }
    }

    fn add(&mut self, statement: &PreparedStatement, values: Values) {
        self.statements.append_statement(statement.clone());
        self.values.push(values);
    }
}

/// What became of batches where some were not answered; an error if none was.
fn of_some(outcomes: Vec<Result<Outcome, Error>>) -> Result<Vec<Outcome>, Error> {
    if outcomes.iter().all(Result::is_err) {
        return outcomes.into_iter().collect();
    }
    Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(Outcome::Refused)).collect())
}

/// The row that `call` says is there.
fn expected(call: &Call) -> Option<(Bytes, Cell)> {
    let (name, cell) = match &call.operation {
        Operation::Put(content) => rows_of(content).into_iter().next()?,
        Operation::Insert(entry) => row_of(entry.clone()),
        _ => return None,
    };
    Some((name, cell?))
}

/// Type and id, entry and cell of a row that was looked at.
fn placed(row: Row) -> Option<(Values, Bytes, Cell)> {
    let mut columns = row.columns.into_iter();
    let (name, cell) = named(&mut columns)?;
    let place = vec![columns.next().flatten(), columns.next().flatten()];
    Some((place, name, cell))
}

/// The entry and the cell in the first columns of a row.
fn named(columns: &mut impl Iterator<Item = Option<CqlValue>>) -> Option<(Bytes, Cell)> {
    let mut next = || columns.next().flatten();
    let name = next()?.into_blob()?;
    let value = next().and_then(CqlValue::into_blob);
    let mut number = || next().and_then(|number| number.as_bigint());
    let (number, ends) = (number(), number());
    Some((name, Cell { value, number, ends }))
}

/// A number that nobody else comes upon: the hash of nothing, by keys that are drawn anew each time.
fn random() -> i64 {
    RandomState::new().hash_one(0u8) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_whose_nodes_do_not_answer_are_refused_and_others_are_not() {
        let gone = || Error::unavailable("cassandra://a", "no node has answered");
        let done = || Ok(Outcome::Committed);
        assert_eq!(
            of_some(vec![done(), Err(gone()), done()]),
            Ok(vec![Outcome::Committed, Outcome::Refused(gone()), Outcome::Committed])
        );
        assert_eq!(of_some(vec![Err(gone()), Err(gone())]), Err(gone()));
        assert_eq!(of_some(Vec::new()), Ok(Vec::new()));
    }
}
