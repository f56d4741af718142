//! Settings for functions of the library that do little, or are refused, without any.

/// Settings of the function `nf`, as TOML; empty where its defaults will do.
pub fn example(nf: &str) -> &'static str {
    match nf {
        "nat" => NAT,
        "lb" => LB,
        "bridge-static" => STATIONS,
        // Buckets that run dry.
        "policer" => "rate_bps = 8_000\nburst_bytes = 3_000\n",
        // Thresholds that few hosts reach.
        "anti-ddos" => "share_percent = 50\nleast_flows = 20\n",
        "portscan" => "threshold = 2_000\nunanswered = 8\n",
        "dns-tunnel" => "threshold = 3\n",
        // So little that two packets meet.
        "synthetic" => "elements = 16\nwrites = 1\n",
        _ => "",
    }
}

/// Ports and payloads that the function `nf` looks for.
pub(crate) fn conversations(nf: &str) -> (&'static [u16], &'static [&'static [u8]]) {
    match nf {
        "dns-tunnel" => (&[53], ANSWERS),
        "trojan" => (&[21, 22], LINES),
        "sidejacking" => (&[], REQUESTS),
        _ => (&[], &[]),
    }
}

/// DNS responses to the question for `a`: without a record, with A records of two hosts that are
/// talked to, with an AAAA record, and a question.
const ANSWERS: &[&[u8]] = &[
    b"\0\x01\x81\x80\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01",
    b"\0\x01\x81\x80\0\x01\0\x01\0\0\0\0\x01a\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\x01\0\x01",
    b"\0\x01\x81\x80\0\x01\0\x01\0\0\0\0\x01a\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\x01\0\x02",
    b"\0\x01\x81\x80\0\x01\0\x01\0\0\0\0\x01a\0\0\x1c\0\x01\xc0\x0c\0\x1c\0\x01\0\0\0\x3c\0\x10\
      \xfd\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x01",
    b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01",
];

/// Commands of FTP and IRC.
const LINES: &[&[u8]] = &[
    b"RETR a.html\r\n",
    b"RETR b.ZIP\r\n",
    b"RETR c.exe\r\n",
    b"NICK mallory\r\n",
    b"USER anonymous\r\n",
];

/// HTTP requests, with two sessions and without.
const REQUESTS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nCookie: sid=0123456789abcdef\r\n\r\n",
    b"POST / HTTP/1.1\r\nCookie: a=b; PHPSESSID=fedcba9876543210\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
];

/// Three public addresses, two of them side by side, and four services open to all, two of them at an
/// address of their own.
const NAT: &str = r#"
public = ["203.0.113.1", "203.0.113.2", "198.51.100.9"]

[[static_mappings]]
protocol = "tcp"
inside = "10.0.0.1"
inside_port = 5
public = "203.0.113.1"
public_port = 5

[[static_mappings]]
protocol = "udp"
inside = "10.0.0.2"
inside_port = 6
public = "192.0.2.7"
public_port = 6

[[static_mappings]]
protocol = "udp"
inside = "10.0.0.3"
inside_port = 7
public = "203.0.113.2"
public_port = 7

[[static_mappings]]
protocol = "tcp"
inside = "10.0.0.4"
inside_port = 8
public = "192.0.2.7"
public_port = 8
"#;

/// Stations behind the ports that they mostly send from.
const STATIONS: &str = r#"
stations = [
    { mac = "02:00:00:00:00:01", port = 0 },
    { mac = "02:00:00:00:01:01", port = 1 },
    { mac = "02:00:00:00:02:02", port = 2 },
]
"#;

/// Services over both versions of IP with two backends each.
const LB: &str = r#"
table_size = "tiny"
backend_slots = 8

[[services]]
address = "203.0.113.1"
port = 1

[[services]]
address = "203.0.113.1"
port = 2
protocol = "udp"

[[services6]]
address = "fd00:113::1"
port = 1

[[services6]]
address = "fd00:113::1"
port = 2
protocol = "udp"

[[backends]]
address = "10.1.0.1"
port = 3

[[backends]]
address = "10.1.0.2"
port = 3

[[backends]]
service = 1
address = "10.1.0.3"
port = 4

[[backends6]]
address = "fd00:1::1"
port = 3

[[backends6]]
address = "fd00:1::2"
port = 3

[[backends6]]
service = 1
address = "fd00:1::3"
port = 4
"#;
