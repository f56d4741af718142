//! Where the servers are: what stands behind `cassandra` in a configuration.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use scylla::statement::{Consistency, SerialConsistency};

use crate::error::Error;
use crate::password;
use crate::timeout::timeout;

/// Consistency levels by their words.
const LEVELS: [(&str, Consistency); 7] = [
    ("one", Consistency::One),
    ("two", Consistency::Two),
    ("three", Consistency::Three),
    ("quorum", Consistency::Quorum),
    ("all", Consistency::All),
    ("local-quorum", Consistency::LocalQuorum),
    ("local-one", Consistency::LocalOne),
];

/// Servers, as an address says. The password stands in it; it is in no message.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) nodes: Vec<String>,
    pub(super) keyspace: String,
    /// Whether connections are encrypted.
    pub(super) is_secure: bool,
    /// User and password.
    pub(super) credentials: Option<(String, String)>,
    /// How many replicas have a write before it is answered.
    pub consistency: Consistency,
    /// Copies of each partition in a key space that is made here; one that is there has as many or more.
    pub replication: u8,
    /// How long to wait for a connection or an answer.
    pub timeout: Duration,
    /// With TLS, the file of the only authorities that are trusted (PEM); else those of the system.
    pub authority: Option<PathBuf>,
}

/// User and password, of what stands before the hosts and the file that has the password. What stands before the hosts
/// has `%XX` for letters that mean something there.
fn credentials(user: Option<&str>, file: Option<&str>) -> Result<Option<(String, String)>, String> {
    let decoded = |text| {
        let text = percent_decode_str(text).decode_utf8();
        text.map(String::from).map_err(|_| "user and password are UTF-8".to_string())
    };
    Ok(match (user, file) {
        (None, None) => None,
        (Some(user), Some(file)) if !user.contains(':') => {
            Some((decoded(user)?, password::of_file("password_file", file)?))
        }
        (_, Some(_)) => return Err("with `password_file` write USER@ before the hosts".to_string()),
        (Some(both), None) => {
            let (user, password) = both.split_once(':').ok_or("write USER:PASSWORD@")?;
            Some((decoded(user)?, decoded(password)?))
        }
    })
}

/// What to do where a password has ended an address.
const ESCAPED: &str =
    "in user and password `?` is written %3F, `&` %26 and `@` %40, or use ?password_file=FILE";

impl Address {
    /// Reads an address: `cassandra://USER:PASSWORD@HOST:PORT,…/KEYSPACE`, the port 9042 where none is
    /// said; `cassandra+tls` for TLS. After `?`, with `&` between them: `consistency` (`quorum`; also `one`, `two`,
    /// `three`, `all`, `local-quorum`, `local-one`), `replication` (1), `timeout_ms` (2000), `password_file`, with
    /// TLS `ca`. In user and password `%XX` is a byte.
    ///
    /// # Errors
    /// [`Error::Configuration`]: it is no such address.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let bad = |why: &str| Error::configuration(text, why);
        let is_secure = match scheme {
            "cassandra" => false,
            "cassandra+tls" if cfg!(feature = "cassandra-tls") => true,
            "cassandra+tls" => {
                return Err(bad(
                    "this program was built without TLS: build it with `cassandra-tls`",
                ));
            }
            _ => {
                return Err(bad(
                    "write cassandra://HOST:PORT/KEYSPACE, with TLS cassandra+tls://…",
                ));
            }
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (query, file) = password::taken_out(query);
        let (user, rest) =
            rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
        let credentials = credentials(user, file).map_err(|why| bad(&why))?;
        let (hosts, keyspace) = rest.split_once('/').unwrap_or((rest, ""));
        if hosts.split(',').any(str::is_empty) {
            return Err(bad("a host is missing"));
        }
        let is_right = |host: &str| {
            let port = host.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
            port.is_none_or(|port| port.is_ok_and(|port| port > 0))
        };
        if !hosts.split(',').all(is_right) {
            return Err(bad("a port is 1 to 65535, and USER:PASSWORD@ stands before a host"));
        }
        let is_name = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_lowercase())
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit())
        };
        if !is_name(keyspace) || keyspace.len() > 48 {
            return Err(bad("name a key space after the hosts, of small letters, digits and `_`"));
        }
        let with_port = |host: &str| match host.contains(':') {
            true => host.to_string(),
            false => format!("{host}:9042"),
        };
        let address = Self {
            nodes: hosts.split(',').map(with_port).collect(),
            keyspace: keyspace.to_string(),
            is_secure,
            credentials,
            consistency: Consistency::Quorum,
            replication: 1,
            timeout: Duration::from_secs(2),
            authority: None,
        };
        let address = address.with(&query).map_err(|why| bad(&why))?;
        #[cfg(feature = "cassandra-tls")]
        crate::trust::check(address.authority.as_deref()).map_err(|why| bad(&why))?;
        match address.asked() {
            Some(asked) if 2 * asked <= u32::from(address.replication) => Err(bad(
                "with so many copies write to most of them: consistency=quorum or local-quorum",
            )),
            _ => Ok(address),
        }
    }

    /// How many copies a write is answered by, where that is a number: it has to be most of them, since who lists what
    /// there is must ask one of those that were written to.
    pub(super) fn asked(&self) -> Option<u32> {
        match self.consistency {
            Consistency::One | Consistency::LocalOne => Some(1),
            Consistency::Two => Some(2),
            Consistency::Three => Some(3),
            _ => None,
        }
    }

    fn with(mut self, query: &str) -> Result<Self, String> {
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=').unwrap_or((option, "")) {
                ("consistency", word) => {
                    let level = LEVELS.iter().find(|(known, _)| *known == word);
                    let known = LEVELS.map(|(known, _)| known).join(", ");
                    let wrong = || format!("consistency={word}: write one of {known}");
                    self.consistency = level.ok_or_else(wrong)?.1;
                }
                ("replication", copies) => {
                    let number = copies.parse().ok().filter(|copies| *copies > 0);
                    let wrong = || format!("replication={copies}: write a number of copies from 1");
                    self.replication = number.ok_or_else(wrong)?;
                }
                ("timeout_ms", text) => self.timeout = timeout(text)?,
                ("ca", file) if self.is_secure && !file.is_empty() => {
                    self.authority = Some(file.into());
                }
                (name, _) if !password::is_word(name) => return Err(ESCAPED.to_owned()),
                (name, _) => {
                    return Err(format!(
                        "`{name}`: after `?` there are consistency=LEVEL, replication=N, timeout_ms=N, \
                         password_file=FILE and with TLS ca=FILE"
                    ));
                }
            }
        }
        Ok(self)
    }

    /// Who takes part in lightweight transactions: all replicas, or those of this data centre.
    pub(super) fn serial(&self) -> SerialConsistency {
        match self.consistency {
            Consistency::LocalQuorum | Consistency::LocalOne => SerialConsistency::LocalSerial,
            _ => SerialConsistency::Serial,
        }
    }
}

