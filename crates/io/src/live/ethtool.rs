//! What a driver is asked about its interface and told to do: `ethtool` requests (linux/ethtool.h).
//! This is why there is `unsafe` here: the system call takes pointers, whose length it does not know.

use super::interface::control;
use super::system::InterfaceRequest;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

const GET_DRIVER: u32 = 0x03;
const GET_LINK: u32 = 0x0a;
const GET_MERGING: u32 = 0x2b;
const GET_FIELDS: u32 = 0x29;
const SET_FIELDS: u32 = 0x2a;
const GET_CHANNELS: u32 = 0x3c;
const GET_SPREADING: u32 = 0x46;
const SET_SPREADING: u32 = 0x47;
/// Longest indirection table and key, in words and bytes, that are believed.
const LONGEST_TABLE: usize = 4_096;
const LONGEST_KEY: usize = 512;
/// Where the table begins in `struct ethtool_rxfh`, in words.
const HEAD: usize = 6;
/// Words of `struct ethtool_rxnfc`, and some to spare.
const RULE: usize = 64;
/// Words of `struct ethtool_drvinfo`, and some to spare.
const DRIVER: usize = 64;
/// Words of `struct ethtool_channels`, and some to spare.
const CHANNELS: usize = 16;

/// How a NIC spreads packets over its receive queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spreading {
    /// The queue of each value of the low bits of the hash.
    pub table: Vec<u32>,
    /// The key of the hash.
    pub key: Vec<u8>,
    /// The hash function, as a bit of linux/ethtool.h; [`TOEPLITZ`](Self::TOEPLITZ) is one.
    pub function: u8,
}

impl Spreading {
    /// The Toeplitz hash.
    pub const TOEPLITZ: u8 = 1;
}

/// Queues of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Receive queues in use.
    pub receive: u32,
    /// Receive queues that there could be.
    pub most: u32,
    /// Whether a queue is for sending too.
    pub are_combined: bool,
}

impl Channels {
    /// The command that gives the interface `name` so many.
    pub fn command(self, name: &str, queues: usize) -> String {
        let kind = if self.are_combined { "combined" } else { "rx" };
        format!("ethtool -L {name} {kind} {queues}")
    }
}

/// A driver that is asked. Each answer may be an error: that it does not do that, or that this process may
/// not ask (`ENOTSUPP`, `EPERM`).
pub trait Driver {
    /// How packets are spread.
    ///
    /// # Errors
    /// As `ioctl(2)` has them.
    fn spreading(&mut self) -> io::Result<Spreading>;

    /// Has packets spread so.
    ///
    /// # Errors
    /// As `ioctl(2)` has them.
    fn set_spreading(&mut self, spreading: &Spreading) -> io::Result<()>;

    /// The fields that packets of a kind (`TCP_V4_FLOW` and others) are hashed by (`RXH_…`).
    ///
    /// # Errors
    /// As `ioctl(2)` has them.
    fn fields(&mut self, kind: u32) -> io::Result<u64>;

    /// Has packets of a kind hashed by these fields.
    ///
    /// # Errors
    /// As `ioctl(2)` has them.
    fn set_fields(&mut self, kind: u32, fields: u64) -> io::Result<()>;
}

impl Driver for Box<dyn Driver + Send> {
    fn spreading(&mut self) -> io::Result<Spreading> {
        (**self).spreading()
    }

    fn set_spreading(&mut self, spreading: &Spreading) -> io::Result<()> {
        (**self).set_spreading(spreading)
    }

    fn fields(&mut self, kind: u32) -> io::Result<u64> {
        (**self).fields(kind)
    }

    fn set_fields(&mut self, kind: u32, fields: u64) -> io::Result<()> {
        (**self).set_fields(kind, fields)
    }
}

/// The driver of an interface.
#[derive(Debug)]
pub struct Interface {
    name: String,
    socket: OwnedFd,
}

impl Interface {
    /// The driver of the interface `name`.
    ///
    /// # Errors
    /// There are no more file descriptors.
    pub fn named(name: &str) -> io::Result<Self> {
        Ok(Self { name: name.to_owned(), socket: control()? })
    }

