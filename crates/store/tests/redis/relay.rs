//! A line between driver and server that can be made to dribble: what the server says comes a byte at a time.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// From one byte to the next: any timeout is long enough for some.
const APART: Duration = Duration::from_millis(50);

/// A port by which a server is reached, for as long as the test runs.
pub struct Relay {
    node: String,
    dribbles: Arc<AtomicBool>,
}

impl Relay {
    /// To the server at `to`, `host:port`.
    pub fn to(to: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let node = listener.local_addr().unwrap().to_string();
        let dribbles = Arc::new(AtomicBool::new(false));
        let told = dribbles.clone();
        thread::spawn(move || {
            for near in listener.incoming() {
                let (near, far) = (near.unwrap(), TcpStream::connect(&to).unwrap());
                far.set_nodelay(true).unwrap();
                near.set_nodelay(true).unwrap();
                let (from, into, told) =
                    (far.try_clone().unwrap(), near.try_clone().unwrap(), told.clone());
                thread::spawn(move || pass(near, far, &AtomicBool::new(false)));
                thread::spawn(move || pass(from, into, &told));
            }
        });
        Self { node, dribbles }
    }

    /// `host:port`.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Whether it dribbles from now on.
    pub fn dribble(&self, dribbles: bool) {
        self.dribbles.store(dribbles, Ordering::Relaxed);
    }
}

/// Passes on what comes until either end is closed.
fn pass(mut from: TcpStream, mut into: TcpStream, dribbles: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        let mut rest = &bytes[..read];
        while !rest.is_empty() {
            let some = if dribbles.load(Ordering::Relaxed) { 1 } else { rest.len() };
            if into.write_all(&rest[..some]).is_err() {
                break;
            }
            rest = &rest[some..];
            if !rest.is_empty() {
                thread::sleep(APART);
            }
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = into.shutdown(Shutdown::Both);
}
