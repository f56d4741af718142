//! A connection to one server, on which nothing is waited for longer than it may take. A socket's own timeout is for
//! each read: of a server or a line that dribbles an answer there would be as many as it has bytes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::ToSocketAddrs as _;
use std::time::{Duration, Instant};

use redis::io::tcp::socket2::{SockAddr, Socket, Type};
use redis::{Cmd, ConnectionAddr, ConnectionInfo, Parser, RedisConnectionInfo, RedisError, Value};

use super::address::Address;

#[cfg(feature = "redis-tls")]
type Tls = rustls::StreamOwned<rustls::ClientConnection, Timed>;

/// A socket of which no read or write takes longer than until then.
struct Timed {
    socket: Socket,
    until: Instant,
}

impl Timed {
    /// Connects to the first of these that takes it.
    fn open(address: &ConnectionAddr, until: Instant) -> io::Result<Self> {
        let addresses: Vec<SockAddr> = match address {
            ConnectionAddr::Unix(path) => vec![SockAddr::unix(path)?],
            ConnectionAddr::Tcp(host, port) => {
                (host.as_str(), *port).to_socket_addrs()?.map(SockAddr::from).collect()
            }
            _ => Vec::new(),
        };
        let mut last = io::Error::new(ErrorKind::NotFound, "the host has no address");
        for (address, others) in addresses.iter().zip((0..addresses.len() as u32).rev()) {
            let timed = Self { socket: Socket::new(address.domain(), Type::STREAM, None)?, until };
            // One that is silent leaves time for the others.
            match timed.socket.connect_timeout(address, timed.left()? / (others + 1)) {
                Ok(()) => {
                    // The end of a message is not to wait until the server has acknowledged the rest.
                    let _ = timed.socket.set_tcp_nodelay(true);
                    return Ok(timed);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        // Less than a microsecond would be none, which to a socket is for ever.
        let least = Duration::from_micros(1);
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left.max(least)) }
    }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(into)
    }
}

impl Write for Timed {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is over such a socket.
trait Stream: Read + Write + Send {
    fn timed(&mut self) -> &mut Timed;
}

impl Stream for Timed {
    fn timed(&mut self) -> &mut Timed {
        self
    }
}

#[cfg(feature = "redis-tls")]
impl Stream for Tls {
    fn timed(&mut self) -> &mut Timed {
        &mut self.sock
    }
}

/// A connection to a server that has let us in. One that has failed is to be dropped: answers may come yet.
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    parser: Parser,
}

impl Wire {
    /// Connects, and says what `to` has of user, password and database, within the timeout of `address`.
    ///
    /// # Errors
    /// [`redis::ErrorKind::AuthenticationFailed`] where the server does not take user and password, what it says where
    /// it has not got the database.
    pub(super) fn open(to: &ConnectionInfo, address: &Address) -> Result<Self, RedisError> {
        let until = Instant::now() + address.timeout;
        let timed = Timed::open(to.addr(), until).map_err(|why| late(why, address.timeout))?;
        let stream = over(timed, to.addr(), address)?;
        let mut wire = Self { stream, parser: Parser::new() };
        wire.log_in(to.redis_settings(), until).map_err(|why| late(why, address.timeout))?;
        Ok(wire)
    }

    fn log_in(&mut self, as_whom: &RedisConnectionInfo, until: Instant) -> Result<(), RedisError> {
        let left = || until.saturating_duration_since(Instant::now());
        if let Some(password) = as_whom.password() {
            let mut auth = redis::cmd("AUTH");
            auth.arg(as_whom.username()).arg(password);
            self.ask_one(&auth, left()).map_err(not_let_in)?;
        }
        if as_whom.db() != 0 {
            self.ask_one(redis::cmd("SELECT").arg(as_whom.db()), left())?;
        }
        Ok(())
    }

    /// What is answered to a command within that time; an error of the server is one.
    pub(super) fn ask_one(&mut self, command: &Cmd, within: Duration) -> Result<Value, RedisError> {
        let answers = self.ask(&[command.get_packed_command()], within, within)?;
        answers.into_iter().next().unwrap_or_default().extract_error()
    }

    /// Sends these commands and gives the answer to each: none takes longer than `each`, and all no longer than `all`.
    pub(super) fn ask(
        &mut self,
        packed: &[Vec<u8>],
        each: Duration,
        all: Duration,
    ) -> Result<Vec<Value>, RedisError> {
        let end = Instant::now() + all;
        self.wait(each, end);
        let sent = self.stream.write_all(&packed.concat()).and_then(|()| self.stream.flush());
        if let Err(why) = sent {
            // Before it closed the connection the server may have said why.
            let said = self.parser.parse_value(&mut self.stream).and_then(Value::extract_error);
            return Err(said.err().filter(|said| !said.is_io_error()).unwrap_or(late(why, each)));
        }
        let mut answers = Vec::with_capacity(packed.len());
        while answers.len() < packed.len() {
            let answer = self.parser.parse_value(&mut self.stream);
            match answer.map_err(|why| late(why, each))? {
                Value::Push { .. } => {}
                answer => {
                    answers.push(answer);
                    self.wait(each, end);
                }
            }
        }
        Ok(answers)
    }

    /// From now on for so long, and not beyond `end`.
    fn wait(&mut self, each: Duration, end: Instant) {
        self.stream.timed().until = end.min(Instant::now() + each);
    }
}

/// With TLS where the address says so; that is agreed on within the same time, or it is said that it is not.
#[cfg(feature = "redis-tls")]
fn over(
    mut timed: Timed,
    to: &ConnectionAddr,
    address: &Address,
) -> Result<Box<dyn Stream>, RedisError> {
    let ConnectionAddr::Tcp(host, _) = to else { return Ok(Box::new(timed)) };
    if !address.is_secure() {
        return Ok(Box::new(timed));
    }
    let trust = crate::trust::trusting(address.authority.as_deref()).map_err(io::Error::other)?;
    let name = host.clone().try_into().map_err(io::Error::other)?;
    let mut tls = rustls::ClientConnection::new(trust, name).map_err(io::Error::other)?;
    tls.complete_io(&mut timed).map_err(|why| {
        let why = late(why, address.timeout);
        let kind = if why.is_timeout() { ErrorKind::TimedOut } else { ErrorKind::Other };
        io::Error::new(kind, format!("{}: {why}", crate::trust::NO_TLS))
    })?;
    Ok(Box::new(Tls::new(tls, timed)))
}

#[cfg(not(feature = "redis-tls"))]
fn over(timed: Timed, _: &ConnectionAddr, _: &Address) -> Result<Box<dyn Stream>, RedisError> {
    Ok(Box::new(timed))
}

/// Of a time that is over, sockets say only that they have nothing.
fn late(why: impl Into<RedisError>, within: Duration) -> RedisError {
    let why = why.into();
    match why.is_timeout() {
        true => {
            let says = format!("no answer within {} ms", within.as_millis());
            io::Error::new(ErrorKind::TimedOut, says).into()
        }
        false => why,
    }
}

/// What an answer to user and password says; of a server that takes nobody, whoever it is, that.
fn not_let_in(why: RedisError) -> RedisError {
    const ANYBODY: [&str; 5] =
        ["DENIED", "max number of clients", "unknown command", "LOADING", "MASTERDOWN"];
    let says = why.to_string();
    if why.is_io_error() || ANYBODY.iter().any(|word| says.contains(word)) {
        return why;
    }
    (redis::ErrorKind::AuthenticationFailed, "nobody is let in so", says).into()
}