    /// The driver's name.
    ///
    /// # Errors
    /// As `ioctl(2)` has them.
    pub fn driver(&self) -> io::Result<String> {
        let words = self.ask::<DRIVER>(&[GET_DRIVER])?;
        let bytes = words[1..9].iter().flat_map(|word| word.to_ne_bytes());
        let name: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    /// Whether it has a link.
    ///
    /// # Errors
    /// As `ioctl(2)` has them.
    pub fn has_link(&self) -> io::Result<bool> {
        Ok(self.ask::<2>(&[GET_LINK])?[1] != 0)
    }

    /// Whether packets are merged as they are received (generic receive offload).
    ///
    /// # Errors
    /// As `ioctl(2)` has them.
    pub fn merges(&self) -> io::Result<bool> {
        Ok(self.ask::<2>(&[GET_MERGING])?[1] != 0)
    }

    /// Its queues.
    ///
    /// # Errors
    /// As `ioctl(2)` has them.
    pub fn channels(&self) -> io::Result<Channels> {
        let words = self.ask::<CHANNELS>(&[GET_CHANNELS])?;
        // Those for receiving alone, and those for both ways.
        let (receive, most) = (words[5] + words[8], words[1] + words[4]);
        Ok(Channels { receive, most, are_combined: words[4] != 0 })
    }

    /// Asks with the words of `request`, and zeros behind them; returns what the driver made of them.
    fn ask<const N: usize>(&self, request: &[u32]) -> io::Result<[u32; N]> {
        let mut words = [0; N];
        words.iter_mut().zip(request).for_each(|(word, asked)| *word = *asked);
        // SAFETY: each caller gives room for more than the structure of its request.
        unsafe { self.command(&mut words)? };
        Ok(words)
    }

    /// # Safety
    /// `words` has room for the whole structure of the request that its first word is, and for the arrays
    /// behind it whose lengths it holds.
    unsafe fn command(&self, words: &mut [u32]) -> io::Result<()> {
        let mut request = InterfaceRequest::new(&self.name);
        let place = words.as_mut_ptr().expose_provenance();
        request.value[..size_of::<usize>()].copy_from_slice(&place.to_ne_bytes());
        let (fd, request) = (self.socket.as_raw_fd(), std::ptr::from_mut(&mut request));
        // SAFETY: the request points to `words`, which nobody else uses meanwhile, and which the caller has
        // made long enough.
        match unsafe { libc::ioctl(fd, libc::SIOCETHTOOL, request) } {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Driver for Interface {
    fn spreading(&mut self) -> io::Result<Spreading> {
        let sizes = self.ask::<16>(&[GET_SPREADING])?;
        let table = (sizes[2] as usize).min(LONGEST_TABLE);
        let key = (sizes[3] as usize).min(LONGEST_KEY);
        let mut words = vec![0; HEAD + table + key.div_ceil(4)];
        words[..4].copy_from_slice(&[GET_SPREADING, 0, table as u32, key as u32]);
        // SAFETY: behind the head there is room for a table and a key of these lengths; a driver with others
        // refuses the request.
        unsafe { self.command(&mut words)? };
        let key_bytes = words[HEAD + table..].iter().flat_map(|word| word.to_ne_bytes());
        Ok(Spreading {
            table: words[HEAD..HEAD + table].to_vec(),
            key: key_bytes.take(key).collect(),
            function: words[4].to_ne_bytes()[0],
        })
    }

    fn set_spreading(&mut self, spreading: &Spreading) -> io::Result<()> {
        let Spreading { table, key, function } = spreading;
        let lengths = [SET_SPREADING, 0, table.len() as u32, key.len() as u32];
        let mut words = lengths.to_vec();
        words.extend([u32::from_ne_bytes([*function, 0, 0, 0]), 0]);
        words.extend(table);
        words.extend(key.chunks(4).map(|some| {
            let mut four = [0; 4];
            four.iter_mut().zip(some).for_each(|(place, byte)| *place = *byte);
            u32::from_ne_bytes(four)
        }));
        // SAFETY: behind the head stand a table and a key of the lengths that it holds.
        unsafe { self.command(&mut words) }
    }

    fn fields(&mut self, kind: u32) -> io::Result<u64> {
        let words = self.ask::<RULE>(&[GET_FIELDS, kind])?;
        let [a, b, c, d] = words[2].to_ne_bytes();
        let [e, f, g, h] = words[3].to_ne_bytes();
        Ok(u64::from_ne_bytes([a, b, c, d, e, f, g, h]))
    }

    fn set_fields(&mut self, kind: u32, fields: u64) -> io::Result<()> {
        let [a, b, c, d, e, f, g, h] = fields.to_ne_bytes();
        let (low, high) = (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]));
        self.ask::<RULE>(&[SET_FIELDS, kind, low, high]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_spreads_nothing() {
        let mut driver = Interface::named("lo").unwrap();
        assert!(driver.has_link().unwrap());
        assert!(driver.spreading().is_err() && driver.fields(1).is_err());
        assert!(driver.set_spreading(&Spreading::default()).is_err());
        assert!(driver.channels().is_err());
    }

    #[test]
    fn an_interface_that_is_not_there_is_told() {
        let driver = Interface::named("no-such-one").unwrap();
        let error = driver.driver().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
