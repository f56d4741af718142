//! What a path knows of an entry once it has written one that may be the same: parts that the write leaves.

use crate::{drops, explored};

const SLOTS: &str = r"#[network_function(ports(lan, wan))]
pub mod small {
    pub struct Settings {}
    pub enum Reason { Changed, More, Gone }
    pub struct Slot { round: u16, count: u32, next: Option<u16> }
    pub struct Small {
        settings: Settings,
        #[capacity(100)]
        slots: Vector<Slot>,
    }
    impl Small {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let (Some(from), Some(to)) = (pkt.src_port(), pkt.dst_port()) else { return Forward(WAN) };
            let (from, to) = (u32::from(from), u32::from(to));
            let before = self.slots.read(to);
            self.slots.update(from, |slot| slot.count = slot.count.wrapping_add(1));
            self.slots.update(from, |slot| slot.count = slot.count.wrapping_add(2));
            let after = self.slots.read(to);
            if after.round != before.round || after.next != before.next {
                return Drop(Reason::Changed);
            }
            if after.count != before.count {
                return Drop(Reason::More);
            }
            Forward(WAN)
        }
    }
}
";

#[test]
fn what_a_write_leaves_as_it_was_is_so_of_whatever_entry_it_is() {
    assert_eq!(drops(&explored(SLOTS)), ["more"]);
    let replaced = SLOTS.replacen(
        "self.slots.update(from, |slot| slot.count = slot.count.wrapping_add(1));",
        "let slot = self.slots.read(from);
         self.slots.write(from, Slot { count: 7, ..slot });",
        1,
    );
    assert_ne!(replaced, SLOTS);
    assert_eq!(drops(&explored(&replaced)), ["more"]);
}

#[test]
fn what_a_write_may_change_is_not() {
    for instead in [
        "self.slots.update(from, |slot| slot.round = slot.round.wrapping_add(1));",
        "self.slots.update(from, |slot| slot.next = Some(3));",
        "let slot = self.slots.read(to);
         self.slots.write(from, Slot { count: 7, ..slot });",
        "self.slots.write(from, Slot { round: 0, count: 0, next: None });",
    ] {
        let first = "self.slots.update(from, |slot| slot.count = slot.count.wrapping_add(1));";
        let text = SLOTS.replacen(first, instead, 1);
        assert_ne!(text, SLOTS);
        assert_eq!(drops(&explored(&text)), ["changed", "more"], "{instead}");
    }
}

#[test]
fn what_a_write_leaves_is_so_of_an_entry_that_is_one_of_two() {
    let read = "let before = self.slots.read(to);";
    let of_two = "let (one, other) = (self.slots.read(0), self.slots.read(1));
        let is_first = one.count < other.count;
        let to: u16 = if is_first { 0 } else { 1 };
        let to = u32::from(to);
        let before = if is_first { one } else { other };";
    let text = SLOTS.replacen(read, of_two, 1);
    assert_ne!(text, SLOTS);
    assert_eq!(drops(&explored(&text)), ["more"]);
    let the_other = of_two.replacen("{ one } else { other }", "{ other } else { one }", 1);
    let text = SLOTS.replacen(read, &the_other, 1);
    assert_eq!(drops(&explored(&text)), ["changed", "more"]);
}

const HOSTS: &str = r"#[network_function(ports(lan, wan))]
pub mod small {
    pub struct Settings {}
    pub enum Reason { Changed, More, Gone }
    pub struct Host { since: u64, count: u32 }
    pub struct Small {
        settings: Settings,
        #[capacity(100)]
        hosts: Map<Ipv4Addr, Host>,
    }
    impl Small {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Forward(WAN) };
            let (from, to) = (ip.src(), ip.dst());
            let Some(before) = self.hosts.get(&to) else {
                self.hosts.insert(to, Host { since: cx.now(), count: 0 });
                return Forward(WAN);
            };
            self.hosts.update(&from, |host| host.count += 1);
            let Some(after) = self.hosts.get(&to) else { return Drop(Reason::Gone) };
            if after.since != before.since {
                return Drop(Reason::Changed);
            }
            if after.count != before.count {
                return Drop(Reason::More);
            }
            Forward(WAN)
        }
    }
}
";

#[test]
fn an_entry_that_is_changed_stays() {
    assert_eq!(drops(&explored(HOSTS)), ["more"]);
    for (instead, found) in [
        ("self.hosts.remove(&from);", &["changed", "gone", "more"][..]),
        ("self.hosts.insert(from, Host { since: 0, count: 0 });", &["changed", "gone", "more"]),
        ("self.hosts.update(&from, |host| host.since += 1);", &["changed"]),
    ] {
        let text = HOSTS.replacen("self.hosts.update(&from, |host| host.count += 1);", instead, 1);
        assert_ne!(text, HOSTS);
        assert_eq!(drops(&explored(&text)), found, "{instead}");
    }
}
