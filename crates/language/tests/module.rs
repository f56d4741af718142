//! What a module declares, read from its text as analysis reads it.

use anabranch_language::{
    KeyField, Module, Packets, Ports, Protocol, SettingType, StateKind, opaque,
};

const FIRST_LINE: u32 = 100;

const TEXT: &str =
    "#[network_function(ports(lan, wan), layer = 2)] /** Translates. */ pub mod nat {
    pub struct Settings {
        /// Sessions at once.
        #[setting(default = 65_536, min = 1)]
        pub sessions: u32,
        pub mode: Mode,
        #[setting(default = [])]
        pub backends: List<Backend>,
    }
    pub enum Mode { Strict, Loose }
    pub struct Backend { address: Ipv4Addr }
    pub enum Reason { OverQuota, TableFull }
    pub enum Command { AddBackend { address: Ipv4Addr }, Clear }
    #[packet_set(tcp(ip.dst, ip.src, tcp.src, tcp.dst), ipv6(ipv6.dst, ipv6.src), bidirectional,
        port = wan, capacity = settings.sessions, expires_s = 60)]
    pub struct Session { packets: u64 }
    const LIMIT: u32 = 5;
    fn check(settings: &Settings) -> Result<(), &'static str> { Ok(()) }
    fn both(a: u64, b: u64) -> u64 { a + b }
    pub struct Nat {
        settings: Settings,
        #[capacity(settings.sessions)]
        table: Map<u32, u64>,
        #[capacity(LIMIT)]
        #[expired(gone)]
        ports: Allocator<()>,
        #[merge(both)]
        #[staleness_ms(5)]
        load: Distributed<u64>,
    }
    impl Nat {
        fn init(&mut self, cx: &mut Context) { self.table.insert(1, 2); }
        fn packet(&mut self, set: &mut Session, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            self.count();
            Forward(WAN)
        }
        fn count(&self) -> u64 { self.load.read() }
        #[every_ms(20)]
        fn periodic(&mut self, cx: &mut Context) {}
        fn gone(&mut self, index: u32, object: (), cx: &mut Context) {}
        fn control(&mut self, command: Command, cx: &mut Context) -> Result<(), &'static str> { Ok(()) }
    }
}";

fn module(text: &str) -> Module {
    match Module::from_source(text, FIRST_LINE) {
        Ok(module) => module,
        Err(problems) => panic!("{problems:?}"),
    }
}

#[test]
fn declarations_are_read() {
    let module = module(TEXT);
    assert_eq!((module.ident.to_string(), module.docs.as_str()), ("nat".into(), "Translates."));
    let Ports::Named(ports) = &module.ports else { panic!() };
    assert_eq!(ports.len(), 2);
    assert_eq!(module.packets, Packets::Frames);
    let constants = module.port_constants();
    assert_eq!((constants[1].0.to_string(), constants[1].1), ("WAN".into(), 1));
    let settings = &module.settings.as_ref().unwrap().fields;
    assert_eq!(settings[0].docs, "Sessions at once.");
    assert!(settings[0].default.is_some() && settings[0].min.is_some());
    assert!(matches!(settings[0].kind, SettingType::Integer { bits: 32, signed: false }));
    assert!(matches!(settings[1].kind, SettingType::Enum(_)) && settings[1].default.is_none());
    let SettingType::List(element) = &settings[2].kind else { panic!() };
    assert!(matches!(&**element, SettingType::Struct(name) if name == "Backend"));
    assert_eq!(module.setting_structs.len(), 1);
    assert_eq!(module.reasons.as_ref().unwrap().variants[1].text, "table-full");
    let commands = &module.commands.as_ref().unwrap().variants;
    assert_eq!((commands[0].text.as_str(), commands[0].fields.len()), ("add-backend", 1));
    assert!(module.handlers.init && module.handlers.packet && module.handlers.check);
    assert_eq!(module.handlers.periodic.map(|periodic| periodic.every_ms), Some(20));
    assert!(!module.handlers.orphan);
}

