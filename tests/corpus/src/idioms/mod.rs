//! The idioms: each a function of plain inputs, so that worlds can be compared by their results.

mod aggregates;
mod bounds;
mod bytes;
mod control;
mod habits;
mod literals;
mod numbers;
mod options;
mod order;
mod packets;
mod state;

use anabranch_nf::packet::Hollow;
use anabranch_nf::prelude::Packet;
use anabranch_nf::{NetworkFunction, Source};

pub use aggregates::aggregates as aggregates_nf;
pub use bounds::bounds as bounds_nf;
pub use bytes::bytes as bytes_nf;
pub use control::control as control_nf;
pub use habits::habits as habits_nf;
pub use literals::literals as literals_nf;
pub use numbers::numbers as numbers_nf;
pub use options::options as options_nf;
pub use order::order as order_nf;
pub use packets::packets as packets_nf;
pub use state::{allocation, balance, buckets, learning, quota, watch};

/// An idiom over plain inputs.
#[derive(Clone, Copy)]
pub struct Idiom {
    /// The function's name in its module.
    pub name: &'static str,
    /// The module's source.
    pub source: Source,
    /// The function as the native worlds have it.
    pub run: fn(u16, u32, u64) -> u64,
}

/// An idiom over a packet, which it may rewrite.
#[derive(Clone, Copy)]
pub struct PacketIdiom {
    /// The function's name in its module.
    pub name: &'static str,
    /// The module's source.
    pub source: Source,
    /// The function as the Solo world has it.
    pub run: fn(&mut Packet<'_>) -> u64,
    /// The function as hollow worlds have it.
    pub look_ahead: fn(&mut Packet<'_, Hollow>) -> u64,
}

macro_rules! table {
    ($entry:ident: $($module:ident: $($name:ident)+;)+) => {
        &[$($($entry!($module $name),)+)+]
    };
}

macro_rules! plain {
    ($module:ident $name:ident) => {
        Idiom {
            name: stringify!($name),
            source: <$module::Function as NetworkFunction>::SOURCE,
            run: $module::$name,
        }
    };
}

macro_rules! over_packet {
    ($module:ident $name:ident) => {
        PacketIdiom {
            name: stringify!($name),
            source: <$module::Function as NetworkFunction>::SOURCE,
            run: $module::$name,
            look_ahead: $module::$name,
        }
    };
}

/// Every idiom over plain inputs.
pub const IDIOMS: &[Idiom] = table! { plain:
    literals_nf:
        idiom_001 idiom_002 idiom_003 idiom_004 idiom_005 idiom_006 idiom_007 idiom_008 idiom_009
        idiom_010 idiom_011 idiom_012 idiom_013 idiom_014 idiom_015 idiom_016 idiom_017 idiom_018
        idiom_174 idiom_175 idiom_176;
    numbers_nf:
        idiom_019 idiom_020 idiom_021 idiom_022 idiom_023 idiom_024 idiom_025 idiom_026 idiom_027
        idiom_028 idiom_029 idiom_030 idiom_031 idiom_032 idiom_033 idiom_034 idiom_035 idiom_036
        idiom_037 idiom_038 idiom_039 idiom_040 idiom_041 idiom_042;
    control_nf:
        idiom_043 idiom_044 idiom_045 idiom_046 idiom_047 idiom_048 idiom_049 idiom_050 idiom_051
        idiom_052 idiom_053 idiom_054 idiom_055 idiom_056 idiom_057 idiom_058 idiom_059 idiom_060
        idiom_061 idiom_062 idiom_063 idiom_064 idiom_171 idiom_172 idiom_173;
    options_nf:
        idiom_065 idiom_066 idiom_067 idiom_068 idiom_069 idiom_070 idiom_071 idiom_072 idiom_073
        idiom_074 idiom_075 idiom_076 idiom_077 idiom_078 idiom_079;
    aggregates_nf:
        idiom_080 idiom_081 idiom_082 idiom_083 idiom_084 idiom_085 idiom_086 idiom_087 idiom_088
        idiom_089 idiom_090 idiom_091 idiom_092 idiom_093 idiom_094 idiom_095 idiom_096 idiom_097
        idiom_098 idiom_099 idiom_100;
    bytes_nf:
        idiom_101 idiom_102 idiom_103 idiom_104 idiom_105 idiom_106 idiom_107 idiom_108 idiom_109
        idiom_110 idiom_111 idiom_112 idiom_113 idiom_114 idiom_115 idiom_116 idiom_117 idiom_118
        idiom_119 idiom_120 idiom_121 idiom_122;
    bounds_nf:
        idiom_123 idiom_124 idiom_125 idiom_126 idiom_127 idiom_128 idiom_129 idiom_130 idiom_131
        idiom_132 idiom_133 idiom_134 idiom_135 idiom_136 idiom_137 idiom_138 idiom_139 idiom_140;
    order_nf:
        idiom_141 idiom_142 idiom_143 idiom_144 idiom_145 idiom_146 idiom_147 idiom_148
        idiom_149 idiom_150;
    habits_nf:
        idiom_151 idiom_152 idiom_153 idiom_154 idiom_155 idiom_156 idiom_157 idiom_158 idiom_159
        idiom_160 idiom_161 idiom_162 idiom_163 idiom_164 idiom_165 idiom_166 idiom_167 idiom_168
        idiom_169 idiom_170 idiom_177;
};

/// Every idiom over a packet.
pub const PACKET_IDIOMS: &[PacketIdiom] = table! { over_packet:
    packets_nf:
        idiom_201 idiom_202 idiom_203 idiom_204 idiom_205 idiom_206 idiom_207 idiom_208 idiom_209
        idiom_210 idiom_211 idiom_212 idiom_213 idiom_214 idiom_215 idiom_216 idiom_217 idiom_218
        idiom_219 idiom_220 idiom_221 idiom_222 idiom_223 idiom_224 idiom_225 idiom_226 idiom_227
        idiom_228 idiom_229 idiom_230 idiom_231 idiom_232 idiom_233 idiom_234 idiom_235
        idiom_236;
};

/// The source of every network function of the corpus.
pub const SOURCES: &[Source] = &[
    literals_nf::Function::SOURCE,
    numbers_nf::Function::SOURCE,
    control_nf::Function::SOURCE,
    options_nf::Function::SOURCE,
    aggregates_nf::Function::SOURCE,
    bounds_nf::Function::SOURCE,
    bytes_nf::Function::SOURCE,
    habits_nf::Function::SOURCE,
    packets_nf::Function::SOURCE,
    allocation::Function::SOURCE,
    balance::Function::SOURCE,
    buckets::Function::SOURCE,
    learning::Function::SOURCE,
    quota::Function::SOURCE,
    watch::Function::SOURCE,
];
