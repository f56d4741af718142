//! Clients and a server that no package has: this program itself, run at a host.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::lab::{Lab, Process};

/// Room for the descriptors of as many connections as any test opens.
const FILES: usize = 8_192;

/// The command line that runs this program as one of the below.
fn line(order: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let program = program.display();
    format!(
        "env LIVE_CLIENT='{order}' sh -c 'ulimit -n {FILES}; exec {program} --ignored --exact clients::client'"
    )
}

/// Has `host` open so many connections to the web server at `server`, all at once, and fetch the file `small` over
/// each, which must be `len` bytes long.
pub fn fetch_at_once(lab: &Lab, host: &str, server: &str, connections: usize, len: usize) {
    let done = lab.run(host, &line(&format!("fetch {server} {connections} {len}"))).expect();
    assert!(done.contains("1 passed"), "{done}");
}

/// Has `host` send datagrams to `to`, as many as it can, of flows that come and go.
pub fn flood(lab: &Lab, host: &str, to: &str, time: Duration) -> Process {
    lab.serve(host, &line(&format!("flood {to} {} 0", time.as_secs())))
}

/// Has `host` send datagrams back (RFC 862), somewhat longer than they are sent.
pub fn echo(lab: &Lab, host: &str, time: Duration) -> Process {
    let server = lab.serve(host, &line(&format!("echo 0.0.0.0:7 {} 0", time.as_secs() + 1)));
    std::thread::sleep(Duration::from_millis(300));
    server
}

/// Not a test: what the above run.
#[test]
#[ignore = "run at a host by other tests"]
fn client() {
    let Ok(order) = std::env::var("LIVE_CLIENT") else { return };
    let [what, peer, count, len] = order.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{order}")
    };
    let (peer, count): (SocketAddr, u64) = (peer.parse().unwrap(), count.parse().unwrap());
    let until = Instant::now() + Duration::from_secs(count);
    match what {
        "fetch" => fetch(peer, count as usize, len.parse().unwrap()),
        "flood" => send_until(peer, until),
        "echo" => echo_until(peer, until),
        _ => panic!("{order}"),
    }
}

fn fetch(server: SocketAddr, connections: usize, len: usize) {
    const THREADS: usize = 20;
    let connect = |_| {
        let stream = TcpStream::connect_timeout(&server, Duration::from_secs(10)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    };
    let connect_some = |count: usize| (0..count).map(connect).collect::<Vec<_>>();
    let mut streams: Vec<TcpStream> = std::thread::scope(|threads| {
        let counts = (0..THREADS).map(|thread| (connections + thread) / THREADS);
        let some = counts.map(|count| threads.spawn(move || connect_some(count)));
        some.collect::<Vec<_>>().into_iter().flat_map(|some| some.join().unwrap()).collect()
    });
    assert_eq!(streams.len(), connections);
    for stream in &mut streams {
        stream.write_all(b"GET /small HTTP/1.0\r\n\r\n").unwrap();
    }
    for mut stream in streams {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let body = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        assert!(answer.starts_with(b"HTTP/1.1 200") && answer.len() - body == len, "{answer:?}");
    }
}

fn send_until(peer: SocketAddr, until: Instant) {
    const DATAGRAMS: usize = 64;
    while Instant::now() < until {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect(peer).unwrap();
        for _ in 0..DATAGRAMS {
            // Where there is no room, or nobody there, it is one less.
            let _ = socket.send(&[0; 18]);
        }
    }
}

fn echo_until(here: SocketAddr, until: Instant) {
    let socket = UdpSocket::bind(here).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut bytes = [0; 2_048];
    while Instant::now() < until {
        if let Ok((len, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..len], from);
        }
    }
}
