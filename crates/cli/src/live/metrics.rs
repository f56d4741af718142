//! Metrics over HTTP, for Prometheus: as much of HTTP/1.1 (RFC 9112) as that takes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::Sender;

use anabranch_runtime::live::Request;

use super::endpoint::{ANSWERING, ASKING, Served, report, serve};
use super::exposition::render;
use super::timely::Timely;
use crate::error::Error;

/// Longest head of a request.
const LONGEST_HEAD: u64 = 16 << 10;
/// Version 0.0.4 of Prometheus's text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers at `address` as long as the process lives; returns the address, whose port may have been left
/// to the system.
///
/// # Errors
/// [`Error::Output`]: the address cannot be had.
pub(super) fn open(address: SocketAddr, requests: Sender<Request>) -> Result<SocketAddr, Error> {
    let open = || {
        let listener = TcpListener::bind(address)?;
        let bound = listener.local_addr()?;
        let accept = move || listener.accept().map(|(stream, _)| stream);
        drop(serve(accept, move |served: &Served<_>| drop(answer(served, &requests)), drop)?);
        Ok(bound)
    };
    open().map_err(|cause: io::Error| {
        Error::Output(format!(
            "--metrics {address}: {cause}; give an address of this machine, and a free port"
        ))
    })
}

fn answer(served: &Served<TcpStream>, requests: &Sender<Request>) -> io::Result<()> {
    let stream = &served.stream;
    let asked = read_head(stream)?;
    if !served.has_asked() {
        return Ok(());
    }
    let asked: Vec<&str> = asked.split_whitespace().collect();
    let path = asked.get(1).and_then(|target| path_of(target));
    let (status, text) = match asked[..] {
        ["GET" | "HEAD", _, _] if path == Some("/metrics") => match report(requests) {
            Some(report) => ("200 OK", render(&report)),
            None => ("503 Service Unavailable", "the run is ending\n".to_owned()),
        },
        ["GET" | "HEAD", ..] => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "metrics are to be read: GET /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {TEXT}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let body = if asked.first() == Some(&"HEAD") { "" } else { &text };
    Timely::new(stream, ANSWERING).write_all((head + body).as_bytes())
}

/// The path of a target, which may name the server too (RFC 9112, 3.2.2). What is asked for besides, as `params` of
/// Prometheus does, changes nothing.
fn path_of(target: &str) -> Option<&str> {
    let (scheme, rest) = target.split_at_checked("http://".len()).unwrap_or((target, ""));
    let target = match scheme.eq_ignore_ascii_case("http://") {
        true => rest.find('/').and_then(|at| rest.get(at..))?,
        false => target,
    };
    target.split('?').next()
}

/// The first line of a request, all of whose head has been read: a connection that is closed before is reset.
fn read_head(stream: &TcpStream) -> io::Result<String> {
    let mut lines = BufReader::new(Timely::new(stream, ASKING).take(LONGEST_HEAD));
    let mut first = Vec::new();
    lines.read_until(b'\n', &mut first)?;
    // What fields say need be no text (RFC 9110, 5.5).
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 2 {
        line.clear();
    }
    Ok(String::from_utf8_lossy(&first).into_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use anabranch_runtime::report::RunReport;

    use super::*;

    fn get(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{request}\r\nHost: here\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn metrics_are_read_over_http() {
        let (tell, requests) = channel();
        let address = open("127.0.0.1:0".parse().unwrap(), tell).unwrap();
        let once = std::thread::spawn(move || match requests.recv() {
            Ok(Request::Report(answer)) => answer.send(RunReport::new("nop")).unwrap(),
            other => panic!("{other:?}"),
        });
        let (head, text) = {
            let answer = get(address, "GET /metrics HTTP/1.1");
            let (head, text) = answer.split_once("\r\n\r\n").unwrap();
            (head.to_owned(), text.to_owned())
        };
        once.join().unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", text.len())), "{head}");
        assert_eq!(text, render(&RunReport::new("nop")));
        for (request, status) in [
            ("GET /metrics HTTP/1.1", "503"),
            ("GET /metrics?from=here HTTP/1.1", "503"),
            ("GET http://127.0.0.1:9464/metrics HTTP/1.1", "503"),
            ("GET HTTP://here/metrics?from=here HTTP/1.1", "503"),
            ("GET http://here/ HTTP/1.1", "404"),
            ("GET http://here HTTP/1.1", "404"),
            ("GET /metricsx HTTP/1.1", "404"),
            ("GET / HTTP/1.1", "404"),
            ("POST /metrics HTTP/1.1", "405"),
            ("", "405"),
        ] {
            let answer = get(address, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        }
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nUser-Agent: caf\xe9\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        // The head alone (RFC 9110, 9.3.2), with the length of what is left out.
        let answer = get(address, "HEAD /metrics HTTP/1.1");
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("\r\n\r\n"), "{answer}");
        assert!(!answer.contains("Content-Length: 0\r\n"), "{answer}");
    }

    #[test]
    fn a_request_that_does_not_come_whole_is_given_up() {
        let (tell, _requests) = channel();
        let address = open("127.0.0.1:0".parse().unwrap(), tell).unwrap();
        let mut slow = TcpStream::connect(address).unwrap();
        let begun = Instant::now();
        while slow.write_all(b"GET").is_ok() && begun.elapsed() < 4 * ASKING {
            std::thread::sleep(ASKING / 5);
        }
        assert!(begun.elapsed() < 2 * ASKING, "{:?}", begun.elapsed());
    }

    #[test]
    fn who_asks_nothing_keeps_nobody_waiting() {
        let (tell, requests) = channel();
        let address = open("127.0.0.1:0".parse().unwrap(), tell).unwrap();
        drop(requests);
        let _silent: Vec<TcpStream> =
            (0..60).map(|_| TcpStream::connect(address).unwrap()).collect();
        let begun = Instant::now();
        let answer = get(address, "GET /metrics HTTP/1.1");
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(begun.elapsed() < ASKING, "{:?}", begun.elapsed());
    }

    #[test]
    fn an_address_of_another_machine_is_refused() {
        let (tell, _) = channel();
        let refused = open("192.0.2.1:9000".parse().unwrap(), tell);
        assert!(refused.is_err_and(|error| error.to_string().contains("--metrics 192.0.2.1:9000")));
    }
}
