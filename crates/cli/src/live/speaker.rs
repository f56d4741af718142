//! What a living run says on standard error, written by a thread of its own: who reads it may pause, as a terminal does
//! after Ctrl-S, and the run is to go on, to answer and to end meanwhile.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use crate::figures::counted;
use crate::file::tell;

/// Lines that wait to be written; more are lost, and counted.
const WAITING: usize = 256;
/// Time between two looks at how far the run is.
const EVERY: Duration = Duration::from_millis(100);
/// Time for what waits when the run is over.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What is to be written.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// A line.
    Line(String),
    /// Packets that have been handled, and which part of the run is over, if that is known.
    Far(u64, Option<f64>),
    /// Nothing more.
    Over,
}

/// Packets that have been handled, and which part of the run is over.
type Far = (u64, Option<f64>);

/// Says lines, and never waits.
pub(super) struct Speaker {
    lines: SyncSender<String>,
    far: Arc<Mutex<Option<Far>>>,
    lost: usize,
    /// Disconnected when all is written.
    over: Receiver<()>,
}

impl Speaker {
    /// Has what is said written by `write`, which may take its time.
    pub(super) fn start(mut write: impl FnMut(Said) + Send + 'static) -> Self {
        let (lines, waiting) = sync_channel::<String>(WAITING);
        let (is_over, over) = channel();
        let far = Arc::new(Mutex::new(None));
        let latest = Arc::clone(&far);
        let speak = move || {
            loop {
                match waiting.recv_timeout(EVERY) {
                    Ok(line) => write(Said::Line(line)),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                let far = latest.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some((packets, part)) = far {
                    write(Said::Far(packets, part));
                }
            }
            write(Said::Over);
            drop::<std::sync::mpsc::Sender<()>>(is_over);
        };
        // Where no thread can be had, there are no words either.
        let _ = Builder::new().name("speaker".to_owned()).spawn(speak);
        Self { lines, far, lost: 0, over }
    }

    /// Says a line, which is lost where too many wait.
    pub(super) fn say(&mut self, line: String) {
        self.tell_lost();
        if self.lost > 0 || self.lines.try_send(line).is_err() {
            self.lost += 1;
        }
    }

    fn tell_lost(&mut self) {
        if self.lost > 0 {
            let told = format!("{} lost: nobody read them here", counted(self.lost as u64, "line"));
            if self.lines.try_send(told).is_ok() {
                self.lost = 0;
            }
        }
    }

    /// Says how far the run is.
    pub(super) fn update(&mut self, packets: u64, part: Option<f64>) {
        self.tell_lost();
        *self.far.lock().unwrap_or_else(PoisonError::into_inner) = Some((packets, part));
    }

    /// Waits a little until all is written.
    pub(super) fn finish(mut self) {
        self.tell_lost();
        let Self { lines, over, .. } = self;
        drop(lines);
        let _ = over.recv_timeout(LAST_WORDS);
    }
}

/// Says the last line of a program, which ends a little later though nobody reads it.
pub(crate) fn last_words(line: String) {
    let (is_over, over) = channel::<()>();
    let line: Arc<str> = line.into();
    let said = Arc::clone(&line);
    let speak = move || {
        tell(&said);
        drop(is_over);
    };
    match Builder::new().name("speaker".to_owned()).spawn(speak) {
        Ok(_) => drop(over.recv_timeout(LAST_WORDS)),
        // Where no thread can be had that may be what is to be said.
        Err(_) => tell(&line),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Sender;
    use std::time::Instant;

    use super::*;

    /// A speaker whose words are read from the second channel, one for each that comes by the first.
    fn slow() -> (Speaker, Sender<()>, Receiver<Said>) {
        let (go, may) = channel::<()>();
        let (write, written) = channel();
        let speaker = Speaker::start(move |said| {
            // Whoever has gone does not hold it up.
            let _ = may.recv();
            let _ = write.send(said);
        });
        (speaker, go, written)
    }

    #[test]
    fn who_does_not_read_holds_nothing_up() {
        let (mut speaker, go, written) = slow();
        let begun = Instant::now();
        (0..1_000).for_each(|number| speaker.say(number.to_string()));
        speaker.update(7, None);
        assert!(begun.elapsed() < LAST_WORDS, "{:?}", begun.elapsed());
        (0..300).for_each(|_| go.send(()).unwrap());
        let read: Vec<Said> = (0..250).map(|_| written.recv().unwrap()).collect();
        assert_eq!(read[0], Said::Line("0".to_owned()));
        assert!(read.contains(&Said::Far(7, None)));
        speaker.say("last".to_owned());
        drop(go);
        speaker.finish();
        let rest: Vec<Said> = written.iter().collect();
        let [.., Said::Line(lost), last, Said::Over] = &rest[..] else { panic!("{rest:?}") };
        assert!(lost.ends_with(" lines lost: nobody read them here"), "{lost}");
        assert_eq!(*last, Said::Line("last".to_owned()));
    }

    #[test]
    fn the_end_is_not_waited_for_long() {
        let (mut speaker, _go, _written) = slow();
        speaker.say("one".to_owned());
        let begun = Instant::now();
        speaker.finish();
        assert!(begun.elapsed() >= LAST_WORDS && begun.elapsed() < 10 * LAST_WORDS);
    }
}
