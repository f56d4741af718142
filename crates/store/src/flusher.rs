//! Write-behind for real: threads that take what workers changed and keep a store up to date.
//!
//! ```text
//!  worker ── Feed ──┐
//!  worker ── Feed ──┼──▶ line ──▶ flusher ──▶ WriteBehind ──▶ connection ──▶ store
//!  worker ── Feed ──┘             (a thread)                  (a thread: only it waits)
//! ```
//!
//! **Invariant: a worker waits for nothing.** It puts its changes into the line, all of them in one
//! step, if that is free just then, and keeps them for the next time if not. It wakes the flusher, if that sleeps: some
//! instructions of the two may meet there, and a system call, once a period.
//!
//! **Invariant: what was handed over later takes effect later**, whoever handed it over: a shard that
//! moves from one worker to another has its changes in order.
//!
//! **What nobody takes in any more is dropped.** Where a thread has ended that should not, as by a driver that
//! panics, feeds drop what they are told, and count it: the [status](Flusher::status) says so.
//!
//! **The line is bounded** by who asks first whether it [has room](Feed::has_room): where it has none, what
//! changes is told later, and once however often it changes until then.

mod connection;
mod feed;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::behind::{Action, Mark, Policy, Settings, Status, Target, WriteBehind};
use crate::clock::now_ms;
use crate::content::Content;
use crate::driver::Driver;
use crate::error::Error;
use crate::key::Key;
use crate::sheet::Sheet;
use crate::view;
use connection::{Connection, News, Question};
pub use feed::Feed;
use feed::NEVER;

/// Longest that nobody looks whether it is to end.
const NAP: Duration = Duration::from_millis(20);

/// A pause that is longer counts as one of this length.
const LONGEST_PAUSE_NS: u64 = 60_000_000_000;