#[test]
fn packet_sets_and_state_are_read() {
    let module = module(TEXT);
    let set = module.packet_set.as_ref().unwrap();
    assert!(set.bidirectional && set.port.as_ref().is_some_and(|port| port == "wan"));
    let [tcp, ipv6] = set.keys.as_slice() else { panic!() };
    use KeyField::{DstAddress, DstPort, SrcAddress, SrcPort};
    assert_eq!(tcp.fields, [SrcAddress, DstAddress, SrcPort, DstPort]);
    assert_eq!((tcp.protocol, tcp.ipv4, tcp.ipv6, tcp.line), (Protocol::Tcp, true, true, 113));
    assert_eq!((ipv6.ipv4, ipv6.fields.len(), set.line), (false, 2, 115));
    let kinds: Vec<&str> = module.nf.fields.iter().map(|field| field.kind.name()).collect();
    assert_eq!(kinds, ["Settings", "Map", "Allocator", "Distributed"]);
    let ports = module.state("ports").unwrap();
    assert!(ports.expired.as_ref().is_some_and(|name| name == "gone") && ports.line == 125);
    assert!(matches!(&ports.kind, StateKind::Allocator(_)) && ports.capacity.is_some());
    let staleness = module.state("load").unwrap().staleness_ms.as_ref();
    assert!(matches!(staleness, Some(syn::Expr::Lit(_))), "{staleness:?}");
}

#[test]
fn code_is_found_on_its_line() {
    let module = module(TEXT);
    let packet = module.nf_method("packet").unwrap();
    assert_eq!(module.line(packet.sig.ident.span()), 132);
    assert_eq!(module.line(module.fn_named("both").unwrap().sig.ident.span()), 118);
    assert!(module.method("Nat", "count").is_some() && module.method("Backend", "count").is_none());
    assert!(module.const_named("LIMIT").is_some() && module.enum_named("Mode").is_some());
    assert!(module.struct_named("Session").is_some() && module.struct_named("Nat").is_none());
}

#[test]
fn text_that_is_no_module_is_refused_by_line() {
    for (text, words) in [
        ("pub mod m {}", "write it above the module"),
        ("#[network_function(ports(a))] pub mod m;", "has its code in it"),
        ("#[network_function(ports(a))] pub mod m { fn }", "expected identifier"),
        ("", "unexpected end of input"),
    ] {
        let Err(problems) = Module::from_source(text, 7) else { panic!("{text}") };
        assert_eq!(problems[0].line, 7);
        assert!(problems[0].message.contains(words), "{problems:?}");
    }
}

#[test]
fn what_opaque_declares_is_below_a_parameter_of_the_same_type() {
    let of = |attribute: &str, result: &str| {
        let text = TEXT.replace(
            "    fn both(",
            &format!("#[{attribute}] fn at(word: u64, most: u32) -> {result} {{ 0 }}\nfn both("),
        );
        assert_ne!(text, TEXT);
        Module::from_source(&text, 100)
    };
    let declared = |attribute: &str| {
        let module = of(attribute, "u32").unwrap();
        let item = module.fn_named("at").unwrap();
        opaque(&item.attrs, &item.sig).map(|declared| declared.below)
    };
    assert_eq!(declared("cold"), None);
    assert_eq!(declared("opaque"), Some(None));
    assert_eq!(declared("opaque(below = most)"), Some(Some(1)));
    for (attribute, result, words) in [
        ("opaque(below = least)", "u32", "`least` is no parameter: write"),
        ("opaque(below = 10)", "u32", "the limit is no parameter: write"),
        ("opaque(below = word)", "u32", "are not unsigned and of one type: write"),
        ("opaque(below = most)", "bool", "are not unsigned and of one type: write"),
        ("opaque(above = most)", "u32", "declares nothing: write"),
        ("opaque()", "u32", "declares nothing: write `#[opaque]`, or `#[opaque(below = limit)]`"),
        ("opaque] #[opaque", "u32", "a second `#[opaque]`"),
    ] {
        let Err(problems) = of(attribute, result) else { panic!("{attribute}") };
        assert!(problems[0].message.contains(words), "{problems:?}");
    }
    let method =
        "impl Key { #[opaque(below = most)] fn at(self, most: u32) -> u32 { 0 } }\nfn both(";
    let Err(problems) = Module::from_source(&TEXT.replace("fn both(", method), 100) else {
        panic!("of a method")
    };
    let told = problems.iter().any(|it| it.message.contains("declared of a method's result"));
    assert!(told, "{problems:?}");
}