impl std::fmt::Display for Address {
    /// Without user and password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.is_secure { "cassandra+tls" } else { "cassandra" };
        write!(f, "{scheme}://{}/{}", self.nodes.join(","), self.keyspace)
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_where_and_how() {
        let text = "cassandra://me:s3cret@a:9000,b/nf_state?consistency=local-quorum&replication=3";
        let address = Address::parse(text).unwrap();
        assert_eq!(address.to_string(), "cassandra://a:9000,b:9042/nf_state");
        assert_eq!(address.credentials, Some(("me".to_string(), "s3cret".to_string())));
        assert_eq!((address.consistency, address.replication), (Consistency::LocalQuorum, 3));
        assert_eq!(address.serial(), SerialConsistency::LocalSerial);
        let coded = Address::parse("cassandra://m%3Ae:s%2F%40%25@a/k").unwrap();
        assert_eq!(coded.credentials, Some(("m:e".to_string(), "s/@%".to_string())));
        assert!(
            Address::parse("cassandra://me:%ff@a/k").unwrap_err().to_string().contains("UTF-8")
        );
        let plain = Address::parse("cassandra://a/k?timeout_ms=7").unwrap();
        assert_eq!((plain.consistency, plain.timeout.as_millis()), (Consistency::Quorum, 7));
        assert_eq!(plain.serial(), SerialConsistency::Serial);
    }

    #[test]
    fn tls_is_asked_for_by_its_word() {
        let parsed = Address::parse("cassandra+tls://me:s3cret@a/k?ca=/nowhere/ca.pem");
        if !cfg!(feature = "cassandra-tls") {
            let error = parsed.unwrap_err().to_string();
            assert!(error.contains("cassandra-tls") && !error.contains("s3cret"), "{error}");
            return;
        }
        let error = parsed.unwrap_err();
        assert!(matches!(error, Error::Configuration { .. }), "{error}");
        assert!(error.to_string().contains("the authorities in /nowhere/ca.pem"), "{error}");
        let address = Address::parse("cassandra+tls://me:s3cret@a/k").unwrap();
        assert_eq!(address.to_string(), "cassandra+tls://a:9042/k");
    }

    #[test]
    fn a_password_may_stand_in_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        std::fs::write(&file, "s3c@r:et\n").unwrap();
        let parsed = |user: &str| {
            Address::parse(&format!("cassandra://{user}h/k?password_file={}", file.display()))
        };
        let credentials = parsed("me@").unwrap().credentials;
        assert_eq!(credentials, Some(("me".to_string(), "s3c@r:et".to_string())));
        for wrong in ["", "me:other@"] {
            assert!(parsed(wrong).unwrap_err().to_string().contains("USER@"));
        }
    }

    #[test]
    fn what_is_none_is_refused_without_its_password() {
        for (text, hint) in [
            ("cassandra:a", "cassandra://HOST"),
            ("cassandra://a", "key space"),
            ("cassandra://a/K", "key space"),
            ("cassandra://a/k'", "key space"),
            ("cassandra:///k", "host"),
            ("cassandra://me:s3cret/k", "a port is 1 to 65535, and USER:PASSWORD@ stands"),
            ("cassandra://a,b:0/k", "a port is 1 to 65535"),
            ("cassandra://me:s3cret@a,/k", "host"),
            (
                "cassandra://me:s3cret@a/k?consistency=most",
                "consistency=most: write one of one, two,",
            ),
            ("cassandra://a/k?replication=0", "replication=0: write a number of copies from 1"),
            ("cassandra://a/k?timeout_ms=0", "timeout_ms=0: write 1 to 60000"),
            ("cassandra://a/k?timeout_s=1", "`timeout_s`: after `?` there are consistency=LEVEL"),
            ("cassandra://a/k?s3cret@b", "`?` is written %3F"),
            ("cassandra://a/k?ca=/x", "ca=FILE"),
            ("cassandra+ssl://me:s3cret@a/k", "cassandra+tls"),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(hint) && !error.contains("s3cret"), "{text}: {error}");
        }
    }
}
