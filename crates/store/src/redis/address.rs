//! Where the servers are: what stands behind `redis` in a configuration.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::{
    AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, percent_encode, utf8_percent_encode,
};
use redis::IntoConnectionInfo as _;

use crate::error::Error;
use crate::password;
use crate::timeout::timeout;

/// Servers, as an address says. Passwords stand in it (`redis://user:password@host:6379/0`, with
/// `%` and two digits for what has a meaning there); they are in no message.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) servers: Servers,
    /// `redis` or, with TLS, `rediss`.
    scheme: &'static str,
    /// `user:password@`, as written, or nothing.
    credentials: String,
    database: String,
    /// How long to wait for a connection or an answer.
    pub timeout: Duration,
    /// With TLS, the file of the only authority that is trusted (PEM); else those of the system.
    pub authority: Option<PathBuf>,
    /// What sentinels want to hear; that of the servers is not told to them.
    sentinel_password: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Servers {
    /// One, by host and port.
    Single(String),
    /// One on this machine, by the path of its socket.
    Socket(String),
    /// Sentinels, and the name by which they know the servers.
    Sentinels(Vec<String>, String),
    /// Some of a cluster's nodes.
    Cluster(Vec<String>),
}

impl Address {
    /// Reads an address; 1 s of timeout if it says none.
    ///
    /// | text | servers |
    /// |---|---|
    /// | `redis://host:6379/0` | one |
    /// | `redis+unix:///run/redis.sock` | one, by its socket |
    /// | `redis+sentinel://host:26379,other:26379/name` | those that sentinels know as `name` |
    /// | `redis+cluster://host:6379,other:6379` | a cluster |
    ///
    /// `rediss` in place of `redis` is TLS, `?ca=FILE` at the end the authority that is trusted;
    /// `?timeout_ms=250` sets the timeout, `?password_file=FILE` has the password in a file,
    /// `?sentinel_password_file=FILE` that of the sentinels, who are told no other; `&` stands between several.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bad = |why: &str| Error::configuration(text, why);
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| bad("write redis://host:port"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (query, file) = password::taken_out(query);
        let Options { timeout, authority, sentinel_password } =
            options(&query).map_err(|why| bad(&why))?;
        let (credentials, rest) = match (rest.rsplit_once('@'), file) {
            (Some((credentials, rest)), None) => (format!("{credentials}@"), rest),
            (None, None) => (String::new(), rest),
            (Some((user, _)), Some(_)) if user.contains(':') => {
                return Err(bad("give a password or `password_file`, not both"));
            }
            (user, Some(file)) => {
                let (user, rest) = user.unwrap_or(("", rest));
                let password = password::of_file("password_file", file).map_err(|why| bad(&why))?;
                (format!("{user}:{}@", utf8_percent_encode(&password, NON_ALPHANUMERIC)), rest)
            }
        };
        let (secure, how) = match scheme.split_once('+').unwrap_or((scheme, "")) {
            ("redis", how) => ("redis", how),
            ("rediss", how) => ("rediss", how),
            _ => return Err(bad("begin with redis:// or rediss://")),
        };
        if secure == "rediss" && !cfg!(feature = "redis-tls") {
            return Err(bad("this program was built without TLS: build it with `redis-tls`"));
        }
        match &authority {
            // Who names one means to be safe from others on the way.
            Some(_) if secure == "redis" => return Err(bad("`ca` is for TLS: begin with rediss")),
            _ if secure == "rediss" && how == "unix" => {
                return Err(bad("a socket of this machine has no TLS: begin with redis+unix"));
            }
            _ => {}
        }
        #[cfg(feature = "redis-tls")]
        crate::trust::check(authority.as_deref()).map_err(|why| bad(&why))?;
        // A server is told no user without a password, and would take us for another.
        if !credentials.is_empty() && !credentials.contains(':') {
            return Err(bad("a user has a password: write USER:PASSWORD@, or ?password_file=FILE"));
        }
        let (servers, database) = servers(how, rest).map_err(bad)?;
        if sentinel_password.is_some() && !matches!(servers, Servers::Sentinels(..)) {
            return Err(bad("only redis+sentinel:// has a `sentinel_password_file`"));
        }
        let all = Self {
            servers,
            scheme: secure,
            credentials,
            database,
            timeout,
            authority,
            sentinel_password,
        };
        all.is_understood().then_some(all).ok_or_else(|| bad(NOT_UNDERSTOOD))
    }

