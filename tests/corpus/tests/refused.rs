//! What the language refuses: each case must be refused at its line, with what to write instead.

use anabranch_language::Module;
use anabranch_nf::DropReason;

/// One case: where the code stands, the code, the offset of the line refused, and words of the
/// message that say what to write.
struct Case(Place, &'static str, u32, &'static str);

/// Where a case's code stands in its module.
#[derive(Clone, Copy)]
enum Place {
    /// Among the items.
    Item,
    /// In the body of `packet`.
    Body,
    /// Among the fields of the NF struct.
    Field,
}
use Place::{Body, Field, Item};

/// The module around a case, and the line of the author's file on which the case's code starts.
fn module(place: Place, code: &str) -> (String, u32) {
    let part = |wanted: Place, otherwise: &str| match wanted as u8 == place as u8 {
        true => format!("\n{code}\n"),
        false => otherwise.to_owned(),
    };
    let (item, field, body) = (part(Item, ""), part(Field, ""), part(Body, ""));
    let text = format!(
        "#[network_function(ports(lan, wan))] pub mod case {{ pub struct Settings {{ pub n: u32 }} \
         pub enum Reason {{ Bad }} \
         pub struct Nf {{ settings: Settings, #[capacity(settings.n)] table: Map<u32, u64>, {field} }} \
         {item} \
         impl Nf {{ fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {{ \
         let x: u32 = 5; let y: u64 = 7; let o: Option<u32> = None; {body} Forward(WAN) }} }} }}"
    );
    (text, FIRST_LINE + 1)
}

const FIRST_LINE: u32 = 41;

