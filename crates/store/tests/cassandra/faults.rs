//! One server that fails while two workers write: whatever happens to it, nobody waits and nothing is lost.

use std::time::{Duration, Instant};

use anabranch_store::Status;

use crate::cable::Cable;
use crate::failing::{self, Outcome, run};
use crate::server::Server;
use crate::{RELEASE, alone, driver};

/// Lets `fault` happen while transactions are under way, of which nobody is told what became of them; in a key space
/// of its own, where nothing is yet.
#[allow(clippy::print_stdout)] // how long parts took
fn failed(server: &mut Server, what: &str, fault: &dyn Fn(&mut Server)) -> Status {
    let address = server.address_in(what, "consistency=one&timeout_ms=2000");
    let began = Instant::now();
    let Outcome { status, worst, slowest } = run(
        || driver(&address),
        (failing::settings(), Duration::from_secs(120)),
        || {
            // Until it has stored something.
            std::thread::sleep(Duration::from_secs(2));
            fault(server);
        },
    );
    println!("{what}, {:?}, slowest batch {slowest:?}: {status:?}", began.elapsed());
    assert!(worst.lag_ns > 500_000_000 && worst.waiting > 0, "{what}: {worst:?}");
    assert!(status.failures > 0, "{what}: {status:?}");
    status
}

pub fn stopped_for_some_seconds(server: &mut Server) {
    let status = failed(server, "stopped", &|server| {
        server.signal("STOP");
        std::thread::sleep(Duration::from_secs(5));
        server.signal("CONT");
    });
    assert_eq!(status.rebuilds, 0, "it had everything");
}

pub fn started_again_with_nothing(server: &mut Server) {
    let status = failed(server, "emptied", &|server| server.restart_empty());
    assert!(status.rebuilds >= 2, "{status:?}");
}

fn killed_and_started_again(server: &mut Server) {
    let status = failed(server, "killed", &|server| server.restart());
    assert_eq!(status.rebuilds, 0, "it has its log");
}

fn cut_off_for_some_seconds(server: &mut Server) {
    if server.cable.is_none() {
        return;
    }
    let status = failed(server, "cut", &|server| {
        server.cable.as_ref().unwrap().cut();
        std::thread::sleep(Duration::from_secs(5));
        server.cable.as_ref().unwrap().join();
    });
    assert_eq!(status.rebuilds, 0, "it had everything");
}

#[test]
fn whatever_happens_to_it_nobody_waits_and_nothing_is_lost() {
    let _alone = alone();
    let Some(mut server) = Server::start_behind(Cable::lay(), RELEASE) else { return };
    killed_and_started_again(&mut server);
    stopped_for_some_seconds(&mut server);
    cut_off_for_some_seconds(&mut server);
    started_again_with_nothing(&mut server);
}