    /// Whether the client understands the address of each server that is named.
    fn is_understood(&self) -> bool {
        let nodes: &[String] = match &self.servers {
            Servers::Single(node) => std::slice::from_ref(node),
            Servers::Socket(_) => &[String::new()],
            Servers::Sentinels(nodes, _) | Servers::Cluster(nodes) => nodes,
        };
        nodes.iter().all(|node| self.of_node(node).as_str().into_connection_info().is_ok())
    }

    /// The address of one server that is found at `node`, for the client library, which knows nothing of TLS.
    pub(super) fn of_node(&self, node: &str) -> String {
        match &self.servers {
            Servers::Socket(path) => {
                let words = self.credentials.strip_suffix('@').unwrap_or_default();
                let (user, password) = words.split_once(':').unwrap_or((words, ""));
                let words = [("user", user), ("pass", password)];
                let words = words.iter().filter(|(_, word)| !word.is_empty());
                let query: Vec<String> =
                    words.map(|(name, word)| format!("{name}={}", of_query(word))).collect();
                let path = utf8_percent_encode(path, OF_PATH);
                format!("redis+unix://{path}?{}", query.join("&"))
            }
            _ => format!("redis://{}{node}/{}", self.credentials, self.database),
        }
    }

    /// Whether connections are encrypted.
    pub(super) fn is_secure(&self) -> bool {
        self.scheme == "rediss"
    }

    /// The address of a sentinel.
    pub(super) fn of_sentinel(&self, node: &str) -> String {
        let credentials = self.sentinel_password.as_ref().map_or(String::new(), |password| {
            format!(":{}@", utf8_percent_encode(password, NON_ALPHANUMERIC))
        });
        format!("redis://{credentials}{node}/")
    }
}

impl std::fmt::Display for Address {
    /// Without user and password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.servers {
            Servers::Single(node) => {
                let of = if self.database.is_empty() { "" } else { "/" };
                write!(f, "{}://{node}{of}{}", self.scheme, self.database)
            }
            Servers::Socket(path) => write!(f, "redis+unix://{path}"),
            Servers::Sentinels(nodes, name) => {
                write!(f, "{}+sentinel://{}/{name}", self.scheme, nodes.join(","))
            }
            Servers::Cluster(nodes) => write!(f, "{}+cluster://{}", self.scheme, nodes.join(",")),
        }
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Address({self})")
    }
}

/// What stands before an `@`, for a query, in which other letters have a meaning: a `+` is a blank.
fn of_query(word: &str) -> String {
    percent_encode(&percent_decode_str(word).collect::<Vec<u8>>(), NON_ALPHANUMERIC).to_string()
}

/// Letters of a path that mean something in an address.
const OF_PATH: &AsciiSet = &CONTROLS.add(b'%').add(b'#').add(b'?').add(b' ');

/// Why no server can be asked at an address.
const NOT_UNDERSTOOD: &str = "a port is 1 to 65535; in user and password letters that mean something in an address \
                              are written %XX (`/` is %2F, `#` %23, `?` %3F, `@` %40, `%` %25), or use \
                              ?password_file=FILE";

/// The servers that stand in an address, `how` they belong together, and the database of one.
///
/// # Errors
/// What is wrong, in words.
fn servers(how: &str, rest: &str) -> Result<(Servers, String), &'static str> {
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    if how == "unix" {
        return match hosts.is_empty() {
            true => Ok((Servers::Socket(format!("/{path}")), String::new())),
            false => Err("the path of a socket begins with `/`: redis+unix:///run/redis.sock"),
        };
    }
    if hosts.split(',').any(str::is_empty) {
        return Err("a host is missing");
    }
    if hosts.split(',').any(is_bare_ipv6) {
        return Err("an IPv6 address stands in brackets: redis://[2001:db8::1]:6379");
    }
    let port = if how == "sentinel" { "26379" } else { "6379" };
    let nodes: Vec<String> = hosts.split(',').map(|host| with_port(host, port)).collect();
    match how {
        "" if !path.bytes().all(|digit| digit.is_ascii_digit()) => {
            Err("a database is a number, as in redis://host:6379/0")
        }
        "" if nodes.len() == 1 => Ok((Servers::Single(nodes[0].clone()), path.to_owned())),
        "" => Err("several hosts are redis+sentinel:// or redis+cluster://"),
        "sentinel" if path.is_empty() => Err("the name that sentinels know is missing: …/name"),
        "sentinel" => Ok((Servers::Sentinels(nodes, path.to_owned()), String::new())),
        "cluster" if !path.is_empty() => {
            Err("a cluster has one database, and its address no other: leave `/…` out")
        }
        "cluster" => Ok((Servers::Cluster(nodes), String::new())),
        _ => Err("after `+` only unix, sentinel and cluster are known"),
    }
}