const ITEMS: &[Case] = &[
    Case(Item, "use std::collections::HashMap;", 0, "the module sees the prelude"),
    Case(Item, "static mut COUNT: u32 = 0;", 0, "a field of the network function: `Cell<T>`"),
    Case(Item, "mod inner {}", 0, "write its items in this module"),
    Case(Item, "trait Shape { fn area(&self) -> u32; }", 0, "write methods in `impl Type { … }`"),
    Case(
        Item,
        "struct P { a: u8 }\nimpl Clone for P { fn clone(&self) -> P { P { a: 1 } } }",
        1,
        "zero values, copies and `==` are given",
    ),
    Case(Item, "type Flow = (u32, u16);", 0, "write the type itself, or a struct"),
    Case(Item, "union Bits { a: u32, b: i32 }", 0, "write an enum, and `to_be_bytes`"),
    Case(Item, "macro_rules! twice { ($x:expr) => { $x + $x } }", 0, "write a function"),
    Case(Item, "extern crate std;", 0, "the prelude and its own items"),
    Case(Item, "extern \"C\" { fn getpid() -> i32; }", 0, "the prelude and its own items"),
    Case(Item, "unsafe fn f() {}", 0, "write safe code"),
    Case(Item, "async fn f() {}", 0, "`cx.set_timer` to come back later"),
    Case(Item, "const fn f() -> u32 { 1 }", 0, "write a plain `fn`"),
    Case(Item, "extern \"C\" fn f() {}", 0, "write a plain `fn`"),
    Case(Item, "#[derive(Debug)]\nstruct P { a: u8 }", 0, "every struct and enum is `Copy`"),
    Case(Item, "#[cfg(test)]\nfn f() {}", 0, "make it a setting"),
    Case(Item, "#[inline(always)]\nfn f() {}", 0, "everything is inlined"),
    Case(Item, "struct P { ratio: f64 }", 0, "write a ratio as two integers"),
    Case(Item, "struct P { name: String }", 0, "write a byte string"),
    Case(Item, "struct P { list: Vec<u8> }", 0, "write an array `[T; N]`"),
    Case(Item, "struct P { next: Box<u8> }", 0, "structs and enums are copied"),
    Case(Item, "struct P { lock: Mutex<u8> }", 0, "nothing else is shared"),
    Case(Item, "struct P { count: AtomicU64 }", 0, "`Counter` or `Cell<T>`"),
    Case(Item, "struct P { c: RefCell<u8> }", 0, "the state object `Cell<T>`"),
    Case(Item, "struct P { c: std::cell::Cell<u8> }", 0, "write the prelude's name itself"),
    Case(Item, "struct P { c: Sender<u8> }", 0, "a `Command` to receive one"),
    Case(Item, "struct P { at: Instant }", 0, "write `cx.now()`"),
    Case(Item, "struct P { m: HashMap<u8, u8> }", 0, "`Map<K, V>`"),
    Case(Item, "struct P { m: Map<u8, u8> }", 0, "move the field there"),
    Case(Item, "struct P { r: &'static u8 }", 0, "values are copied"),
    Case(Item, "struct P { p: *const u8 }", 0, "write a reference, or an index"),
    Case(Item, "struct P { f: fn(u8) -> u8 }", 0, "pass a closure, or an enum and a `match`"),
    Case(Item, "struct P { c: char }", 0, "write a byte"),
    Case(Item, "struct P { r: Result<u8, u8> }", 0, "write an enum, or `Option`"),
    Case(Item, "struct P<A, B, C> { a: A, b: B, c: C }", 0, "write at most two"),
    Case(Item, "struct P<const N: usize> { a: [u8; N] }", 0, "write a `const` of the module"),
    Case(Item, "enum E { A = 3 }", 0, "gives the number with a `match`"),
    Case(Item, "fn f(x: &dyn Shape) {}", 0, "write an enum and a `match`"),
    Case(Item, "fn f(x: impl Copy) {}", 0, "a type parameter"),
    Case(Item, "fn f<T: Iterator>(x: T) {}", 0, "`Fn(…)` and `FnMut(…)` on functions"),
    Case(Item, "fn f<'a>(x: &'a u8) -> &'a u8 { x }", 0, "pass an index instead of a reference"),
    Case(Item, "fn f<T>(x: T) where T: Copy {}", 0, "where the parameter is declared"),
    Case(Item, "fn f(m: &mut Map<u8, u8>) {}", 0, "pass the values it holds"),
    Case(Item, "fn f(name: &str) {}", 0, "`&[u8]` for bytes"),
    Case(Item, "fn f(pkt: Packet) {}", 0, "write `&mut Packet`"),
    Case(
        Item,
        "fn f(n: u32) -> u32 {\n  if n == 0 { 0 } else { f(n - 1) }\n}",
        1,
        "write a bounded loop",
    ),
    Case(
        Item,
        "fn f(n: u32) -> u32 { g(n) }\nfn g(n: u32) -> u32 { f(n) }",
        1,
        "write a bounded loop",
    ),
    Case(
        Item,
        "struct P { a: u8 }\nimpl P {\n fn again(&self) -> u8 { self.again() }\n}",
        2,
        "write a bounded loop",
    ),
    Case(
        Item,
        "struct P { a: u8 }\nimpl P {\n const Z: u8 = 0;\n}",
        2,
        "write a `const` of the module",
    ),
    Case(
        Item,
        "impl u32 { fn twice(self) -> u32 { self } }",
        0,
        "a struct or an enum of this module",
    ),
    Case(Item, "struct Cell { a: u8 }", 0, "another name"),
    Case(
        Item,
        "struct P { a: u8 }\nimpl P {\n fn clamp(self, low: u8, high: u8) -> u8 { self.a + low + high }\n}",
        2,
        "give the method another name",
    ),
    Case(
        Item,
        "impl Nf {\n fn pow(&self, exponent: u32) -> u32 { exponent }\n}",
        1,
        "give the method another name",
    ),
    Case(Item, "const RATE: f64 = 0.5;", 0, "write a ratio as two integers"),
    Case(Item, "const NAME: &str = \"x\";", 0, "write a byte string"),
];

