//! Every documented exit code, with a message that helps, and nothing half-written.

use std::fs;
use std::io::Write;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use crate::Bench;

/// The head of a pcap file whose packets have this link type.
fn pcap_head(link_type: u32) -> Vec<u8> {
    let mut head = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, link_type] {
        head.extend_from_slice(&u32::to_le_bytes(word));
    }
    head
}

#[test]
fn a_wrong_command_line_is_2() {
    let bench = Bench::new();
    bench.run("").expect(2).says("Usage");
    bench.run("fly").expect(2).says("fly");
    bench.run("run nop").expect(2).says("--in PORT=SOURCE");
    // With a port that this function has.
    bench.run("run firewall").expect(2).says("--in inside=inside.pcap");
    bench.run("run bridge").expect(2).says("--in p0=p0.pcap");
    bench.run("run nop --metrics 9464").expect(2).says("such as 127.0.0.1:9464");
    for number in ["0", "513", "5000", "two"] {
        for nf in ["nop", "router"] {
            let line = format!("bench {nf} --flows 10 --workers 1,{number}");
            bench.run(&line).expect(2).says(&format!("'{number}'")).says("from 1 to 512");
        }
    }
    let most = "write a number from 1 to 16777216";
    bench.run("bench router --flows 99999999999").expect(2).says("'99999999999'").says(most);
    bench.run("run nop --in none=x.pcap --in lan=x").expect(2).says("none");
    bench.run("run nop --in lan=mem:a.pcap?loop=0").expect(2).says("loop=0: out of range");
    bench.run("run nop --in lan=a.pcap --out wan=-").expect(2).says("/dev/stdin");
    bench.run("run nop --in a.pcap --in b.pcap").expect(2).says("names its port");
    let words = ["run", "nop", "--in", "p<0>=in.pcap"];
    bench.run_words(&words).expect(2).says("`p<0>` is no port's name").says("letters, digits");
    bench.run("run nop --in gen:colour=red").expect(2).says("colour");
    bench.run("run nop --in gen:port=70000").expect(2).says("write 1 to 65535");
    bench.run("run nop --in gen:tcp,udp").expect(2).says("`udp` does not go with `tcp`");
    bench.run("run nop --in gen:flows=3,flows=5").expect(2).says("`flows=5` does not go with");
    for command in ["run", "profile", "trace", "verify"] {
        let line = format!("{command} nop --in lan=a.pcap --in lan=b.pcap");
        bench.run(&line).expect(2).says("from one source, here `--in lan=a.pcap`");
    }
    bench.run("run nop --in lan=:").expect(2).says("--in lan=:: there is no kind `:`");
    bench.run("run nop --in lan=mem:").expect(2).says("--in lan=mem:: the file name is missing");
    bench.run("run nop --in =a.pcap").expect(2).says("the port's name is missing");
    bench.run("run nop --port lan=eth1").expect(2).says("--port lan=eth1: this is no live port");
    let line = ["run", "nop", "--in", "a", "--store", "memory", "--instance", ""];
    bench.run_words(&line).expect(2).says("write a name of 1 to 128 bytes");
    bench.run("run nop --port lan=afpacket:a").expect(2).says("port `wan` has no interface");
    bench.run("run nop --port lan=ena:0 --port wan=tap:b").expect(2).says("write afpacket:");
    bench.run("run nop --port lan=dpdk:0 --port wan=tap:b").expect(2).says("dpdk:0000:03:00.0");
    bench.run("run nop --port lan=tap:b --in lan=a.pcap").expect(2).says("--in");
    bench.run("run nop --for 3 --in a.pcap").expect(2).says("--port");
    bench.run("run nop --for soon --port lan=tap:b").expect(2).says("number of seconds");
    bench.run("run nop --workers 0 --in a.pcap").expect(2).says("number from 1");
    for number in ["-1", "-0.5"] {
        let line = format!("run nop --workers {number} --in a.pcap");
        bench.run(&line).expect(2).says("write a number from 1 to 1024, or `all`");
    }
    bench.run("trace nop --in a --count -1").expect(2).says("write a number from 1 on");
    let last = "verify nop --packets 9 --seed 18446744073709551615 --seeds 3";
    bench.run(last).expect(2).says("there are not 3 seeds");
    for nothing in ["verify nop --seeds 0", "verify nop --packets 0", "trace nop --count 0 --in a"]
    {
        bench.run(nothing).expect(2).says("write a number from 1 on");
    }
    bench.run("traffic colour=red --out a.pcap").expect(2).says("colour");
    bench.run("traffic flow=10 --out a.pcap").expect(2).says("did you mean `flows`?");
    bench.run("run nop --in lan=gen:packet=9").expect(2).says("did you mean `packets`?");
    bench.run("run nop --in lan=mem:a.pcap?lop=9").expect(2).says("did you mean `loop`?");
    let other = bench.run("run nop --in lan=mem:a.pcap?x=1").expect(2);
    assert!(!other.err.contains("did you mean"), "{}", other.err);
    bench.run("man fly").expect(2).says("fly");
    assert!(bench.files().is_empty());
}

