//! From names to addresses that may be called. The connection goes to what comes out of here and nowhere else, so that a
//! name cannot be one thing when it is looked at and another when it is called.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use reqwest::dns::Addrs;
use reqwest::dns::Name;
use reqwest::dns::Resolve;
use reqwest::dns::Resolving;
use tokio::sync::Semaphore;

use crate::channel::webhook::Guard;
use crate::channel::webhook::Scheme;

/// Addresses of one name that are tried.
const ADDRESSES: usize = 8;

/// Names that are looked up at once: each lookup holds a thread, and a name server that does not answer holds it long.
const LOOKUPS: usize = 64;

/// Asks for the addresses of a name.
pub type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// Asks the system, as every other program does.
pub fn system() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

/// Every address of the name is one that must not be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "its name leads to no address that may be called: the operator may allow one in channels.webhook.allow_networks"
)]
pub struct Blocked;

/// Resolves names for calls that travel in one way.
pub struct Resolver {
    lookup: Lookup,
    guard: Guard,
    scheme: Scheme,
    lookups: Arc<Semaphore>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver")
            .field("scheme", &self.scheme)
            .finish_non_exhaustive()
    }
}

impl Resolver {
    /// A resolver that asks `lookup`, and lets out what `guard` admits.
    pub fn new(lookup: Lookup, guard: Guard, scheme: Scheme) -> Self {
        Self {
            lookup,
            guard,
            scheme,
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
        }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let looking = (self.lookup)(name.as_str().to_owned());
        let (guard, scheme) = (self.guard.clone(), self.scheme);
        let lookups = Arc::clone(&self.lookups);
        Box::pin(async move {
            let _permit = lookups.acquire_owned().await?;
            let mut found = looking.await?;
            found.retain(|address| guard.admits(*address, scheme));
            found.truncate(ADDRESSES);
            if found.is_empty() {
                return Err(Blocked.into());
            }
            let addresses = found.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}
