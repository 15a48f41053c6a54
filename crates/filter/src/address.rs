//! Addresses of sockets: what the text of a socket holds of its ends, and tests of them.

use crate::ranges::Ranges;
use std::fmt::{Display, Formatter};
use std::net::{IpAddr, SocketAddr};

/// Types of file descriptor whose text is an address.
pub(crate) const INTERNET: [&str; 2] = ["ipv4", "ipv6"];

/// Which end of a socket is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ends {
    Client,
    Server,
    Either,
    /// The text is an IP address, not the name of a socket.
    Itself,
}

/// What of an end is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Ip,
    Net,
    Port,
}

/// IP addresses that start alike. An IPv4 address that is mapped into IPv6 counts as IPv4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Network {
    first: IpAddr,
    bits: u8,
}

impl Network {
    /// Reads an address, or a network such as `10.0.0.0/8`.
    ///
    /// # Errors
    /// A phrase without a full stop: what the text is not.
    pub fn parse(text: &str, is_single: bool) -> Result<Network, String> {
        let (address, bits) = match text.split_once('/') {
            Some(_) if is_single => return Err(format!("\"{text}\" is not an IP address")),
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let wrong = || match is_single {
            true => format!("\"{text}\" is not an IP address"),
            false => format!("\"{text}\" is not a network such as 10.0.0.0/8"),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let canonical = address.to_canonical();
        let (length, mapped) = (width(canonical), width(address) - width(canonical));
        let Some(bits) = bits else { return Ok(Network { first: canonical, bits: length }) };
        let bits: u8 = bits.parse().ok().filter(|&bits| bits <= width(address)).ok_or_else(wrong)?;
        Ok(match bits.checked_sub(mapped) {
            Some(bits) => Network { first: masked(canonical, bits), bits },
            None => Network { first: masked(address, bits), bits },
        })
    }

    fn holds(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && masked(address, self.bits) == self.first
    }
}

/// Number of bits of an address of this version.
fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with only its first `bits` kept.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)).into()),
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)).into()),
    }
}

impl Display for Network {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.first.fmt(f)?;
        if self.bits == width(self.first) { Ok(()) } else { write!(f, "/{}", self.bits) }
    }
}

/// What an end has to fulfil.
#[derive(Clone, Debug)]
pub(crate) enum EndTest {
    Exists,
    Port(Ranges),
    /// It is in one of these.
    Within(Vec<Network>),
}

/// A test of the text of a socket.
#[derive(Clone, Debug)]
pub(crate) struct AddressTest {
    pub ends: Ends,
    pub test: EndTest,
    /// No end may fulfil it, rather than one of them having to.
    pub is_negated: bool,
}

impl AddressTest {
    /// Whether the text passes; one without the end in question never does.
    pub fn matches(&self, text: &str) -> bool {
        if self.ends == Ends::Itself {
            return text.parse().is_ok_and(|ip| self.test.holds(SocketAddr::new(ip, 0)) != self.is_negated);
        }
        let Some((client, server)) = ends_of(text) else { return false };
        let looked_at = match self.ends {
            Ends::Client => [client, None],
            Ends::Server => [None, Some(server)],
            Ends::Either | Ends::Itself => [client, Some(server)],
        };
        let mut ends = looked_at.into_iter().flatten().peekable();
        ends.peek().is_some() && ends.any(|end| self.test.holds(end)) != self.is_negated
    }
}

impl EndTest {
    fn holds(&self, end: SocketAddr) -> bool {
        match self {
            EndTest::Exists => true,
            EndTest::Port(ranges) => ranges.holds(u64::from(end.port())),
            EndTest::Within(networks) => networks.iter().any(|network| network.holds(end.ip())),
        }
    }
}

/// Client and server of `client->server`. The one address of a socket that is bound and not connected counts as a
/// server's.
fn ends_of(text: &str) -> Option<(Option<SocketAddr>, SocketAddr)> {
    match text.split_once("->") {
        Some((client, server)) => Some((Some(client.parse().ok()?), server.parse().ok()?)),
        None => Some((None, text.parse().ok()?)),
    }
}
