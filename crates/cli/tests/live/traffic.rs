//! What hosts send each other.

use std::fs;

use crate::lab::Lab;

/// Fetches a large file, and compares it.
pub fn fetch(lab: &Lab, client: &str, url: &str, expected: &[u8]) {
    lab.run(client, &format!("curl -sS --max-time 40 -o fetched {url}/large")).expect();
    assert!(fs::read(lab.path("fetched")).unwrap() == expected, "{url}: the file is another one");
}

/// Fetches a small file over many connections at once.
pub fn fetch_often(lab: &Lab, client: &str, url: &str, expected: &[u8]) {
    const TIMES: usize = 200;
    let line = format!(
        "curl -sS --max-time 40 --no-keepalive -H 'Connection: close' --parallel --parallel-max 50 \
         -o 'many-#1' {url}/small?[1-{TIMES}]"
    );
    lab.run(client, &line).expect();
    for number in 1..=TIMES {
        let file = lab.path(&format!("many-{number}"));
        assert!(fs::read(&file).unwrap() == expected, "{number}");
        fs::remove_file(file).unwrap();
    }
}

/// TCP and UDP, from the client and to it. TCP must get through; of UDP, at a modest rate, nearly all.
pub fn stream(lab: &Lab, client: &str, server: &str) {
    for way in ["", "-R"] {
        let tcp = lab.run(client, &format!("iperf3 -c {server} -t 1 -J {way}")).expect();
        let tcp: serde_json::Value = serde_json::from_str(&tcp).unwrap();
        let received = tcp["end"]["sum_received"]["bytes"].as_f64().unwrap();
        assert!(received > 1e6, "{way}: {received} bytes of TCP");
        let line = format!("iperf3 -c {server} -u -b 10M -l 1200 -t 2 -J {way}");
        let udp: serde_json::Value =
            serde_json::from_str(&lab.run(client, &line).expect()).unwrap();
        let lost = udp["end"]["sum"]["lost_percent"].as_f64().unwrap();
        let packets = udp["end"]["sum"]["packets"].as_f64().unwrap();
        assert!(packets > 1_000.0 && lost < 10.0, "{way}: {lost} % of {packets} datagrams lost");
    }
}

/// Echo requests of this size; every one must be answered. For the last answer `ping` waits no longer than from one
/// request to the next, if others came: where that was too short for a busy machine, it has to be so with more time.
pub fn ping(lab: &Lab, from: &str, to: &str, bytes: usize) {
    let answered = |interval| {
        let said = lab.run(from, &format!("ping -c 5 -i {interval} -W 5 -s {bytes} {to}")).text;
        if said.contains(" 0% packet loss") { Ok(()) } else { Err(said) }
    };
    let in_time = answered("0.05").or_else(|_| answered("1"));
    assert_eq!(in_time, Ok(()), "{bytes}");
}

/// Who is on the way from one host to another, by `traceroute` with three probes to each hop. One of all may be lost,
/// as packets may; then what the hosts counted is printed.
pub fn trace_route(lab: &Lab, from: &str, to: &str) -> Vec<String> {
    let said = lab.run(from, &format!("traceroute -n -w 2 -m 5 {to}")).expect();
    let lost = said.matches('*').count();
    if lost > 0 {
        println!("{said}");
        lab.print_counters();
    }
    assert!(lost <= 1, "{said}");
    let answered_by = |hop: &str| {
        let mut words = hop.split_whitespace().skip(1).skip_while(|&word| word == "*");
        words.next().unwrap_or("*").to_owned()
    };
    said.lines().skip(1).map(answered_by).collect()
}