#[test]
fn a_message_that_nobody_reads_changes_no_exit_code() {
    let bench = Bench::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = bench.command(&["run", "nop", "--in", "lan=nowhere.pcap"]);
    assert_eq!(command.stderr(writer).status().unwrap().code(), Some(4));
}

#[test]
fn documents_are_there_although_standard_output_is_full() {
    let bench = Bench::new();
    let words = ["run", "nop", "--in", "gen:packets=10", "--json", "r.json", "--report", "r.html"];
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let status = bench.command(&words).stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(6));
    assert!(bench.path("r.json").exists() && bench.path("r.html").exists());
}

#[test]
fn help_that_cannot_be_written_is_6() {
    let bench = Bench::new();
    for words in [&["--help"][..], &["--version"], &["run", "--help"], &["help", "plan"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let done = bench.command(words).stdout(full).output().unwrap();
        assert_eq!(done.status.code(), Some(6), "{words:?}");
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(said.contains("standard output: cannot be written: No space left"), "{said}");
        assert!(bench.command(words).output().unwrap().status.success(), "{words:?}");
    }
}

#[cfg(not(feature = "dpdk"))]
#[test]
fn a_program_without_dpdk_says_how_to_build_one_with() {
    let bench = Bench::new();
    let done = bench.run("run nop --port lan=dpdk:net_null0 --port wan=dpdk:net_null1").expect(4);
    done.says("built without DPDK").says("cargo build --release --features dpdk");
}

#[test]
fn wrong_settings_are_3() {
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=10,packets=100");
    let run = |rest: &str| bench.run(&format!("run policer --in a.pcap --out wan=o.pcap {rest}"));
    run("--set colour=red").expect(3).says("`colour` does not exist");
    run("--set colour").expect(3).says("--set colour");
    run("--config none.toml").expect(3).says("none.toml");
    run("--control at=1s").expect(3).says("the command is missing");
    run("--control fly").expect(3).says("fly");
    let service = r#"services=[{ address = "192.0.2.80", port = 80 }]"#;
    let drain = |fields: &str| {
        bench.run_words(&["run", "lb", "--in", "a.pcap", "--set", service, "--control", fields])
    };
    drain("drain-backend port=80").expect(3).says("field `address`: must be given");
    drain("drain-backend addr=10.0.0.1").expect(3).says("the fields are: address, port");
    fs::write(bench.path("bad.toml"), "a = 1\nb = = 2\n").unwrap();
    run("--config bad.toml").expect(3).says("line 2");
    fs::write(bench.path("wrong.toml"), "rate_bps = -1\n").unwrap();
    for command in ["run", "trace", "profile"] {
        let line = format!("{command} policer --in a.pcap --config wrong.toml");
        bench.run(&line).expect(3).says("anabranch: wrong.toml: ").says("`rate_bps`");
        let line = format!("{line} --set flows=9");
        bench.run(&line).expect(3).says("anabranch: wrong.toml, with --set over it: ");
    }
    run("--set rate_bps=-1").expect(3).says("write a value between");
    let alone =
        "expected a list in brackets, found string `\"203.0.113.1\"`: write [\"203.0.113.1\"]";
    bench.run("run nat --in lan=a.pcap --set public=203.0.113.1").expect(3).says(alone);
    let line = "run nat --in lan=a.pcap --set public=[203.0.113.1]";
    bench.run(line).expect(3).says(r#"write 'public=["203.0.113.1"]'"#);
    bench.run("run nop --in a.pcap --set foo=1").expect(3).says("`foo` does not exist; there are");
    // Tables of routing, of a function that does not route.
    let line = "run nop --in a.pcap --set interfaces.lan.mtu=9";
    bench.run(line).expect(3).says("`nop` does not route");
    bench
        .run(&format!("{line} --workers 2 --strategy lock"))
        .expect(3)
        .says("`nop` does not route");
    assert_eq!(bench.files(), ["a.pcap", "bad.toml", "wrong.toml"]);
}

#[test]
fn an_input_that_is_no_capture_is_4() {
    let bench = Bench::new();
    fs::write(bench.path("text.pcap"), "this is no capture at all\n").unwrap();
    bench.run("run nop --in none.pcap --out b.pcap").expect(4).says("none.pcap");
    bench.run("run nop --in text.pcap --out b.pcap").expect(4).says("text.pcap: not a capture");
    assert_eq!(bench.files(), ["text.pcap"]);
}

#[test]
fn a_truncated_input_is_4_and_what_was_read_is_kept() {
    let bench = Bench::new();
    bench.traffic("whole.pcap", "flows=10,packets=1000");
    let whole = fs::read(bench.path("whole.pcap")).unwrap();
    fs::write(bench.path("cut.pcap"), &whole[..whole.len() / 2]).unwrap();
    let line = "run nop --in lan=cut.pcap --out wan=o.pcap --json r.json";
    let done = bench.run(line).expect(4).says("cut.pcap").says("packets");
    assert!(done.out.contains("packets read"), "the table is printed\n{}", done.out);
    assert_eq!(bench.files(), ["cut.pcap", "o.pcap", "r.json", "whole.pcap"]);
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(bench.path("r.json")).unwrap()).unwrap();
    assert_eq!(
        (&report["complete"], &report["errors"][0]["kind"]),
        (&false.into(), &"input".into())
    );
    let read = report["packets_read"].as_u64().unwrap();
    assert!((1..1000).contains(&read), "{read}");
    let again = bench.run("run nop --in lan=o.pcap --json -").expect(0).json();
    assert_eq!(again["packets_read"], report["packets_out"]);
}

#[test]
fn another_link_type_is_5() {
    let bench = Bench::new();
    fs::write(bench.path("wifi.pcap"), pcap_head(105)).unwrap();
    bench.run("run nop --in wifi.pcap --out o.pcap").expect(5).says("105");
    bench.run("verify nop --in lan=wifi.pcap").expect(5).says("105");
    bench.run("trace nop --in lan=wifi.pcap").expect(5).says("105");
    assert_eq!(bench.files(), ["wifi.pcap"]);
}

#[test]
fn an_output_that_cannot_be_written_is_6() {
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=10,packets=100");
    let run = |rest: &str| bench.run(&format!("run nop --in lan=a.pcap {rest}"));
    run("--out wan=none/o.pcap").expect(6).says("none/o.pcap");
    run("--json none/r.json").expect(6).says("none/r.json");
    run("--out wan=o.pcap --report none/r.html").expect(6).says("none/r.html");
    bench.run("traffic flows=1,packets=1 --out none/a.pcap").expect(6).says("none/a.pcap");
    assert_eq!(bench.files(), ["a.pcap"]);
}

#[test]
fn an_unknown_function_is_7() {
    let bench = Bench::new();
    bench.run("run fierwall --in a.pcap").expect(7).says("did you mean `firewall`?");
    bench.run("nfs teapot").expect(7).says("there are: ");
    bench.run("paths teapot").expect(7).says("teapot");
    bench.run("bench teapot").expect(7).says("teapot");
}

#[test]
fn a_file_that_is_read_or_written_already_is_2_and_stays() {
    let bench = Bench::new();
    bench.run("traffic flows=10,packets=100 --out a.pcap").expect(0);
    let before = fs::read(bench.path("a.pcap")).unwrap();
    let run = |rest: &str| bench.run(&format!("run nop --in lan=a.pcap {rest}"));
    run("--out wan=./a.pcap").expect(2).says("--in lan=a.pcap");
    run("--json a.pcap").expect(2).says("overwrite");
    run("--out wan=o.pcap --json o.pcap").expect(2).says("--out wan=o.pcap");
    run("--report r.html --json r.html").expect(2).says("r.html");
    // The settings, the plan and what an earlier run left are read, too.
    bench.run("plan nop -o p.toml").expect(0);
    fs::write(bench.path("s.toml"), "").unwrap();
    run("--config s.toml --json s.toml").expect(2).says("--config s.toml");
    run("--plan p.toml --report p.toml").expect(2).says("--plan p.toml");
    fs::copy(bench.path("a.pcap"), bench.path("o.pcap.part")).unwrap();
    bench.run("run nop --in lan=o.pcap.part --out wan=o.pcap").expect(2).says("overwrite");
    bench.run("run nop --in lan=o.pcap.part --json o.pcap").expect(2).says("overwrite");
    assert_eq!(fs::read(bench.path("o.pcap.part")).unwrap(), before);
    bench.run("profile bridge --in p0=a.pcap --html a.pcap").expect(2).says("--in p0=a.pcap");
    bench.run("plan nop -o x --html x").expect(2).says("-o x");
    run("--out wan=x.pcap --out wan=y.pcap").expect(2).says("to one file");
    bench.run("traffic flows=1,packets=9 --out x.pcap --out y.pcap").expect(2).says("to one file");
    run("--listen l.sock").expect(2).says("--port");
    run("--metrics 127.0.0.1:9").expect(2).says("--port");
    run("--plan none.toml").expect(3).says("none.toml");
    assert_eq!(fs::read(bench.path("a.pcap")).unwrap(), before);
    run("--out wan=o.pcap --out lan=o.pcap --json /dev/null").expect(0);
}

#[test]
fn standard_output_has_one_document_and_standard_input_is_a_file() {
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=10,packets=100");
    let two = |line: &str| bench.run(line).expect(2).says("would both be on standard output");
    two("plan nop -o - --json");
    two("plan nop -o - --html -");
    two("plan nop --html - --json");
    two("profile nop --in lan=a.pcap --json --html -");
    two("run nop --in lan=a.pcap --json - --report -");
    let page = bench.run("run nop --in lan=a.pcap --report -").expect(0).out;
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{page}");
    bench
        .run("run nop --in lan=a.pcap --report - --json r.json")
        .expect(0)
        .shows("<!doctype html>");
    bench.run("plan nop --check -").expect(2).says("/dev/stdin");
    bench.run("run nop --in lan=a.pcap --plan -").expect(2).says("/dev/stdin");
    bench.run("run nop --in lan=a.pcap --config -").expect(2).says("/dev/stdin");
    assert_eq!(bench.files(), ["a.pcap", "r.json"]);
}

#[test]
fn what_is_said_twice_is_refused() {
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=10,packets=100");
    let run = |rest: &str| bench.run(&format!("run policer --in lan=a.pcap {rest}"));
    run("--set flows=300 --set flows=400").expect(3).says("`flows` is set twice");
    let words =
        ["run", "lb", "--set", SERVICE, "--in", "clients=a.pcap", "--control", COMMAND_TWICE];
    bench.run_words(&words).expect(3).says("`address` is given twice");
}

/// What `lb` has to be given.
const SERVICE: &str = r#"services=[{ address = "192.0.2.1", port = 80 }]"#;
/// A command with a field twice.
const COMMAND_TWICE: &str = "add-backend address=10.0.0.1 address=10.0.0.2 port=80";

#[test]
fn a_name_that_is_no_text_is_named() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new();
    let name = std::ffi::OsStr::from_bytes(b"lan=t\xff.pcap");
    let mut command = bench.command(&["run", "nop", "--in"]);
    let done = crate::Done::of(command.arg(name).output().unwrap(), "run nop --in lan=t?.pcap");
    done.expect(2).says("`--in lan=t\u{fffd}.pcap`: this is not UTF-8").says("ln -s");
}