const BODIES: &[Case] = &[
    Case(Body, "unsafe { f() };", 0, "write safe code"),
    Case(Body, "let z = 0.5;", 0, "write a ratio as two integers"),
    Case(Body, "let z = x as f32;", 0, "`as` is between integers"),
    Case(Body, "let z = 'c';", 0, "write a byte: `b'x'`"),
    Case(Body, "let z = \"text\";", 0, "write a byte string"),
    Case(Body, "let z = o.unwrap();", 0, "else { return Drop(reason) }"),
    Case(Body, "let z = o\n  .expect(\"some\");", 1, "else { return Drop(reason) }"),
    Case(Body, "panic!(\"no\");", 0, "return `Drop(reason)`"),
    Case(Body, "assert!(x > 1);", 0, "return `Drop(reason)`"),
    Case(Body, "println!(\"x\");", 0, "write `log!"),
    Case(Body, "let v = vec![1, 2];", 0, "write an array"),
    Case(Body, "let v = format!(\"{x}\");", 0, "write `log!`"),
    Case(Body, "let t = std::time::Instant::now();", 0, "write `cx.now()`"),
    Case(Body, "let t = SystemTime::now();", 0, "write `cx.now()`"),
    Case(Body, "let r = rand::random();", 0, "write `cx.random()`"),
    Case(Body, "std::thread::spawn(|| {});", 0, "run on all cores for you"),
    Case(Body, "let f = std::fs::File::open(\"x\");", 0, "settings for files"),
    Case(Body, "let m: Mutex<u32>;", 0, "nothing else is shared"),
    Case(Body, "let c = |a: u32| a + 1;", 0, "write a `fn`"),
    Case(
        Body,
        "let z;\nloop {\n if x > 3 { z = 3; break; }\n z = x;\n break;\n}\nlet w = z + 1;",
        2,
        "write `let mut z = …` with a value, or `let z = loop { … break value; }`",
    ),
    Case(Body, "let (a, b);\nloop { (a, b) = (x, y); break; }", 1, "write `let mut b = …`"),
    Case(Body, "let r = 0..5;", 0, "write `matches!(x, a..=b)`"),
    Case(Body, "let p = &raw const x;", 0, "write a reference"),
    Case(Body, "let f = async { 1 };", 0, "write sequential code"),
    Case(Body, "fn inner() {}", 0, "write it in the module"),
    Case(Body, "let a = x.clone();", 0, "values are copied"),
    Case(Body, "let a: u64 = x.into();", 0, "write `u32::from(x)`"),
    Case(Body, "let a = x.checked_mul(3);", 0, "widen first"),
    Case(Body, "for i in (0..5).rev() {}", 0, "let i = n - 1 - i;"),
    Case(Body, "let a = [1, 2].iter().max();", 0, "write a `for` loop"),
    Case(Body, "for a in [1u32, 2].iter().filter(|a| **a > 1) {}", 0, "write a `for` loop"),
    Case(Body, "let a = [1u32, 2].map(|a| a + 1);", 0, "write a `for` loop"),
    Case(Body, "let a = o.take();", 0, "write `None`"),
    Case(Body, "let mut a = [1, 2]; a.swap(0, 1);", 0, "write `(a[i], a[j]) = (a[j], a[i])`"),
    Case(Body, "let a: Ordering = y;", 0, "compare with `<`"),
    Case(Body, "let a = u32::from_str(x);", 0, "`u32::from_be_bytes`"),
    Case(Body, "let a = Ipv4Addr::LOCALHOST;", 0, "write `Ipv4Addr::new(127, 0, 0, 1)`"),
    Case(Body, "let a = Ipv6Addr::UNSPECIFIED;", 0, "write `Ipv6Addr::from(0u128)`"),
    Case(Body, "let a = Ipv4Addr::from_octets(y);", 0, "`Ipv4Addr::new`"),
    Case(Body, "let (sum, carry) = x.overflowing_add(5);", 0, "it has wrapped where `sum < a`"),
    Case(Body, "let z = x.overflowing_sub(5).1;", 0, "it has wrapped where `a < b`"),
    Case(Body, "let z = (x > 3).then(|| 5);", 0, "write `if condition { Some(value) } else"),
    Case(Body, "let mut a = [0u8; 4];\na.copy_from_slice(b\"GET \");", 1, "a[i] = b[i];"),
    Case(Body, "let m = pkt.tcp().map(|tcp| tcp.options());", 0, "the language page lists"),
    Case(Body, "self.count += 1;", 0, "`table`, or a state object of that name"),
    Case(Body, "let z = self.settings.n + self.seen;", 0, "the network function has no such field"),
    Case(Body, "let z = cx.time();", 0, "write one of `now`"),
    Case(Body, "let z = pkt.payload().get(2..4);", 0, "write `&bytes[from..to]`"),
    Case(Body, "let z = pkt.payload().ends_with(b\"x\");", 0, "write `&bytes[from..to]`"),
    Case(Body, "pkt.payload_mut()[0] = 3;", 0, "`cx.emit(port, bytes)`"),
    Case(Body, "let z = x.div_ceil(4);", 0, "write `(a + b - 1) / b`"),
    Case(Body, "let z = x.is_multiple_of(4);", 0, "write `a % b == 0`"),
    Case(Body, "let z = u8::try_from(x).unwrap_or(0);", 0, "write `x as u8` after a comparison"),
    Case(Body, "let z = u32::from_le_bytes([0; 4]);", 0, "(bytes).swap_bytes()`"),
    Case(
        Body,
        "let z = Ipv6Addr::new(1, 2, 3, 4, 5, 6, 7, 8);",
        0,
        "write `Ipv6Addr::from([0x2001",
    ),
    Case(Body, "log!(cx, \"x\");", 0, "write `log!(cx, info, \"text {}\", value)`"),
    Case(Body, "log!(info, \"x\");", 0, "write `log!(cx, info, \"text {}\", value)`"),
    Case(Body, "log!(cx, info, x);", 0, "write `log!(cx, info, \"text {}\", value)`"),
    Case(Body, "let s = self.settings;", 0, "write a reference: `&self.settings`"),
    Case(Body, "let s: Settings = self.settings;", 0, "write a reference: `&self.settings`"),
    Case(Body, "f(self.settings);", 0, "write a reference: `&self.settings`"),
    Case(Body, "let a = unknown;", 0, "an item of this module"),
    Case(Body, "let a = crate::secret();", 0, "an item of this module"),
    Case(Body, "let a = <u32 as Clone>::clone(&x);", 0, "`Type::function(…)`"),
    Case(Body, "#[allow(unused)]\nlet a = 1;", 0, "attributes stand on items only"),
    Case(Body, "let t = &mut self.table;", 0, "write the operation itself: `get`"),
    Case(Body, "self.table.entry(x);", 0, "write one of `get`, `contains`"),
    Case(Body, "self.table.get(&x, cx);", 0, "takes 1 arguments, not 2"),
    Case(Body, "self.settings.n = 3;", 0, "keep what changes in a `Cell<T>`"),
    Case(Body, "let Some(ref a) = o else { return Forward(LAN) };", 0, "values are copied"),
    Case(Body, "if let [a, b] = [1, 2] {}", 0, "write `a[0]`"),
    Case(Body, "let n = Nf { settings: 1 };", 0, "made from their `#[capacity]`"),
    Case(Body, "log!(cx, loud, \"x\");", 0, "error, warn, info, debug"),
    Case(Body, "log!(cx, info, \"{} {}\", x);", 0, "one value for each"),
    Case(Body, "log!(cx, info, \"{x}\");", 0, "write the value after the text"),
];