/// What stands behind the `?`.
struct Options {
    timeout: Duration,
    authority: Option<PathBuf>,
    sentinel_password: Option<String>,
}

/// Reads all but the servers' password.
///
/// # Errors
/// What is wrong, in words.
fn options(query: &str) -> Result<Options, String> {
    let mut options =
        Options { timeout: Duration::from_secs(1), authority: None, sentinel_password: None };
    for option in query.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=').unwrap_or((option, "")) {
            ("timeout_ms", text) => options.timeout = timeout(text)?,
            ("ca", file) => options.authority = Some(file.into()),
            (word @ "sentinel_password_file", file) => {
                options.sentinel_password = Some(password::of_file(word, file)?);
            }
            (name, _) if !password::is_word(name) => return Err(NOT_UNDERSTOOD.to_owned()),
            (name, _) => {
                return Err(format!(
                    "`{name}`: after `?` only timeout_ms=N, password_file=FILE, sentinel_password_file=FILE \
                     and ca=FILE are known"
                ));
            }
        }
    }
    Ok(options)
}

fn with_port(host: &str, port: &str) -> String {
    // A colon inside brackets is of an IPv6 address.
    match host.rsplit_once(':') {
        Some((_, port)) if !port.contains(']') => host.to_string(),
        _ => format!("{host}:{port}"),
    }
}