#[test]
fn a_number_that_is_none_is_named() {
    let bench = Bench::new();
    let run = |rest: &str| bench.run(&format!("run nop --in lan=a.pcap {rest}"));
    run("--seed x").expect(2).says("`x` for --seed <N>: write a whole number");
    run("--flush-ms 1s")
        .expect(2)
        .says("`1s` for --flush-ms <N>: write a whole number without a unit");
    bench.traffic("a.pcap", "flows=10,packets=100");
    let run = run("--json nowhere/report.json");
    run.expect(6).says(
        "nowhere/report.json: cannot be written: there is no directory nowhere: make it first",
    );
    let nowhere = "nowhere/a.pcap: cannot be written: there is no directory nowhere: make it first";
    bench.run("traffic flows=10 --out nowhere/a.pcap").expect(6).says(nowhere);
    bench.run("run nop --in gen:packets=10 --out nowhere/a.pcap").expect(6).says(nowhere);
}

/// How the child ends, which it has to within some seconds.
fn ended(child: &mut Child) -> ExitStatus {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    panic!("it waits for who reads its error");
}

#[test]
fn who_does_not_read_the_error_does_not_keep_the_program() {
    let (unread, mut full) = std::io::pipe().unwrap();
    let error = full.try_clone().unwrap();
    // Ends when the pipe does.
    let filling = std::thread::spawn(move || while full.write_all(&[b' '; 4096]).is_ok() {});
    std::thread::sleep(Duration::from_millis(300));
    let mut command = Bench::new().command(&["nfs", "nothing"]);
    let mut child = command.current_dir("/").stderr(error).spawn().unwrap();
    assert_eq!(ended(&mut child).code(), Some(7));
    drop((unread, command));
    filling.join().unwrap();
}

