//! `Option` and `Result`: methods, `?`, `let … else`.

use anabranch_nf::prelude::*;

/// Options and results.
#[network_function(ports(left, right))]
pub mod options {
    pub struct Idle {}

    impl Idle {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Forward(pkt.port().other())
        }
    }

    pub enum Fault {
        Small,
        Large { by: u64 },
    }

    fn half(x: u64) -> Option<u64> {
        if x % 2 == 0 { Some(x / 2) } else { None }
    }

    fn quarter(x: u64) -> Option<u64> {
        let once = half(x)?;
        half(once)
    }

    fn bounded(x: u64) -> Result<u64, Fault> {
        if x < 100 {
            return Err(Fault::Small);
        }
        if x > 1_000_000 {
            return Err(Fault::Large { by: x - 1_000_000 });
        }
        Ok(x)
    }

    fn twice_bounded(x: u64) -> Result<u64, Fault> {
        let x = bounded(x)?;
        Ok(x * 2)
    }

    pub fn idiom_065(a: u16, b: u32, c: u64) -> u64 {
        half(c).unwrap_or(7)
    }

    pub fn idiom_066(a: u16, b: u32, c: u64) -> u64 {
        quarter(c).unwrap_or_default()
    }

    pub fn idiom_067(a: u16, b: u32, c: u64) -> u64 {
        let Some(x) = half(u64::from(b)) else {
            return 1;
        };
        x
    }

    pub fn idiom_068(a: u16, b: u32, c: u64) -> u64 {
        match bounded(c) {
            Ok(x) => x,
            Err(Fault::Small) => 1,
            Err(Fault::Large { by }) => by,
        }
    }

    pub fn idiom_069(a: u16, b: u32, c: u64) -> u64 {
        half(c).map(|x| x + 1).unwrap_or(0)
    }

    pub fn idiom_070(a: u16, b: u32, c: u64) -> u64 {
        half(c).and_then(half).map_or(3, |x| x)
    }

    pub fn idiom_071(a: u16, b: u32, c: u64) -> u64 {
        Some(a).filter(|x| *x > 100).is_some() as u64
    }

    pub fn idiom_072(a: u16, b: u32, c: u64) -> u64 {
        half(c).is_none() as u64 + Some(b).is_some_and(|x| x > 5) as u64
    }

    pub fn idiom_073(a: u16, b: u32, c: u64) -> u64 {
        twice_bounded(u64::from(b)).ok().unwrap_or(9)
    }

    pub fn idiom_074(a: u16, b: u32, c: u64) -> u64 {
        let found = half(c).ok_or(Fault::Small);
        if found.is_ok() { 1 } else { 2 }
    }

    pub fn idiom_075(a: u16, b: u32, c: u64) -> u64 {
        let pair = Some((a, b));
        match pair {
            Some((1, _)) => 1,
            Some((x, y)) if y > 7 => u64::from(x),
            Some(_) => 3,
            None => 4,
        }
    }

    pub fn idiom_076(a: u16, b: u32, c: u64) -> u64 {
        if half(c) == Some(8) || half(c) != quarter(c * 2) { 1 } else { 0 }
    }

    pub fn idiom_077(a: u16, b: u32, c: u64) -> u64 {
        let mut best: Option<u64> = None;
        for i in 0..4u64 {
            let candidate = (c >> (i * 16)) & 0xffff;
            best = match best {
                Some(known) if known >= candidate => Some(known),
                _ => Some(candidate),
            };
        }
        best.unwrap_or(0)
    }

    pub fn idiom_078(a: u16, b: u32, c: u64) -> u64 {
        twice_bounded(c).map(|x| x / 3).unwrap_or(u64::from(a))
    }

    pub fn idiom_079(a: u16, b: u32, c: u64) -> u64 {
        let nested: Option<Option<u16>> = if a > 9 { Some(None) } else { Some(Some(a)) };
        match nested {
            Some(Some(x)) => u64::from(x),
            Some(None) => 100,
            None => 200,
        }
    }
}