fn is_bare_ipv6(host: &str) -> bool {
    !host.starts_with('[') && host.matches(':').count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Address::parse(text).map_or_else(|error| error.to_string(), |address| address.to_string())
    }

    #[test]
    fn addresses_are_understood_and_passwords_shown_nowhere() {
        let single = Address::parse("redis://me:s3cret@h:7000/2?timeout_ms=250").unwrap();
        assert_eq!(single.of_node("h:7000"), "redis://me:s3cret@h:7000/2");
        assert_eq!(single.timeout, Duration::from_millis(250));
        assert!(!format!("{single:?} {single}").contains("s3cret"));
        assert_eq!(shown("redis://h"), "redis://h:6379");
        assert_eq!(shown("redis://me:s3cret@h/3"), "redis://h:6379/3", "another than that of …/2");
        assert_eq!(shown("redis://[::1]"), "redis://[::1]:6379");
        assert_eq!(shown("redis+unix:///run/r.sock"), "redis+unix:///run/r.sock");
        assert_eq!(shown("redis+cluster://a,b:7"), "redis+cluster://a:6379,b:7");
        let sentinels = Address::parse("redis+sentinel://:pw@a:1,b:2/main").unwrap();
        assert_eq!(sentinels.to_string(), "redis+sentinel://a:1,b:2/main");
        assert_eq!(sentinels.of_node("c:3"), "redis://:pw@c:3/");
        for wrong in [
            "redis://h:99999",
            "redis://:s3cret/@h",
            "redis://:s3#cret@h",
            "redis://h?password=s3cret",
            "redis://:pa?s3cret@h",
            "redis+sentinel://:ab?s3cret@h/m",
        ] {
            let error = Address::parse(wrong).unwrap_err();
            assert!(matches!(error, Error::Configuration { .. }), "{error}");
            assert!(!error.to_string().contains("cret"), "{error}");
        }
        let socket = Address::parse("redis+unix://:pw@/run/r.sock").unwrap();
        assert_eq!(socket.of_node(""), "redis+unix:///run/r.sock?pass=pw");
        let socket = Address::parse("redis+unix:///run/a%41#b.sock").unwrap();
        assert_eq!(socket.of_node(""), "redis+unix:///run/a%2541%23b.sock?");
        assert_eq!(shown("redis+sentinel://a,b:7/main"), "redis+sentinel://a:26379,b:7/main");
        let socket = Address::parse("redis+unix://me:a+b%26@/run/r.sock").unwrap();
        assert_eq!(socket.of_node(""), "redis+unix:///run/r.sock?user=me&pass=a%2Bb%26");
    }

    #[cfg(feature = "redis-tls")]
    #[test]
    fn an_authority_is_there_and_there_is_none_for_a_socket() {
        for (text, hint) in [
            ("rediss://h?ca=/nowhere/at/all", "the authorities in /nowhere/at/all"),
            ("rediss://h?ca=/dev/null", "no authority to trust in /dev/null"),
            ("rediss+unix:///run/r.sock", "begin with redis+unix"),
        ] {
            let error = Address::parse(text).unwrap_err();
            assert!(matches!(error, Error::Configuration { .. }), "{error}");
            assert!(error.to_string().contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_may_stand_in_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        std::fs::write(&file, "s3c@ret\n").unwrap();
        let parsed = |user: &str| {
            Address::parse(&format!(
                "redis://{user}h?password_file={}&timeout_ms=9",
                file.display()
            ))
        };
        let address = parsed("me@").unwrap();
        assert_eq!(address.of_node("h:1"), "redis://me:s3c%40ret@h:1/");
        assert_eq!(address.timeout, Duration::from_millis(9));
        assert_eq!(parsed("").unwrap().of_node("h:1"), "redis://:s3c%40ret@h:1/");
        assert!(parsed("me:other@").unwrap_err().to_string().contains("not both"));
        let missing = Address::parse("redis://h?password_file=/nowhere/at/all").unwrap_err();
        assert!(missing.to_string().contains("cannot be read"), "{missing}");
    }

    #[test]
    fn sentinels_hear_their_own_password_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        std::fs::write(&file, "watch/er\n").unwrap();
        let query = format!("sentinel_password_file={}", file.display());
        let address = Address::parse(&format!("redis+sentinel://me:pw@a:1/main?{query}")).unwrap();
        assert_eq!(address.of_sentinel("a:1"), "redis://:watch%2Fer@a:1/");
        assert_eq!(address.of_node("b:2"), "redis://me:pw@b:2/");
        assert!(!format!("{address:?} {address}").contains("watch"));
        let address = Address::parse("redis+sentinel://me:pw@a:1/main").unwrap();
        assert_eq!(address.of_sentinel("a:1"), "redis://a:1/");
        let of_another = Address::parse(&format!("redis://a:1?{query}")).unwrap_err();
        assert!(of_another.to_string().contains("only redis+sentinel://"), "{of_another}");
        let missing = Address::parse("redis+sentinel://a/m?sentinel_password_file=/nowhere/at/all");
        let missing = missing.unwrap_err().to_string();
        assert!(missing.contains("`sentinel_password_file` /nowhere/at/all cannot"), "{missing}");
    }

    #[test]
    fn mistakes_are_told() {
        let mistakes = [
            ("redis:/h", "redis://host:port"),
            ("http://h", "redis://"),
            ("redis://", "host"),
            ("redis://a,b", "cluster"),
            ("redis+sentinel://a", "name"),
            ("redis+ring://a", "unix"),
            ("redis://h?timeout_ms=0", "timeout_ms=0: write 1 to 60000"),
            ("redis://h?timeout_s=3", "only timeout_ms=N"),
            ("redis://h/sessions", "a database is a number"),
            ("redis://me@h", "write USER:PASSWORD@"),
            ("redis+unix://me@/run/r.sock", "write USER:PASSWORD@"),
            ("redis://::1", "in brackets: redis://[2001:db8::1]"),
            ("redis+sentinel://h,fe80::1:26379/main", "in brackets"),
            ("redis+cluster://h:1/5", "a cluster has one database"),
            ("redis+unix://run/r.sock", "begins with `/`: redis+unix:///run"),
            ("redis://u:s3cret@", "host"),
            ("redis://u:s3cret@h?ca=/etc/ca.pem", "`ca` is for TLS: begin with rediss"),
        ];
        for (text, hint) in mistakes {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(hint) && !error.contains("s3cret"), "{text}: {error}");
        }
    }
}
