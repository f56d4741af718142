//! Whether a plan that may have been edited has the form of one: each port, class and object once, and of NICs, places
//! and fields only such as there are. What it says is checked by [`check`](crate::check) then.

use std::collections::BTreeMap;

use anabranch_analysis::Paths;
use anabranch_packet::Field as PacketField;
use anabranch_rss::{Class as NicClass, Field, HashInput, Nic};

use crate::error::PlanError;
use crate::keys::lanes_of_port;
use crate::model::{Plan, Port, PortClass, Steerer};

type Formed = Result<(), PlanError>;

fn unfit<T>(message: String) -> Result<T, PlanError> {
    Err(PlanError::Unfit(message))
}

/// That `plan` is one for the function of these call paths and ports.
pub(crate) fn well_formed(plan: &Plan, ports: &[String], paths: &Paths) -> Formed {
    let nic = nic(plan)?;
    plan.ports.iter().try_for_each(|port| key(port, nic))?;
    table(plan, nic)?;
    each_once("port", plan.ports.iter().map(|port| &port.port), ports, "the function")?;
    let objects: Vec<String> = paths.objects.iter().map(|object| object.name.clone()).collect();
    each_once("object", plan.objects.iter().map(|one| &one.name), &objects, "the function")?;
    let known: Vec<String> = lanes_of_port(paths.fragments).map(|(name, _)| name).collect();
    for port in &plan.ports {
        let of = format!("port `{}`", port.port);
        each_once("class", port.classes.iter().map(|class| &class.class), &known, &of)?;
        for class in &port.classes {
            input(plan, port, class, nic)?;
        }
    }
    Ok(())
}

/// That a NIC of the model can do what it is to do.
pub(crate) fn is_for_nic(plan: &Plan) -> Formed {
    let nic = nic(plan)?;
    let lanes: BTreeMap<String, NicClass> = lanes_of_port(true).collect();
    plan.ports.iter().try_for_each(|port| by_nic(port, nic, &lanes))
}

fn nic(plan: &Plan) -> Result<&'static Nic, PlanError> {
    match Nic::named(&plan.nic) {
        Some(nic) => Ok(nic),
        None => {
            let known: Vec<&str> = Nic::ALL.iter().map(|nic| nic.name).collect();
            let known = known.join(", ");
            unfit(format!("there is no NIC model `{}`: write nic = one of {known}", plan.nic))
        }
    }
}

/// That the indirection table is of a size that the NIC has.
fn table(plan: &Plan, nic: &Nic) -> Formed {
    if nic.has_table_of(plan.index_bits) {
        return Ok(());
    }
    let of_device = nic.device_index_bits().map(|bits| format!("up to {}", bits.end()));
    let bits = nic.table_sizes.iter().map(|entries| entries.ilog2().to_string());
    let bits: Vec<String> = bits.chain(of_device).collect();
    unfit(format!(
        "index_bits is {}, and the tables of a NIC of model `{}` have {}",
        plan.index_bits,
        nic.name,
        bits.join(", ")
    ))
}

/// That each of the `known` names is there once, and no other.
fn each_once<'n>(
    what: &str,
    named: impl Iterator<Item = &'n String>,
    known: &[String],
    of: &str,
) -> Formed {
    let mut seen: Vec<&String> = Vec::new();
    for name in named {
        if !known.contains(name) {
            let known = known.join(", ");
            return unfit(format!("{of} has no {what} `{name}`: write one of {known}"));
        }
        if seen.contains(&name) {
            return unfit(format!("{what} `{name}` of {of} stands there twice: keep one"));
        }
        seen.push(name);
    }
    match known.iter().find(|name| !seen.contains(name)) {
        Some(name) => unfit(format!("the plan has no {what} `{name}` of {of}: plan again")),
        None => Ok(()),
    }
}

/// That the key is as long as those of the NIC that it is for.
fn key(port: &Port, nic: &Nic) -> Formed {
    let Some(len) = bytes(&port.key).map(|key| key.len()) else {
        return unfit(format!("the key of port `{}` is no hexadecimal number", port.port));
    };
    if len != nic.key_len {
        return unfit(format!(
            "the key of port `{}` has {len} bytes, and a NIC of model `{}` takes {}: plan again with --nic {}",
            port.port, nic.name, nic.key_len, nic.name
        ));
    }
    Ok(())
}

/// That what is hashed of a class is there, and has room where it is put.
fn input(plan: &Plan, port: &Port, class: &PortClass, nic: &Nic) -> Formed {
    let here = format!("{} packets of {}", class.class, port.port);
    if let Some(other) = &class.key_of
        && plan.ports.iter().all(|port| port.port != *other)
    {
        return unfit(format!("{here} are hashed by the key of `{other}`, which is no port"));
    }
    let mut bits = 0;
    for input in &class.input {
        let Some(place) = Field::named(&input.place) else {
            return unfit(format!("no hash has a place for `{}`: {here}", input.place));
        };
        bits += usize::from(place.width());
        if input.field == "-" {
            continue;
        }
        let Some(width) = width(&input.field) else {
            return unfit(format!("packets have no field `{}`: {here}", input.field));
        };
        if width > place.width() {
            return unfit(format!(
                "`{}` of {here} has {width} bits, and its place `{}` only {}",
                input.field,
                input.place,
                place.width()
            ));
        }
    }
    // The hash is the 32 bits of the key from each bit on that is set.
    let most = nic.key_len * 8 - 32;
    if bits > most {
        let len = nic.key_len;
        return unfit(format!("{here} have {bits} bits hashed, and a key of {len} bytes {most}"));
    }
    Ok(())
}

/// The bits of a field that packets have.
fn width(field: &str) -> Option<u16> {
    let of_packet = PacketField::named(field).map(|field| field.bits);
    of_packet.or_else(|| Field::named(field).map(Field::width))
}

fn by_nic(port: &Port, nic: &Nic, lanes: &BTreeMap<String, NicClass>) -> Formed {
    let mut done: BTreeMap<NicClass, &PortClass> = BTreeMap::new();
    for class in port.classes.iter().filter(|class| class.by == Steerer::Nic) {
        let Some(own) = lanes.get(&class.class) else { continue };
        let fields: Vec<Field> =
            class.input.iter().filter_map(|one| Field::named(&one.field)).collect();
        let in_place = class.input.iter().all(|one| one.place == one.field);
        let names: Vec<&str> = class.input.iter().map(|one| one.field.as_str()).collect();
        let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        if !in_place
            || class.key_of.is_some()
            || !nic.hashing(*own).allows(&HashInput::new(&fields))
        {
            return unfit(format!(
                "a NIC of model `{}` cannot hash {} packets of {} by {names}{}: write by = \"software\"",
                nic.name,
                class.class,
                port.port,
                if class.key_of.is_some() { " with another port's key" } else { "" }
            ));
        }
        let alike = done.entry(nic.seen_as(*own)).or_insert(class);
        if alike.input != class.input {
            return unfit(format!(
                "a NIC of model `{}` hashes {} and {} packets of {} alike: write the same input",
                nic.name, alike.class, class.class, port.port
            ));
        }
    }
    Ok(())
}

/// A key in hexadecimal digits.
pub(crate) fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        hex.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
    let digits = digits.filter(|digits| !digits.is_empty() && digits.len() % 2 == 0)?;
    Some(
        digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect(),
    )
}
