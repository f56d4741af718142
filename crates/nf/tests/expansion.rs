//! What `#[network_function]` expands to, written out by hand: the macro's model, and the proof
//! that the traits fit together. The NF is the `quota` of `docs/nf-language.md`, with a map and an
//! allocator added.
#![allow(missing_docs, clippy::unnecessary_cast, reason = "as the macro writes it")]

pub mod quota {
    #![allow(unused_imports, unused_variables, unused_mut, dead_code)]
    use anabranch_nf::prelude::*;
    use anabranch_nf::{self as nf, packet_set, settings as nf_settings, world};
    use nf_settings::Settings as _;

    pub const INSIDE: Port = Port::new(0);
    pub const OUTSIDE: Port = Port::new(1);

    #[derive(Clone, Debug)]
    pub struct Settings {
        pub packets: u64,
        pub sources: u32,
        pub timeout_s: u64,
    }

    impl nf_settings::Settings for Settings {
        fn schema() -> Vec<nf_settings::Setting> {
            vec![nf_settings::Setting {
                name: "packets",
                kind: <u64 as nf_settings::SettingType>::kind(),
                default: Some(nf_settings::SettingType::to_text(&(1_000 as u64))),
                min: Some(nf_settings::SettingType::to_text(&(1 as u64))),
                max: None,
                help: "Packets one source may send.",
                fields: Vec::new(),
            }]
        }
        fn take(fields: &mut nf_settings::Fields<'_>) -> Option<Self> {
            let packets = fields.take_within::<u64>("packets", Some(1_000), Some(1), None);
            let sources =
                fields.take_within::<u32>("sources", Some(65_536), Some(1), Some(16_777_216));
            let timeout_s = fields.take_within::<u64>("timeout_s", Some(60), Some(1), None);
            Some(Self { packets: packets?, sources: sources?, timeout_s: timeout_s? })
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Reason {
        OverQuota,
    }

    impl From<Reason> for nf::DropReason {
        #[inline(always)]
        fn from(reason: Reason) -> Self {
            Self::own(reason as u16)
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Source {
        sent: u64,
    }

    impl nf::Value for Source {
        const ADDRESSES: [Option<packet_set::OneAddress>; 2] =
            [Some(packet_set::OneAddress::Source(1)), Some(packet_set::OneAddress::Source(2))];
        const BITS: u32 = <u64 as nf::Value>::BITS;
        #[inline(always)]
        fn zero() -> Self {
            Self { sent: nf::Value::zero() }
        }
        #[inline(always)]
        fn pack(&self, pack: &mut nf::pack::Pack<'_>) {
            let Self { sent } = self;
            nf::Value::pack(sent, pack);
        }
        #[inline(always)]
        fn unpack(unpack: &mut nf::pack::Unpack<'_>) -> Self {
            Self { sent: nf::Value::unpack(unpack) }
        }
    }

    impl nf::Key for Source {
        #[inline(always)]
        fn fold(&self, fold: nf::Fold) -> nf::Fold {
            nf::Key::fold(&self.sent, fold)
        }
    }

    pub struct Quota<W: world::World = world::Solo> {
        settings: W::Fixed<Settings>,
        seen: W::Map<Ipv4Addr, u32>,
        slots: W::Allocator<Source>,
    }

    impl<W: world::World> Quota<W> {
        #[inline]
        fn packet<M: nf::packet::Mode>(
            &mut self,
            source: &mut Source,
            pkt: &mut Packet<'_, M>,
            cx: &mut Context<'_, W>,
        ) -> Verdict {
            source.sent += 1;
            if source.sent > self.settings.packets {
                return Drop(Reason::OverQuota);
            }
            if let Some(ip) = pkt.ipv4() {
                let key = ip.src();
                match self.seen.get(&key) {
                    Some(index) => {
                        self.slots.refresh(index, 1_000_000_000, cx);
                    }
                    None => {
                        if let Some(index) = self.slots.allocate(*source, 1_000_000_000, cx) {
                            self.seen.insert(key, index);
                        }
                    }
                }
            }
            Forward(pkt.port().other())
        }

        #[inline]
        fn slot_expired(&mut self, index: u32, object: Source, cx: &mut Context<'_, W>) {
            log!(cx, info, "slot {} expired after {} packets", index, object.sent);
        }
    }

    /// The type that names the NF to the runtime.
    pub type Function = Quota<world::Solo>;

    impl<W: world::World> nf::LookAhead for Quota<W> {
        #[inline(always)]
        fn look<M: nf::packet::Mode>(
            &mut self,
            packet: &mut Packet<'_, M>,
            environment: &mut nf::Environment,
        ) {
            const { assert!(W::HOLLOW && M::HOLLOW) };
            let mut set = <Source as nf::Value>::zero();
            let _ = self.packet(&mut set, packet, &mut Context::new(environment));
        }
    }

    impl nf::NetworkFunction for Quota<world::Solo> {
        const NAME: &'static str = "quota";
        const DOCS: &'static str = "Lets every source send a fixed number of packets.";
        const SOURCE: nf::Source =
            nf::Source { text: "", arguments: "ports(inside, outside)", file: file!(), line: 1 };
        const PORTS: &'static [&'static str] = &["inside", "outside"];
        const LAYER: u8 = 3;
        const REASONS: &'static [nf::Word] = &[nf::Word { name: "over-quota", help: "" }];
        const SET: Option<&'static str> = Some("Source");
        const OBJECTS: bool = true;
        const PERIOD_MS: u64 = 0;
        type Settings = Settings;
        type Set = Source;
        type Command = nf_settings::NoCommand;
        type Traced = Self;
        type Parallel = Self;
        type Profiled = Self;
        type Ahead<'a> = Quota<world::Prefetch<'a>>;
        type Beyond<'a> = Quota<world::Peek<'a>>;

        fn build(settings: Settings, builder: &mut nf::Builder) -> Result<Self, nf::BuildError> {
            Ok(Self {
                seen: builder.map("seen", (settings.sources) as u64)?,
                slots: builder.allocator("slots", (settings.sources) as u64)?,
                settings: world::Owned(settings),
            })
        }

        fn set_shape(&self) -> packet_set::SetShape {
            let settings = &*self.settings;
            packet_set::SetShape {
                capacity: settings.sources as u32,
                lifetime_ns: (settings.timeout_s as u64).saturating_mul(1_000_000_000),
            }
        }

        #[inline(always)]
        fn set_key<M: nf::packet::Mode>(packet: &Packet<'_, M>) -> packet_set::SetKey {
            if let Some(ip) = packet.ipv4() {
                let key = packet_set::SetKey4::new(ip.src(), Ipv4Addr::UNSPECIFIED, 0, 0, 1);
                return packet_set::SetKey::V4(key);
            }
            if let Some(ip) = packet.ipv6() {
                let key = packet_set::SetKey6::new(ip.src(), Ipv6Addr::UNSPECIFIED, 0, 0, 2);
                return packet_set::SetKey::V6(key);
            }
            packet_set::SetKey::None
        }

        #[inline(always)]
        fn packet<M: nf::packet::Mode>(
            &mut self,
            set: &mut Source,
            packet: &mut Packet<'_, M>,
            cx: &mut Context<'_, world::Solo>,
        ) -> Verdict {
            Quota::packet(self, set, packet, cx)
        }

        #[inline(always)]
        fn ahead(&self) -> Quota<world::Prefetch<'_>> {
            Quota {
                settings: &self.settings.0,
                seen: world::Fetched(&self.seen),
                slots: world::Fetched(&self.slots),
            }
        }

        #[inline(always)]
        fn beyond(&self) -> Quota<world::Peek<'_>> {
            Quota {
                settings: &self.settings.0,
                seen: world::Peeked(&self.seen),
                slots: world::Fetched(&self.slots),
            }
        }

        fn speculate<'a>(
            &'a self,
            set: &mut Source,
            packet: &mut Packet<'_>,
            environment: &mut nf::Environment,
            speculation: &world::Speculation<'a>,
        ) -> Verdict {
            let mut shared = Quota::<world::Speculative<'a, '_>> {
                settings: &self.settings.0,
                seen: world::Shared::new(&self.seen, speculation),
                slots: world::Shared::new(&self.slots, speculation),
            };
            shared.packet(set, packet, &mut Context::new(environment))
        }

