//! Where calls may go. People name the targets, so that without a guard they would call from inside of the network:
//! the database next door, or what a cloud tells its machines about themselves (SSRF).
//!
//! An address is looked at twice, since each look misses something: the host of the URL before the call, because an
//! address that is written out is never resolved; and inside of the resolver that the connection uses, because a name may
//! mean another address every time it is asked for.

use std::fmt;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;
use ipnet::Ipv4Net;
use ipnet::Ipv6Net;
use url::Host;
use url::Url;

/// Bytes of a target's URL at the most.
const LONGEST: usize = 2_000;

/// A network that calls may go to although the guard keeps them from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(address.into()));
        }
        let network: IpNet = text
            .parse()
            .map_err(|_| format!("`{text}` is no network: write it as 10.1.0.0/16 or fd00::/8"))?;
        if network.trunc() != network {
            return Err(format!(
                "`{text}` names an address inside of a network: write {}",
                network.trunc()
            ));
        }
        Ok(Self(network))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which addresses may be called.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    allowed: Arc<[Network]>,
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the public Internet")?;
        self.allowed
            .iter()
            .try_for_each(|network| write!(f, ", {network}"))
    }
}

/// How a call travels, which says where it may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Encrypted: everywhere on the public Internet, and where the operator allows it.
    Https,
    /// In the clear: only where the operator allows it.
    Http,
}

/// Where calls go, checked as far as it can be without resolving its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The whole address.
    pub url: Url,
    /// How the call travels.
    pub scheme: Scheme,
}

impl Target {
    /// Host and port: what shares the limits of one endpoint.
    pub fn endpoint(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        format!("{host}:{}", self.url.port_or_known_default().unwrap_or_default())
    }
}

impl Guard {
    /// A guard that lets calls go to `allowed`, too.
    pub fn new(allowed: Vec<Network>) -> Self {
        Self {
            allowed: allowed.into(),
        }
    }

    /// Reads the address of a target.
    ///
    /// # Errors
    /// What is wrong with it and the cure. It names the host at the most: paths of webhooks are often secrets.
    pub fn target(&self, text: &str) -> Result<Target, String> {
        if text.len() > LONGEST {
            return Err(format!("is longer than {LONGEST} bytes: use a shorter address"));
        }
        let url = Url::parse(text)
            .map_err(|error| format!("is no URL ({error}): write it as https://example.org/hook"))?;
        let scheme = match url.scheme() {
            "https" => Scheme::Https,
            "http" => Scheme::Http,
            _ => return Err("is no web address: it must begin with https://".to_owned()),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "has a user name or password in it: take it out, calls are signed instead".to_owned(),
            );
        }
        self.host(&url, scheme)?;
        Ok(Target { url, scheme })
    }

    fn host(&self, url: &Url, scheme: Scheme) -> Result<(), String> {
        let address = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            Some(Host::Domain(_)) if scheme == Scheme::Http && self.allowed.is_empty() => {
                return Err(in_the_clear());
            }
            Some(Host::Domain(_)) => return Ok(()),
            None => return Err("names no host: write it as https://example.org/hook".to_owned()),
        };
        if self.admits(address, scheme) {
            return Ok(());
        }
        if is_public(address) {
            return Err(in_the_clear());
        }
        Err(format!(
            "leads to `{address}`, which is not on the public Internet: the operator may allow it in \
             channels.webhook.allow_networks"
        ))
    }

    /// Whether a call may go to this address.
    pub fn admits(&self, address: IpAddr, scheme: Scheme) -> bool {
        let is_allowed = self.allowed.iter().any(|network| network.0.contains(&address));
        is_allowed || (scheme == Scheme::Https && is_public(address))
    }
}

fn in_the_clear() -> String {
    "is not encrypted: use https://, or have the operator allow its network in channels.webhook.allow_networks"
        .to_owned()
}

/// Whether an address is somebody's on the public Internet, by the registries of special addresses of IANA (RFC 6890).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !SPECIAL_V4.iter().any(|network| network.contains(&address)),
        // What is public is all in one eighth. Everything else is private, local, a group, or an IPv4 address in
        // disguise: mapped, compatible, or translated (64:ff9b::/96).
        IpAddr::V6(address) => {
            GLOBAL_V6.contains(&address) && !SPECIAL_V6.iter().any(|network| network.contains(&address))
        }
    }
}

const fn v4(a: u8, b: u8, c: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, 0), length)
}

const fn v6(a: u16, b: u16, length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), length)
}

const SPECIAL_V4: [Ipv4Net; 18] = [
    v4(0, 0, 0, 8),       // this network
    v4(10, 0, 0, 8),      // private
    v4(100, 64, 0, 10),   // between a provider and its customers (CGNAT)
    v4(127, 0, 0, 8),     // loopback
    v4(169, 254, 0, 16),  // link-local, and what clouds tell their machines
    v4(172, 16, 0, 12),   // private
    v4(192, 0, 0, 24),    // protocols of the IETF
    v4(192, 0, 2, 24),    // documentation
    v4(192, 31, 196, 24), // AS112
    v4(192, 52, 193, 24), // AMT
    v4(192, 88, 99, 24),  // relays of 6to4
    v4(192, 168, 0, 16),  // private
    v4(192, 175, 48, 24), // AS112
    v4(198, 18, 0, 15),   // benchmarks
    v4(198, 51, 100, 24), // documentation
    v4(203, 0, 113, 24),  // documentation
    v4(224, 0, 0, 4),     // multicast
    v4(240, 0, 0, 4),     // reserved, and broadcast
];

const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 3);

const SPECIAL_V6: [Ipv6Net; 5] = [
    v6(0x2001, 0, 23),     // protocols of the IETF: Teredo, benchmarks, ORCHID
    v6(0x2001, 0xdb8, 32), // documentation
    v6(0x2002, 0, 16),     // 6to4
    v6(0x2620, 0x4f, 32),  // AS112, rounded up
    v6(0x3fff, 0, 20),     // documentation
];

#[cfg(test)]
mod tests;
