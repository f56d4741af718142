//! Many connections at once: this program itself, run at a host.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::lab::Lab;

/// Has `host` open so many connections to the web server at `server`, all at once, and fetch the file `small` over
/// each, which must be `len` bytes long.
pub fn fetch_at_once(lab: &Lab, host: &str, server: &str, connections: usize, len: usize) {
    let program = std::env::current_exe().unwrap();
    let line = format!(
        "env LIVE_CLIENT='{server} {connections} {len}' sh -c 'ulimit -n 8192; exec {} --ignored --exact \
         clients::at_once'",
        program.display()
    );
    let done = lab.run(host, &line).expect();
    assert!(done.contains("1 passed"), "{done}");
}

/// Not a test: what `fetch_at_once` runs.
#[test]
#[ignore = "run at a host by other tests"]
fn at_once() {
    let Ok(order) = std::env::var("LIVE_CLIENT") else { return };
    let [server, connections, len] = order.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{order}")
    };
    let server: SocketAddr = server.parse().unwrap();
    let (connections, len): (usize, usize) = (connections.parse().unwrap(), len.parse().unwrap());
    let connect = |_| {
        let stream = TcpStream::connect_timeout(&server, Duration::from_secs(10)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    };
    let connect_some = |count: usize| (0..count).map(connect).collect::<Vec<_>>();
    const THREADS: usize = 20;
    let mut streams: Vec<TcpStream> = std::thread::scope(|threads| {
        let some: Vec<_> = (0..THREADS)
            .map(|thread| {
                let count = (connections + thread) / THREADS;
                threads.spawn(move || connect_some(count))
            })
            .collect();
        some.into_iter().flat_map(|some| some.join().unwrap()).collect()
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
