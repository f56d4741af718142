//! `anabranch plan`: text, JSON, a file that is edited and checked, a page.

use super::Bench;

const NAMES: [&str; 8] =
    ["strategy", "ports", "objects", "constraints", "differences", "solve_us", "total_ms", "nic"];

#[test]
fn every_function_has_a_plan_in_one_json_document() {
    let bench = Bench::new();
    for (nf, strategy) in [
        ("nop", "shared-nothing"),
        ("policer", "shared-nothing"),
        ("firewall", "shared-nothing"),
        ("bridge-static", "shared-nothing"),
        ("nat", "shared-nothing"),
        ("lb", "mixed"),
        ("bridge", "transactional"),
    ] {
        let plan = bench.run(&format!("plan {nf} --json")).expect(0).json();
        assert_eq!((plan["nf"].as_str(), plan["strategy"].as_str()), (Some(nf), Some(strategy)));
        assert!(NAMES.iter().all(|name| !plan[*name].is_null()), "{plan}");
        assert_eq!(
            plan["impossible"].is_null(),
            strategy != "transactional",
            "{}",
            plan["impossible"]
        );
        for port in plan["ports"].as_array().unwrap() {
            let key = port["key"].as_str().unwrap();
            assert!(key.len() == 104 && key.chars().all(|digit| digit.is_ascii_hexdigit()));
        }
    }
    assert!(bench.files().is_empty());
}

/// The table in the documents is what the command prints, but for the times.
#[test]
fn all_plans_are_a_table_that_stands_in_the_documents() {
    let bench = Bench::new();
    let printed = bench.run("plan --all").expect(0).out;
    let documents = include_str!("../../../../docs/plan.md");
    let untimed = |line: &str| line.rsplitn(4, '|').last().unwrap().to_owned();
    let documented: Vec<_> = documents.lines().filter(|line| line.starts_with('|')).collect();
    for line in printed.lines().map(untimed) {
        let is_documented = documented.iter().any(|known| untimed(known) == line);
        assert!(
            is_documented,
            "{line}\n`anabranch plan --all` prints what belongs in docs/plan.md"
        );
    }
    assert_eq!(printed.lines().count(), 2 + 15);
    bench.run("plan").expect(2);
    bench.run("plan nop --all").expect(2);
}

#[test]
fn without_a_solver_plans_are_made_and_say_so() {
    let bench = Bench::new();
    for (nf, strategy) in
        [("firewall", "shared-nothing"), ("nat", "shared-nothing"), ("lb", "mixed")]
    {
        let plan = bench.run_alone(&format!("plan {nf} --json")).expect(0).json();
        assert_eq!(plan["strategy"].as_str(), Some(strategy));
        assert!(plan["notes"].to_string().contains("z3 is not here"), "{}", plan["notes"]);
        let plan = bench.run(&format!("plan {nf} --json")).expect(0).json();
        assert!(!plan["notes"].to_string().contains("z3"), "{}", plan["notes"]);
    }
    bench.run_alone("paths firewall").expect(8).says("apt-get install z3");
    let few = "--packets 100 --seeds 1";
    bench.run_alone(&format!("verify bridge-static {few}")).expect(0).says("apt-get install z3");
    let traced = "trace bridge-static --in p0=gen:flows=1,packets=2 --count 1";
    let traced = bench.run_alone(traced).expect(0).says("call paths are not numbered: ");
    let traced = traced.says("apt-get install z3").shows("  packet\n");
    assert!(!traced.out.contains("(path "), "{}", traced.out);
}

#[test]
fn plans_are_files_that_are_checked() {
    let bench = Bench::new();
    let text = bench.run("plan policer --nic x710 -o plan.toml").expect(0).out;
    assert!(text.contains("wan.ip.dst = wan'.ip.dst"), "{text}");
    let checked = bench.run("plan policer --check plan.toml").expect(0).out;
    assert!(checked.contains("what must meet meets"), "{checked}");
    let plan = std::fs::read_to_string(bench.path("plan.toml")).unwrap();
    let edited = plan.replace("field = \"ipv4.dst\"", "field = \"ipv4.src\"");
    std::fs::write(bench.path("plan.toml"), edited).unwrap();
    let refused = bench.run("plan policer --check plan.toml").expect(3).err;
    assert!(refused.contains("must meet when wan.ipv4.dst = wan'.ipv4.dst"), "{refused}");
    for (from, to, why) in [
        ("nic = \"x710\"", "nic = \"82599\"", "has 52 bytes, and a NIC of model `82599` takes 40"),
        ("nic = \"x710\"", "nic = \"abacus\"", "no NIC model `abacus`"),
        ("seed = 1", "seed = 1\ncolour = 3", "unknown field `colour`"),
        ("place = \"ipv4.dst\"", "place = \"ipv4.dst\"\nplaces = 3", "unknown field `places`"),
    ] {
        let edited = plan.replace(from, to);
        assert_ne!(edited, plan, "{from}");
        std::fs::write(bench.path("edited.toml"), edited).unwrap();
        bench.run("plan policer --check edited.toml").expect(3).says(why);
    }
    bench.run("plan nat --check plan.toml").expect(3);
    // The file says what it is for.
    bench.run("plan policer --check plan.toml --nic x710").expect(2).says("--nic");
    bench.run("plan policer --check none.toml").expect(3);
}

#[test]
fn a_page_needs_nothing_but_itself() {
    let bench = Bench::new();
    bench.run("plan nat --html nat.html").expect(0);
    let page = std::fs::read_to_string(bench.path("nat.html")).unwrap();
    assert!(page.contains("Steered allocation") && page.contains("class=\"tree\""));
    let foreign = ["<script", "http://", "https://", "<link", "<img"];
    assert!(foreign.iter().all(|one| !page.contains(one)));
}

#[test]
fn what_cannot_be_planned_is_told() {
    let bench = Bench::new();
    let refused = bench.run("plan bridge --strategy shared-nothing").expect(8).err;
    assert!(refused.contains("no shared-nothing plan exists (lines"), "{refused}");
    let unknown = bench.run("plan nop --nic abacus").expect(2).err;
    assert!(unknown.contains("e810"), "{unknown}");
    bench.run("plan nothing").expect(7);
}

#[test]
fn no_line_ends_in_blanks() {
    let bench = Bench::new();
    for nf in ["nop", "policer", "nat", "router"] {
        let text = bench.run(&format!("plan {nf}")).expect(0).out;
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    }
}
