//! Paths that need a number to be counted up for years.

use super::{drops, explored, refused};

const COUNTS: &str = r#"
#[network_function(ports(lan, wan))]
pub mod counts {
    pub struct Settings {
        #[setting(default = 2, max = 8)]
        pub times: u32,
    }
    pub enum Reason { Many, Full, Some }
    pub struct Counts {
        settings: Settings,
        #[capacity(16)]
        seen: Vector<u64>,
    }
    impl Counts {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Flood };
            let (a, b) = (u32::from(ip.src()) % 16, u32::from(ip.dst()) % 16);
            for _ in 0..self.settings.times {
                self.seen.update(a, |seen| *seen += 1);
            }
            let both = self.seen.read(a).wrapping_add(self.seen.read(b));
            if both == u64::MAX { return Drop(Reason::Full) }
            if self.seen.read(b) > 1_000_000 { return Drop(Reason::Many) }
            if self.seen.read(b) > 3 { return Drop(Reason::Some) }
            Forward(WAN)
        }
    }
}
"#;

/// They are listed, and told apart.
#[test]
fn what_takes_years_is_told_apart() {
    let found = explored(COUNTS);
    assert_eq!(drops(&found), ["full", "many", "some"]);
    let steps: Vec<String> = found.stepped.iter().map(ToString::to_string).collect();
    assert_eq!(steps, ["`seen`: `it` grows by one at a time"]);
    let far = found.paths.iter().filter(|path| found.distant.contains(&path.number));
    let far: Vec<_> = far.map(|path| found.verdict_of(path)).collect();
    let full = found.paths.iter().map(|path| found.verdict_of(path));
    let full: Vec<_> = full.filter(|verdict| verdict == "Drop(full)").collect();
    assert!(!far.is_empty());
    assert_eq!(far, full, "all of these, and no others");
}

/// A number that may grow faster, or begin anywhere, is no such.
#[test]
fn what_grows_otherwise_is_not() {
    let stepped = |found: &anabranch_analysis::Paths| {
        assert_eq!(found.distant.len(), 0);
        found.stepped.iter().map(ToString::to_string).collect()
    };
    refused(
        COUNTS,
        &[
            ("by more", "*seen += 1", "*seen += 2"),
            ("doubled", "*seen += 1", "*seen = seen.wrapping_mul(2)"),
            ("down from nothing", "*seen += 1", "*seen = seen.wrapping_sub(1)"),
            ("by what a packet says", "*seen += 1", "*seen += u64::from(ip.ttl())"),
            (
                "from what init leaves",
                "impl Counts {",
                "impl Counts {\nfn init(&mut self, cx: &mut Context) { self.seen.write(1, u64::MAX - 1); }",
            ),
        ],
        stepped,
    );
}

/// What a thorough look finds to be impossible whatever the numbers are takes no years: it never comes.
#[test]
fn what_no_number_brings_about_is_not() {
    let never = "let (x, y) = (self.seen.read(a) as u32, self.seen.read(b) as u32);
            if (x & y).wrapping_add(x | y) != x.wrapping_add(y) { return Drop(Reason::Never) }";
    let text = COUNTS.replace("Many, Full, Some", "Many, Full, Some, Never");
    let text = text.replace("if both == u64::MAX", &format!("{never}\nif both == u64::MAX"));
    let found = explored(&text);
    assert!(
        drops(&found).contains(&"never"),
        "too hard to rule out in passing: {}",
        found.to_text()
    );
    let far = found.paths.iter().filter(|path| found.distant.contains(&path.number));
    let far: Vec<_> = far.map(|path| found.verdict_of(path)).collect();
    assert!(!far.is_empty() && far.iter().all(|verdict| verdict == "Drop(full)"), "{far:?}");
}