const FIELDS: &[Case] = &[
    Case(Field, "seen: u64,", 0, "write a state object"),
    Case(Field, "seen: Vec<u64>,", 0, "write a state object"),
    Case(Field, "seen: Arc<Mutex<u64>>,", 0, "write a state object"),
    Case(Field, "seen: Map<u32, u64>,", 0, "write `#[capacity(settings.seen)]`"),
    Case(Field, "seen: Distributed<u64>,", 0, "write `#[merge(function)]`"),
    Case(Field, "#[capacity(5)]\nseen: Counter,", 0, "leave it away"),
    Case(
        Field,
        "#[capacity(settings.n)]\n#[expired(gone)]\nseen: Allocator<u32>,",
        1,
        "write `fn gone(&mut self",
    ),
    Case(Field, "#[merge(add)]\nseen: Distributed<u64>,", 0, "write `fn add(a: T, b: T) -> T`"),
];

#[test]
fn every_forbidden_thing_is_refused_with_what_to_write() {
    let mut failures = Vec::new();
    let cases: Vec<&Case> = ITEMS.iter().chain(BODIES).chain(FIELDS).collect();
    for Case(place, code, offset, words) in &cases {
        let (text, line) = module(*place, code);
        match Module::from_source(&text, FIRST_LINE) {
            Ok(_) => failures.push(format!("accepted: {code}")),
            Err(problems) => {
                let line = line + offset;
                let right = |problem: &anabranch_language::Problem| {
                    problem.line == line && problem.message.contains(words)
                };
                if !problems.iter().any(right) {
                    failures.push(format!("{code}\n  wanted line {line}: {words}\n  {problems:?}"));
                }
            }
        }
    }
    assert!(cases.len() >= 100, "{} cases", cases.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_module_around_the_cases_is_accepted() {
    for place in [Item, Body, Field] {
        let (text, _) = module(place, "");
        if let Err(problems) = Module::from_source(&text, FIRST_LINE) {
            panic!("{problems:?}");
        }
    }
}

/// Whole modules that are refused, with the words and the line.
const MODULES: &[(&str, u32, &str)] = &[
    (
        "#[network_function(ports(lan))]\npub mod m {\n  fn f() {}\n}",
        2,
        "no network function struct",
    ),
    (
        "#[network_function(ports())]\npub mod m { struct N { c: Counter } }",
        1,
        "1 to 64 named ports",
    ),
    (
        "#[network_function(queues(2))]\npub mod m { struct N { c: Counter } }",
        1,
        "`ports(..)` for any number",
    ),
    (
        "#[network_function(ports(a, a))]\npub mod m { struct N { c: Counter } }",
        1,
        "each port its own name",
    ),
    (
        "#[network_function(ports(a), layer = 7)]\npub mod m { struct N { c: Counter } }",
        1,
        "`layer` is 2",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n  struct N { c: Counter }\n}",
        3,
        "write `fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n struct N { c: Counter }\n impl N {\n  fn packet(&mut self, pkt: Packet) {}\n }\n}",
        5,
        "write `fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict`",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n struct N { c: Counter }\n struct M { c: Counter }\n}",
        4,
        "move the field there",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n #[packet_set(tcp(ip.src), bidirectional, capacity = 1, expires_s = 1)]\n struct X { n: u8 }\n struct N { c: Counter }\n}",
        3,
        "source and destination both",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n #[packet_set(udp(tcp.src), capacity = 1, expires_s = 1)]\n struct X { n: u8 }\n struct N { c: Counter }\n}",
        3,
        "its fields are `ip.src",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n #[packet_set(udp(ip.src), expires_s = 1)]\n struct X { n: u8 }\n struct N { c: Counter }\n}",
        4,
        "no `capacity`",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n struct Settings {\n  #[setting(default = 1.5)]\n  x: u32 }\n struct N { settings: Settings }\n}",
        4,
        "write a ratio as two integers",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n struct Settings {\n  x: (u8, u8) }\n struct N { settings: Settings }\n}",
        4,
        "`List<T>`",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n struct Settings {\n  #[setting(default = \"300.0.0.1\")]\n  x: Ipv4Addr }\n struct N { settings: Settings }\n}",
        4,
        "write an address: `\"192.0.2.1\"`",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n struct Settings {\n  #[setting(default = 70_000)]\n  x: u16 }\n struct N { settings: Settings }\n}",
        4,
        "write at most 65535",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n struct Settings {\n  store: u32 }\n struct N { settings: Settings }\n}",
        4,
        "choose another name",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n struct Settings {\n  #[setting(default = 7)]\n  x: bool }\n struct N { settings: Settings }\n}",
        4,
        "write `true` or `false`",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n enum Reason { Bad(u8) }\n struct N { c: Counter }\n}",
        3,
        "reasons are counted by name",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n enum Reason {\n  Bad,\n  NoSuchPort }\n struct N { c: Counter }\n impl N { fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict { Flood } }\n}",
        5,
        "write `Drop(Builtin::NoSuchPort)`, or give the reason another name",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n enum Reason { TcpHeaderLength }\n struct N { c: Counter }\n impl N { fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict { Flood } }\n}",
        3,
        "give the reason another name",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n enum Reason {\n  OverQuota,\n  Over_Quota }\n struct N { c: Counter }\n impl N { fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict { Flood } }\n}",
        5,
        "another reason is counted as `over-quota` too",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n enum Command { Add(u8) }\n struct N { c: Counter }\n}",
        3,
        "`Variant { name: type }`",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n struct N { c: Counter }\n impl N {\n  fn periodic(&mut self, cx: &mut Context) {}\n }\n}",
        5,
        "write `#[every_ms(100)]`",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n struct N { c: Counter }\n impl N {\n  #[every_ms(5)]\n  fn report(&mut self, cx: &mut Context) {}\n }\n}",
        5,
        "`fn periodic(&mut self, cx: &mut Context)`: name it so",
    ),
    (
        "#[network_function(ports(a))]\npub mod m {\n struct N { c: Counter }\n impl N {\n  #[later]\n  fn report(&mut self, cx: &mut Context) {}\n }\n}",
        5,
        "here stand only doc comments, `#[opaque]`, `#[cold]`",
    ),
];

#[test]
fn every_wrong_declaration_is_refused_with_what_to_write() {
    let mut failures = Vec::new();
    for (text, line, words) in MODULES {
        match Module::from_source(text, 1) {
            Ok(_) => failures.push(format!("accepted: {text}")),
            Err(problems) => {
                let right = problems.iter().any(|p| p.line == *line && p.message.contains(words));
                if !right {
                    failures.push(format!("{text}\n  wanted line {line}: {words}\n  {problems:?}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_reasons_that_every_function_has_are_known_to_the_language() {
    use anabranch_language::names::{BUILTIN_REASONS, MALFORMED_REASONS};
    let known = BUILTIN_REASONS.iter().chain(MALFORMED_REASONS).copied();
    assert_eq!(known.collect::<Vec<_>>(), DropReason::words(&[]).collect::<Vec<_>>());
}

#[test]
fn all_problems_are_reported_at_once() {
    let (text, line) = module(Body, "let a = 0.5;\nlet b = o.unwrap();\nunsafe { };");
    let Err(problems) = Module::from_source(&text, FIRST_LINE) else { panic!("accepted") };
    let lines: Vec<u32> = problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [line, line + 1, line + 2]);
}
