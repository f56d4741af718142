//! What the program says of itself.

use anabranch_nf::Builtin;
use anabranch_packet::Malformed;

use crate::Bench;

#[test]
fn functions_are_listed_and_described() {
    let bench = Bench::new();
    let list = bench.run("nfs").expect(0).out;
    for name in
        ["nop", "policer", "bridge", "firewall", "nat", "lb", "anti-ddos", "portscan", "synthetic"]
    {
        assert!(list.lines().any(|line| line.starts_with(name)), "{name} in\n{list}");
        let text = bench.run(&format!("nfs {name}")).expect(0).out;
        assert!(text.contains("Ports:") && text.contains("Workers:"), "{text}");
    }
    let lb = bench.run("nfs lb").expect(0).out;
    for part in ["Settings:", "Drop reasons:", "Commands:", "default"] {
        assert!(lb.contains(part), "{part} in\n{lb}");
    }
    // What stands in each table of a list: type, limits, default.
    for part in [
        "- protocol (one of tcp, udp; default \"tcp\")",
        "- port (integer, at least 1; must be given)",
    ] {
        assert!(lb.contains(part), "{part} in\n{lb}");
    }
    for (name, routes) in [("router", true), ("nat", true), ("firewall", false)] {
        let text = bench.run(&format!("nfs {name}")).expect(0).out;
        assert_eq!(text.contains("\n  neighbours"), routes, "{text}");
    }
    assert!(list.lines().chain(lb.lines()).all(|line| line.chars().count() <= 80), "{list}{lb}");
}

/// The pages name every drop reason, exit code and key of generated traffic that the program knows.
#[test]
fn the_documents_name_what_there_is() {
    let page =
        |name: &str| std::fs::read_to_string(crate::checkout().join("docs").join(name)).unwrap();
    let (report, run) = (page("report.md"), page("run.md"));
    let reasons = Builtin::ALL.iter().map(|reason| reason.as_str());
    for word in reasons.chain(Malformed::ALL.iter().map(|reason| reason.as_str())) {
        assert!(report.contains(&format!("| `{word}` |")), "{word} in docs/report.md");
    }
    let bench = Bench::new();
    let help = bench.run("--help").expect(0).out;
    let codes = help.lines().skip_while(|line| *line != "Exit codes:").skip(1);
    for code in codes.filter_map(|line| line.split_whitespace().next()) {
        assert!(report.contains(&format!("| {code} |")), "exit code {code} in docs/report.md");
    }
    let help = bench.run("traffic --help").expect(0).out;
    let words = help.split_whitespace().filter(|word| !word.contains(','));
    let keys: Vec<_> = words.filter_map(|word| word.split_once('=')).map(|(key, _)| key).collect();
    assert!(keys.len() > 15, "{keys:?}");
    for key in keys.iter().filter(|key| !key.contains('[')) {
        assert!(run.contains(&format!("`{key}=")), "{key} in docs/run.md");
    }
}

#[test]
fn help_names_the_exit_codes() {
    let help = Bench::new().run("--help").expect(0).out;
    assert!(help.contains("Exit codes:") && help.contains("link type"), "{help}");
    assert!(help.starts_with("Runs network functions"), "{help}");
}

#[test]
fn shells_complete_the_subcommands() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = bench.run(&format!("completions {shell}")).expect(0).out;
        assert!(script.contains("traffic"), "{shell}");
    }
    // Of what stands in their place bash and zsh know all there is, fish what follows an option.
    for (shell, names) in [
        ("bash", &["bridge-static", "gvnic"][..]),
        ("zsh", &["bridge-static", "gvnic"]),
        ("fish", &["gvnic"]),
    ] {
        let script = bench.run(&format!("completions {shell}")).expect(0).out;
        for name in names {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
}

#[test]
fn there_is_a_manual_page_for_each_subcommand() {
    let bench = Bench::new();
    let version = env!("CARGO_PKG_VERSION");
    for (page, name) in
        [("", "anabranch"), (" run", "anabranch-run"), (" rss key", "anabranch-rss-key")]
    {
        let text = bench.run(&format!("man{page}")).expect(0).out;
        assert!(text.contains(&format!(".TH {name} 1  \"anabranch {version}\"")), "{text}");
    }
    bench.run("man rss fly").expect(2).says("no subcommand `fly`: see `anabranch rss --help`");
    bench.run("man --out pages").expect(0);
    let pages = std::fs::read_dir(bench.path("pages")).unwrap().count();
    assert_eq!(pages, 23);
    let page = std::fs::read_to_string(bench.path("pages/anabranch-state.1")).unwrap();
    assert!(page.contains(&format!("\"anabranch {version}\"")), "{page}");
    for nested in ["rss-key", "rss-check", "rss-nics", "state-show"] {
        assert!(bench.path(&format!("pages/anabranch-{nested}.1")).is_file(), "{nested}");
    }
}

#[test]
fn the_page_on_call_paths_shows_what_is_printed() {
    let page = std::fs::read_to_string(crate::checkout().join("docs/paths.md")).unwrap();
    let shown = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let printed = Bench::new().run("paths bridge-static").expect(0).out;
    assert!(printed.starts_with(shown), "docs/paths.md shows\n{shown}\nand printed is\n{printed}");
}