#[test]
fn an_address_without_quotes_is_said_to_need_them() {
    let of = |kind: &str, value: &str| {
        let text = TEXT.replace(
            "    pub struct Settings {\n",
            &format!("    pub struct Settings {{\n#[setting(default = {value})] pub at: {kind},\n"),
        );
        assert_ne!(text, TEXT);
        Module::from_source(&text, 100)
    };
    for (kind, value) in [
        ("Ipv4Addr", "10.0.0.1"),
        ("Ipv6Addr", "2001:db8::1"),
        ("Ipv6Addr", "fe80::1"),
        ("MacAddr", "02:00:00:00:00:01"),
        ("List<Ipv4Addr>", "[10.0.0.1, 10.0.0.2]"),
        ("List<Ipv6Addr>", "[::1]"),
    ] {
        let Err(problems) = of(kind, value) else { panic!("{value}") };
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert!(problem.message.contains("write `\"192.0.2.1\"`"), "{problem:?}");
    }
    for (kind, value) in [
        ("Ipv4Addr", "\"10.0.0.1\", "),
        ("Ipv4Addr", "Ipv4Addr::new(10, 0, 0, 1)"),
        ("List<Ipv4Addr>", "[]"),
        ("MacAddr", "\"02:00:00:00:00:01\""),
    ] {
        of(kind, value).unwrap_or_else(|problems| panic!("{value} {problems:?}"));
    }
}

#[test]
fn commands_have_a_handler() {
    let control =
        "fn control(&mut self, command: Command, cx: &mut Context) -> Result<(), &'static str>";
    let text = TEXT.replace(&format!("{control} {{ Ok(()) }}"), "");
    assert_ne!(text, TEXT);
    let Err(problems) = Module::from_source(&text, FIRST_LINE) else { panic!("accepted") };
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    let words = format!("`Nat` has no handler `control`: write `{control} {{ … }}` in `impl Nat`");
    assert_eq!(problem.message, words);
}

/// Handlers of the set are right: they are not told for what is wrong with its attribute.
#[test]
fn a_wrong_packet_set_is_told_alone() {
    for (wrong, words) in [
        ("expires_s = 60, tpc(ip.src)", "no protocol or argument `tpc`"),
        ("expires_s = 60, tcp(ip.scr)", "`ip.scr` is no field of this key list"),
        ("", "no `expires_s`"),
    ] {
        let text = TEXT.replace("expires_s = 60", wrong);
        assert_ne!(text, TEXT);
        let Err(problems) = Module::from_source(&text, FIRST_LINE) else { panic!("{wrong}") };
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert!(problem.message.contains(words), "{problem:?}");
    }
}

#[test]
fn fields_that_can_be_read_only_are_told_with_those_that_can_be_set() {
    for (header, setter, words) in [
        (
            "ipv4",
            "set_total_len(20)",
            "the header field `total_len` can be read only: these can be set: of `ipv4` `src dst ttl dscp ecn`",
        ),
        (
            "arp",
            "set_operation(1)",
            "`operation` can be read only: these can be set: of `arp` nothing",
        ),
        ("tcp", "set_syn(true)", "of `tcp` `src dst sequence acknowledgement window mss`"),
        ("ipv4", "set_flavour(1)", "the method `set_flavour` is not in the language"),
    ] {
        let set =
            format!("if let Some(mut it) = pkt.{header}_mut() {{ it.{setter}; }} self.count();");
        let text = TEXT.replace("self.count();", &set);
        assert_ne!(text, TEXT);
        let Err(problems) = Module::from_source(&text, FIRST_LINE) else { panic!("{setter}") };
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert!(problem.message.contains(words), "{problem:?}");
    }
    // A context has no header fields.
    let text = TEXT.replace("self.count();", "cx.set_kind(1); self.count();");
    let Err(problems) = Module::from_source(&text, FIRST_LINE) else { panic!("cx.set_kind") };
    assert!(problems[0].message.contains("the method `set_kind` is not in the language"));
}