/// Keeps a store up to date with the state of one instance. Dropped, it stops where it is, as if it
/// were killed; [`close`](Self::close) brings everything to the store first.
pub struct Flusher {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Shared {
    began: Instant,
    line: Mutex<Vec<Handed>>,
    /// Sheets that were unpacked, for workers to pack in again.
    spare: Mutex<Vec<Sheet>>,
    /// Feeds so far.
    feeds: AtomicUsize,
    /// Of each of them.
    untold_since: Mutex<Vec<Arc<AtomicU64>>>,
    /// Changes in the line, those that the flusher is just taking in, and those that nobody will.
    in_line: AtomicUsize,
    /// What was told until then is stored, nanoseconds; [`NEVER`]: everything.
    stored_until_ns: AtomicU64,
    /// How long the store took for the message that it answered soonest; 0: for none yet.
    round_trip_ns: AtomicU64,
    /// The same for the last one.
    last_trip_ns: AtomicU64,
    period_ns: u64,
    /// How long each feed's last round of refreshes took.
    rounds_ns: Mutex<Vec<Arc<AtomicU64>>>,
    /// How far the clock has come of what is in the line, and was before.
    clock_ns: AtomicU64,
    /// Nobody takes in what is in the line any more.
    ended: AtomicBool,
    /// Wakes the flusher.
    news: SyncSender<News>,
    status: Mutex<Status>,
    /// How long packets waited while workers told what they had changed, in nanoseconds.
    pauses: Mutex<Option<Histogram<u64>>>,
    refuses_new: Arc<AtomicBool>,
    stops: AtomicBool,
    /// Everything is to go at once.
    settles: AtomicBool,
    /// The same, and then it stops.
    closes: AtomicBool,
}

/// What one worker hands over at once, all in steps that are told together.
struct Handed {
    feed: usize,
    sheets: Vec<Sheet>,
}

/// Sheets that are kept to pack in again, and the bytes that each may have room for.
const MOST_SPARE: usize = 64;
const MOST_SPARE_BYTES: usize = 1 << 18;

impl Shared {
    fn new(behind: &WriteBehind, period_ns: u64, news: SyncSender<News>) -> Self {
        Self {
            began: Instant::now(),
            line: Mutex::default(),
            spare: Mutex::default(),
            feeds: AtomicUsize::new(0),
            untold_since: Mutex::default(),
            in_line: AtomicUsize::new(0),
            stored_until_ns: AtomicU64::new(NEVER),
            round_trip_ns: AtomicU64::new(0),
            last_trip_ns: AtomicU64::new(0),
            period_ns,
            rounds_ns: Mutex::default(),
            clock_ns: AtomicU64::new(behind.clock_ns()),
            ended: AtomicBool::new(false),
            news,
            status: Mutex::new(behind.status(0)),
            pauses: Mutex::new(Histogram::new_with_bounds(1, LONGEST_PAUSE_NS, 2).ok()),
            refuses_new: Arc::default(),
            stops: AtomicBool::new(false),
            settles: AtomicBool::new(false),
            closes: AtomicBool::new(false),
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Since when something has changed that no worker has told, nanoseconds.
    fn untold_since(&self) -> Option<u64> {
        let all = lock(&self.untold_since);
        all.iter().map(|since| since.load(Ordering::Relaxed)).filter(|&since| since < NEVER).min()
    }

    fn put(&self, line: &mut Vec<Handed>, handed: Handed) {
        let changes: usize = handed.sheets.iter().map(Sheet::len).sum();
        self.in_line.fetch_add(changes, Ordering::Relaxed);
        if !self.has_ended() {
            line.push(handed);
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// There is something for the flusher to do. It is awake where it has not heard the last news yet.
    fn wake(&self) {
        let _ = self.news.try_send(News::Told);
    }

    fn status(&self) -> Status {
        let mut status = lock(&self.status).clone();
        status.waiting += self.in_line.load(Ordering::Relaxed) as u64;
        let rounds = lock(&self.rounds_ns);
        let longest = rounds.iter().map(|round| round.load(Ordering::Relaxed)).max();
        status.refresh_round_ns = longest.unwrap_or(0);
        if let Some(pauses) = &*lock(&self.pauses) {
            status.pause_p50_ns = pauses.value_at_quantile(0.5);
            status.pause_p99_ns = pauses.value_at_quantile(0.99);
            status.pause_max_ns = pauses.max();
        }
        status
    }
}

impl Flusher {
    /// Takes over what `instance` of `nf` has in the store, which is returned, and writes behind
    /// from then on. Waits for the store; an error if it does not answer.
    #[allow(clippy::type_complexity)]
    pub fn open(
        mut driver: impl Driver + 'static,
        nf: &str,
        instance: &str,
        settings: Settings,
    ) -> Result<(Self, Vec<(Key, Content)>), Error> {
        let (epoch, claimed) = view::claim(&mut driver, nf, instance, Mark::epoch_at(now_ms()))?;
        let state = claimed.iter().flat_map(|one| one.content.clone()).collect();
        let behind = WriteBehind::new(settings, epoch, claimed)?;
        let (news, heard) = sync_channel(2);
        let (questions, asked) = sync_channel(1);
        let answers = Connection(news.clone());
        let connection = spawn(move || answers.answer(driver, &asked))?;
        let shared = Arc::new(Shared::new(&behind, settings.period_ns, news));
        let worker = Worker {
            behind,
            maps: Vec::new(),
            shared: Arc::clone(&shared),
            period: Duration::from_nanos(settings.period_ns.max(10_000)),
            taken_ns: 0,
            asked_ns: 0,
            asked_all: None,
            refused: Duration::ZERO,
            shown: Instant::now(),
            is_closed: false,
        };
        let policy = settings.policy;
        let work = move || {
            let mut ending = Ending { shared: Arc::clone(&worker.shared), policy, is_meant: false };
            ending.is_meant = worker.work((questions, connection), heard);
        };
        let thread = Some(spawn(work)?);
        Ok((Self { shared, thread }, state))
    }

    /// How far the clock has come of those who tell or, before anybody has, had of those who wrote before: what was
    /// found may speak of times until then. Nanoseconds since the Unix epoch; 0: nobody has said.
    pub fn clock_ns(&self) -> u64 {
        self.shared.clock_ns.load(Ordering::Relaxed)
    }

    /// A feed for one more worker.
    pub fn feed(&self) -> Feed {
        Feed::new(&self.shared)
    }

    /// Why the store did not take the last message, about ten periods ago, or could not be looked at last; `None`: it
    /// did, and could.
    pub fn trouble(&self) -> Option<String> {
        let status = lock(&self.shared.status);
        status.trouble.as_ref().or(status.unseen.as_ref()).cloned()
    }

    /// How it goes, about ten periods old.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Brings everything that was handed over to the store, for at most `patience`; how it ended. `waiting`
    /// is not 0 if the store did not take everything.
    pub fn settle(&self, patience: Duration) -> Status {
        self.shared.settles.store(true, Ordering::Release);
        self.shared.wake();
        let began = Instant::now();
        let is_over = || self.thread.as_ref().is_none_or(thread::JoinHandle::is_finished);
        while began.elapsed() < patience
            && self.shared.settles.load(Ordering::Acquire)
            && !is_over()
        {
            thread::sleep(Duration::from_micros(100));
        }
        self.status()
    }

    /// Brings everything that was handed over to the store, looks whether it still has what it was given, all
    /// for at most `patience`, and stops; how it ended. `waiting` is not 0 if the store did not take everything;
    /// there is `trouble` without it, or something `unseen`, if it took everything and could not be asked once more.
    pub fn close(self, patience: Duration) -> Status {
        self.close_while(|_, waited| waited < patience)
    }

    /// As [`close`](Self::close), for as long as `goes_on` says, which is told many times a second for how long it has
    /// lasted.
    pub fn close_while(mut self, mut goes_on: impl FnMut(&Self, Duration) -> bool) -> Status {
        self.shared.closes.store(true, Ordering::Relaxed);
        self.shared.wake();
        let began = Instant::now();
        let is_over = |thread: &thread::JoinHandle<()>| thread.is_finished();
        while !self.thread.as_ref().is_none_or(is_over) && goes_on(&self, began.elapsed()) {
            thread::sleep(Duration::from_millis(1));
        }
        self.stop();
        self.status()
    }

    fn stop(&mut self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A thread.
fn spawn<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<thread::JoinHandle<T>, Error> {
    thread::Builder::new().spawn(work).map_err(|cause| Error::Threads(cause.to_string()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while one is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end of the flusher's thread, whatever it is.
struct Ending {
    shared: Arc<Shared>,
    policy: Policy,
    /// It was asked for.
    is_meant: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.is_meant {
            return;
        }
        {
            // Whoever hands over later sees that it has ended.
            let mut line = lock(&self.shared.line);
            self.shared.ended.store(true, Ordering::Relaxed);
            line.clear();
        }
        let mut status = lock(&self.shared.status);
        status.ended = true;
        status.waiting = status.waiting.max(1);
        status.accepts_new = self.policy == Policy::KeepOn;
        status.trouble = Some("the thread that writes to it has ended".to_owned());
        self.shared.refuses_new.store(!status.accepts_new, Ordering::Relaxed);
    }
}

/// Where the store is asked, and who asks it.
type Asking = (SyncSender<Question>, thread::JoinHandle<Result<(), Error>>);

struct Worker {
    behind: WriteBehind,
    /// The maps that each feed has numbered.
    maps: Vec<Vec<Result<Target, Error>>>,
    shared: Arc<Shared>,
    period: Duration,
    /// When it was looked last what workers have told, nanoseconds; and the store was asked.
    taken_ns: u64,
    asked_ns: u64,
    /// What was told until then it has when it answers.
    asked_all: Option<u64>,
    /// For how long no new flows were to be taken, until it was `shown` last how it goes, or was closed.
    refused: Duration,
    shown: Instant,
    /// There are no more flows.
    is_closed: bool,
}

impl Worker {
    /// Until it is told to stop; false: the driver has panicked.
    fn work(mut self, (questions, connection): Asking, heard: Receiver<News>) -> bool {
        let mut is_asking = false;
        let mut change_refused = None;
        let mut is_meant = true;
        let mut doubts = false;
        while !self.shared.stops.load(Ordering::Relaxed) {
            let closes = self.shared.closes.load(Ordering::Relaxed);
            // Before what was handed over is taken: all of that is meant.
            let settles = self.shared.settles.load(Ordering::Acquire);
            if let Err(error) = self.take_changes() {
                change_refused = Some(error.to_string());
            }
            if closes {
                self.behind.end();
            }
            let mut until = NAP;
            if !is_asking {
                if closes || settles {
                    self.behind.hurry();
                }
                (is_asking, until) = self.act(&questions);
            }
            // Percentiles take longer than a flush.
            if closes || settles || self.shown.elapsed() >= (self.period * 8).min(NAP) {
                self.show(change_refused.as_ref());
            }
            self.is_closed = closes;
            let is_done = !is_asking && (self.behind.is_settled() || self.behind.is_fenced());
            if settles && is_done {
                self.shared.settles.store(false, Ordering::Release);
            }
            if closes && is_done {
                if !doubts {
                    doubts = true;
                    self.behind.doubt();
                    until = Duration::ZERO;
                } else if self.behind.is_fenced() || self.behind.is_certain() {
                    // A store that does not answer is asked for as long as whoever closes has patience.
                    break;
                }
            }
            match heard.recv_timeout(until.min(NAP)) {
                Ok(News::Told) | Err(_) => {}
                Ok(News::Gone) => {
                    is_meant = false;
                    break;
                }
                Ok(answer) => {
                    is_asking = false;
                    self.take_answer(answer);
                }
            }
        }
        drop(questions);
        // Whatever the connection still has to tell, it waits for nobody.
        drop(heard);
        if !is_asking {
            // It ends when the driver has closed what it has open.
            if let Ok(Err(error)) = connection.join() {
                lock(&self.shared.status).trouble.get_or_insert(error.to_string());
            }
        }
        is_meant
    }

    fn now_ns(&self) -> u64 {
        self.shared.now_ns()
    }

    /// Asks the store what is due; whether something is, and if not, how long nothing will be.
    fn act(&mut self, questions: &SyncSender<Question>) -> (bool, Duration) {
        let now_ns = self.now_ns();
        let question = match self.behind.next(now_ns) {
            Action::Wait(_) if self.behind.waiting() == 0 => {
                self.note_stored(NEVER);
                return (false, NAP);
            }
            Action::Wait(until) => {
                return (false, Duration::from_nanos(until.saturating_sub(now_ns)));
            }
            Action::Commit(batches) => Question::Commit(batches),
            Action::List(scope, page) => Question::List(scope, page),
        };
        if self.shared.stored_until_ns.load(Ordering::Relaxed) == NEVER {
            self.note_stored(self.taken_ns);
        }
        self.asked_ns = now_ns;
        self.asked_all = self.behind.is_all_under_way().then_some(self.taken_ns);
        // The thread at the other end is gone only if the driver panicked, which is told.
        let _ = questions.send(question);
        (true, NAP)
    }

    fn take_answer(&mut self, answer: News) {
        let now_ns = self.now_ns();
        match answer {
            News::Committed(outcomes) => {
                let is_answered = outcomes.is_ok();
                self.behind.committed(outcomes, now_ns);
                if is_answered {
                    self.note_round_trip(now_ns - self.asked_ns);
                    self.asked_all.iter().for_each(|until_ns| self.note_stored(*until_ns));
                }
            }
            News::Listed(listing) => self.behind.listed(listing, now_ns),
            News::Told | News::Gone => {}
        }
    }

    /// What was told until then is stored, nearly always: it decides how much is told, and nothing else.
    fn note_stored(&self, until_ns: u64) {
        self.shared.stored_until_ns.store(until_ns, Ordering::Relaxed);
    }

    fn note_round_trip(&self, ns: u64) {
        self.shared.last_trip_ns.store(ns, Ordering::Relaxed);
        let soonest = &self.shared.round_trip_ns;
        if soonest.load(Ordering::Relaxed) == 0 || soonest.load(Ordering::Relaxed) > ns {
            soonest.store(ns, Ordering::Relaxed);
        }
    }

    fn take_changes(&mut self) -> Result<(), Error> {
        self.taken_ns = self.now_ns();
        let line = std::mem::take(&mut *lock(&self.shared.line));
        // What is in the line was put there after its clock was noted.
        self.behind.note_clock(self.shared.clock_ns.load(Ordering::Relaxed));
        let now_ns = self.now_ns();
        let mut taken = Ok(());
        for Handed { feed, mut sheets } in line {
            if self.maps.len() <= feed {
                self.maps.resize_with(feed + 1, Vec::new);
            }
            let changes: usize = sheets.iter().map(Sheet::len).sum();
            taken = taken.and(self.behind.sheets(&mut sheets, &mut self.maps[feed], now_ns));
            self.shared.in_line.fetch_sub(changes, Ordering::Relaxed);
            let mut spare = lock(&self.shared.spare);
            let small = sheets.into_iter().filter(|sheet| sheet.room() <= MOST_SPARE_BYTES);
            let room = MOST_SPARE.saturating_sub(spare.len());
            spare.extend(small.map(Sheet::emptied).take(room));
        }
        taken
    }

    fn show(&mut self, change_refused: Option<&String>) {
        self.behind.roll(self.now_ns());
        let mut status = self.behind.status_with(self.now_ns(), self.shared.untold_since());
        let now = Instant::now();
        let refused = self.shared.refuses_new.swap(!status.accepts_new, Ordering::Relaxed);
        if refused && !self.is_closed {
            self.refused += now - self.shown;
        }
        self.shown = now;
        status.refused_ns = u64::try_from(self.refused.as_nanos()).unwrap_or(u64::MAX);
        status.trouble = status.trouble.or(change_refused.cloned());
        *lock(&self.shared.status) = status;
    }
}

#[cfg(test)]
mod tests;