#[test]
fn addresses_of_nobody_are_refused() {
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=10,packets=100");
    for address in ["0.0.0.0", "255.255.255.255", "224.0.0.1"] {
        let public = format!("public=[\"192.0.2.1\",\"{address}\"]");
        let words = ["run", "nat", "--in", "lan=a.pcap", "--set", &public];
        bench.run_words(&words).expect(3).says("`public` takes addresses of one host");
    }
}

#[test]
fn a_refused_command_is_3_and_the_run_is_complete() {
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=10,packets=100");
    let words =
        ["run", "lb", "--set", SERVICE, "--in", "clients=a.pcap", "--control", COMMAND_REFUSED];
    let done = bench
        .run_words(&[&words[..], &["--json", "r.json"]].concat())
        .expect(3)
        .says(&format!("`lb` refused the command `{COMMAND_REFUSED}`: "));
    assert!(!done.out.contains("incomplete"), "{}", done.out);
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(bench.path("r.json")).unwrap()).unwrap();
    assert_eq!((&report["complete"], &report["packets_read"]), (&true.into(), &100.into()));
    assert_eq!(report["errors"][0]["kind"], "control");
}

/// A command that cannot be carried out.
const COMMAND_REFUSED: &str = "remove-backend address=10.9.9.9 port=80";

