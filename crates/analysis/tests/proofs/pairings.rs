//! Keys of a map and objects of an allocator that go in pairs.

use anabranch_analysis::Paths;

use crate::{drops, explored, refused};

const SMALL: &str = r"#[network_function(ports(lan, wan))]
pub mod small {
    pub enum Reason { Full }
    pub struct Small {
        #[capacity(8)]
        seen: Map<Ipv4Addr, u64>,
        #[capacity(8)]
        #[expired(gone)]
        looks: Allocator<Ipv4Addr>,
    }
    impl Small {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Forward(WAN) };
            let (host, other) = (ip.src(), ip.dst());
            if self.seen.contains(&host) {
                self.seen.insert(host, cx.now());
                return Forward(WAN);
            }
            let Some(look) = self.looks.allocate(host, 9, cx) else { return Flood };
            if !self.seen.insert(host, cx.now()) {
                self.looks.free(look);
                return Drop(Reason::Full);
            }
            Forward(WAN)
        }
        fn gone(&mut self, index: u32, host: Ipv4Addr, cx: &mut Context) {
            let Some(at) = self.seen.get(&host) else { return };
            if cx.now() - at < 9 {
                self.looks.allocate_at(index, host, 9, cx);
                return;
            }
            self.seen.remove(&host);
        }
    }
}
";

fn proved(found: &Paths) -> Vec<String> {
    found.pairings.iter().map(ToString::to_string).collect()
}

#[test]
fn what_goes_in_pairs_has_room_and_is_there() {
    let found = explored(SMALL);
    assert_eq!(proved(&found), ["`seen` has a key where `looks` has an object: `it = key`"]);
    assert_eq!(drops(&found), Vec::<&str>::new(), "{}", found.to_text());
    let of_gone = found.paths.iter().filter(|path| path.handler.starts_with("gone")).count();
    assert_eq!(of_gone, 2, "the key is there, and the index can be had again: {}", found.to_text());
}

#[test]
fn what_has_more_objects_than_places_may_be_full() {
    let found = explored(&SMALL.replacen("#[capacity(8)]", "#[capacity(7)]", 1));
    assert_eq!(proved(&found).len(), 1);
    assert_eq!(drops(&found), ["full"]);
}

/// Each of these leaves a key without its object, or an object without its key.
#[test]
fn what_is_broken_anywhere_is_refused() {
    let wrong = [
        ("a key that stays", "self.seen.remove(&host);", ""),
        ("an object that stays", "                self.looks.free(look);\n", ""),
        ("another's object", "allocate(host, 9, cx)", "allocate(other, 9, cx)"),
        ("another's key", "if !self.seen.insert(host, cx", "if !self.seen.insert(other, cx"),
        (
            "another's key is removed",
            "self.seen.insert(host, cx.now());",
            "self.seen.remove(&other);",
        ),
        ("its key is removed", "self.seen.insert(host, cx.now());", "self.seen.remove(&host);"),
        ("a key alone", "self.seen.insert(host, cx.now());", "self.seen.insert(other, 7);"),
        ("two objects of a key", "if self.seen.contains(&host)", "if self.seen.contains(&other)"),
        ("an index that is another's", "allocate_at(index, ", "allocate_at(index + 1, "),
        ("another is freed", "self.looks.free(look);", "self.looks.free(look + 1);"),
        (
            "the object is changed",
            "return Forward(WAN);",
            "self.looks.set(7, other); return Flood;",
        ),
    ];
    refused(SMALL, &wrong, proved);
}
