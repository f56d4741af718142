//! `rss key`: from constraints to keys.

use std::path::Path;
use std::time::Instant;

use anabranch_rss::{
    Impossible, Nic, Partial, Problem, SampleFrame, needs_of, ports_of, solve, solve_most,
};

use super::arguments::RssKeyArguments;
use super::document::{KeyDocument, SolutionDocument, classes, unsteerable};
use super::text;
use crate::error::Error;
use crate::figures::counted;
use crate::file::print;
use crate::run::to_json;

/// Finds keys and prints them.
///
/// # Errors
/// As [`super::rss`].
pub(super) fn key(arguments: &RssKeyArguments) -> Result<(), Error> {
    let problem = problem(arguments)?;
    let start = Instant::now();
    let found = find(&problem, arguments.partial);
    let solve_us = (start.elapsed().as_secs_f64() * 1e7).round() / 10.0;
    let document = KeyDocument {
        solution: found.as_ref().ok().map(|found| SolutionDocument::new(&found.solution)),
        impossible: match &found {
            Ok(found) => unsteerable(&problem, &found.left_out),
            Err(impossible) => classes(&problem, impossible),
        },
        solve_us,
    };
    if arguments.json {
        print(&to_json(&document)?)?;
    } else if let Ok(found) = &found {
        print(&text::keys(&problem, found, solve_us))?;
    }
    found.map(|_| ()).map_err(|impossible| refusal(&problem, &impossible))
}

fn find(problem: &Problem, partial: bool) -> Result<Partial, Impossible> {
    if partial {
        return solve_most(problem).map_err(Impossible::Malformed);
    }
    let met = (0..problem.needs.len()).collect();
    solve(problem).map(|solution| Partial { solution, met, left_out: Vec::new() })
}

fn refusal(problem: &Problem, impossible: &Impossible) -> Error {
    match impossible {
        Impossible::Malformed(cause) => Error::Usage(cause.to_string()),
        Impossible::Unsteerable(left_out) => {
            let mut words = text::left_out(problem, left_out);
            if solve_most(problem).is_ok_and(|most| !most.met.is_empty()) {
                words += "`--partial` finds keys for the other classes";
            }
            Error::Analysis(format!("no key\n{}", words.trim_end()))
        }
    }
}

fn problem(arguments: &RssKeyArguments) -> Result<Problem, Error> {
    let wrong = |cause| Error::Usage(format!("--constraint: {cause}"));
    let mut ports = 1;
    for text in &arguments.constraint {
        ports = ports.max(ports_of(text).map_err(wrong)?);
    }
    let nics = nics(&arguments.nic, ports)?;
    if let Some(bits) = arguments.index_bits {
        nics.iter().try_for_each(|nic| super::check_table(nic, bits))?;
    }
    let mut problem = Problem::new(&nics).seed(arguments.seed);
    problem.index_bits = arguments.index_bits;
    for text in &arguments.constraint {
        problem.needs.extend(needs_of(text, &nics).map_err(wrong)?);
    }
    for input in &arguments.inputs {
        problem.sample.extend(sample(input, nics.len())?);
    }
    Ok(problem)
}

/// One model a port; a single one is for all of them.
fn nics(names: &[String], ports: usize) -> Result<Vec<&'static Nic>, Error> {
    let nics = names.iter().map(|name| super::nic(name)).collect::<Result<Vec<_>, _>>()?;
    match nics[..] {
        [one] => Ok(vec![one; ports]),
        _ if nics.len() == ports => Ok(nics),
        _ => Err(Error::Usage(format!(
            "{} NIC models for {}: write `--nic` once, or once for each port that constraints name, from p0 on",
            nics.len(),
            counted(ports as u64, "port")
        ))),
    }
}

/// The frames of `FILE` or `p1=FILE`.
fn sample(input: &str, ports: usize) -> Result<Vec<SampleFrame>, Error> {
    let named = input.split_once('=').and_then(|(port, file)| {
        let port: usize = port.strip_prefix('p')?.parse().ok()?;
        Some((port, file))
    });
    let (port, file) = named.unwrap_or((0, input));
    if port >= ports {
        let there = match ports {
            1 => "there is 1 port, p0".to_owned(),
            ports => format!("there are {ports} ports, from p0 on"),
        };
        return Err(Error::Usage(format!("--in {input}: {there}")));
    }
    super::frames(Path::new(file), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_not_there_is_told_with_those_that_are() {
        let why = |ports| sample("p3=a.pcap", ports).map(drop).unwrap_err().to_string();
        assert_eq!(why(1), "--in p3=a.pcap: there is 1 port, p0");
        assert_eq!(why(2), "--in p3=a.pcap: there are 2 ports, from p0 on");
    }
}