        fn expire(&mut self, environment: &mut nf::Environment, mut budget: u32) -> bool {
            while let Some((index, object)) = self.slots.expire(environment, &mut budget) {
                self.slot_expired(index, object, &mut Context::new(environment));
            }
            budget > 0
        }

        fn tables(&self) -> Vec<nf::state::TableUse> {
            vec![
                nf::Occupancy::table_use(&self.seen, "seen"),
                nf::Occupancy::table_use(&self.slots, "slots"),
            ]
        }
    }
}

#[test]
fn the_expansion_runs() {
    use anabranch_nf::packet::{Frame, Meta, Packet, Port, parse};
    use anabranch_nf::settings::Settings as _;
    use anabranch_nf::{Builder, Context, Environment, NetworkFunction, Value, Verdict};

    let settings = quota::Settings::read(&"packets = 2".parse().unwrap()).unwrap();
    let mut nf =
        quota::Function::build(settings, &mut Builder::new(1, vec![], toml::Table::new())).unwrap();
    let mut environment = Environment::new(1);
    let mut set = quota::Source::zero();
    let mut verdicts = Vec::new();
    for number in 0..3 {
        let mut bytes = [0u8; 64];
        bytes[12] = 8;
        bytes[14..34]
            .copy_from_slice(&[0x45, 0, 0, 40, 0, 0, 0, 0, 64, 99, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let meta = Meta {
            arrival_ns: number << 31,
            number,
            wire_len: 64,
            port: Port::new(0),
            ..Meta::default()
        };
        let layout = parse(&bytes, 64);
        let mut frame = Frame::new(&mut bytes, 0, 64, 0, meta);
        let mut packet = Packet::<anabranch_nf::packet::Real>::new(&mut frame, layout);
        environment.begin(number << 31, number);
        nf.expire(&mut environment, 10);
        verdicts.push(nf.packet(&mut set, &mut packet, &mut Context::new(&mut environment)));
    }
    let over = anabranch_nf::Drop(quota::Reason::OverQuota);
    assert_eq!(verdicts, [Verdict::Forward(Port::new(1)), Verdict::Forward(Port::new(1)), over]);
    assert_eq!(environment.log().take().len(), 1, "the slot expired once and was reused");
    assert_eq!(nf.tables()[0].used, 1);
}
