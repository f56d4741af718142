//! Which run an interface belongs to: two on one would each handle every packet.
//!
//! A name among the abstract Unix sockets (unix(7)) is taken, which are those of one network as interfaces are, and
//! given up whatever ends the process.

use super::error::OpenError;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The right to an interface; none where this process may have no such sockets.
pub(super) struct Claim {
    _socket: Option<UnixDatagram>,
}

/// Claims the interface `name`.
///
/// # Errors
/// [`OpenError::WrongType`]: another run has.
pub(super) fn claim(name: &str) -> Result<Claim, OpenError> {
    let address = SocketAddr::from_abstract_name(format!("anabranch/port/{name}"));
    match address.and_then(|address| UnixDatagram::bind_addr(&address)) {
        Err(cause) if cause.kind() == io::ErrorKind::AddrInUse => Err(OpenError::WrongType {
            interface: name.to_owned(),
            what: "another run has this interface, and both would handle every packet",
            instead: format!(
                "end the other one (`ss -xap | grep anabranch/port/{name}` says which process that is), or give another \
                 interface"
            ),
        }),
        bound => Ok(Claim { _socket: bound.ok() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_belongs_to_one() {
        let name = format!("t{}", std::process::id());
        let refused = |name: &str| claim(name).err().map(|why| why.to_string());
        let one = claim(&name).ok();
        assert!(one.is_some() && refused("another").is_none());
        let why = refused(&name).unwrap_or_default();
        assert!(why.starts_with(&name) && why.contains("another run has"), "{why}");
        assert!(why.contains(&format!("anabranch/port/{name}` says which")), "{why}");
        drop(one);
        assert_eq!(refused(&name), None);
    }
}