/// Limits of a user do not hold for root: it is another one's.
#[test]
fn where_no_thread_can_be_had_it_is_4() {
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=10,packets=100");
    // What others may read and run.
    let open = |path: &std::path::Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    open(&bench.path(""), 0o777);
    open(&bench.path("a.pcap"), 0o644);
    let program = bench.path("program");
    let built = env!("CARGO_BIN_EXE_anabranch");
    fs::hard_link(built, &program).or_else(|_| fs::copy(built, &program).map(drop)).unwrap();
    open(&program, 0o755);
    let run = |threads: u32, words: &str| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=64738", "--regid=64738", "--clear-groups", "prlimit"]);
        command.arg(format!("--nproc={threads}")).arg("./program").args(words.split(' '));
        let output = command.current_dir(bench.path("")).output();
        output.ok().map(|output| crate::Done::of(output, words))
    };
    if run(99, "--version").is_none_or(|done| done.code != Some(0)) {
        println!("skipped: nothing can be run as another user here (that takes CAP_SETUID)");
        return;
    }
    for words in [
        "run nop --in lan=a.pcap --workers 1",
        "run nop --in lan=a.pcap --workers 2",
        "run firewall --in inside=a.pcap --workers 1 --store memory:state",
    ] {
        let done = run(1, words).unwrap().expect(4).says("no thread for ").says("`ulimit -u`");
        assert!(done.err.contains("TasksMax=") && !done.err.contains("panicked"), "{}", done.err);
    }
    let planned = run(1, "run nop --in lan=a.pcap --workers 2 --strategy lock").unwrap().expect(8);
    planned.says("no thread for the analysis").says("`ulimit -u`");
    // One of many: those that are there do not wait for it.
    let many = run(9, "run nop --in lan=a.pcap --workers 64").unwrap().expect(4);
    many.says("no thread for each worker");
}
