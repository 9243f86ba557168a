//! For whom something went wrong once their recipients were named. That may be their server's fault, which a relay passes on:
//! it says nothing of the relay, however often it happens to one owner or at one domain. Pure.

use std::collections::HashSet;
use std::time::Duration;

use crate::channel::smtp::Letter;

/// Owners that are remembered.
const MOST: usize = 1_000;

/// For how long.
const REMEMBERED: Duration = Duration::from_mins(5);

/// Owners, and domains of recipients.
#[derive(Debug, Default)]
pub(super) struct Failing {
    owners: HashSet<u64>,
    domains: HashSet<String>,
    since: Duration,
}

impl Failing {
    /// Notes a message for which something went wrong; whether nothing did so far for its owner, nor for its domain.
    pub(super) fn is_new(&mut self, letter: &Letter, now: Duration) -> bool {
        if now.saturating_sub(self.since) >= REMEMBERED || self.owners.len() >= MOST {
            *self = Self {
                since: now,
                ..Self::default()
            };
        }
        let is_new_owner = self.owners.insert(letter.owner);
        self.domains.insert(letter.to.domain().to_lowercase()) && is_new_owner
    }

    /// Notes that nothing went wrong for a message.
    pub(super) fn forget(&mut self, letter: &Letter) {
        self.owners.remove(&letter.owner);
        self.domains.remove(&letter.to.domain().to_lowercase());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(owner: u64, domain: &str) -> Letter {
        Letter {
            owner,
            sender: None,
            to: format!("jo@{domain}").parse().expect("an address"),
            raw: String::new(),
        }
    }

    #[test]
    fn who_fails_again_or_at_the_same_domain_is_not_new_until_it_goes_well_or_is_long_ago() {
        let now = Duration::from_secs(1_000);
        let mut failing = Failing::default();
        let mut is_new = |owner, domain, now| failing.is_new(&letter(owner, domain), now);
        assert!(is_new(1, "a.org", now));
        assert!(!is_new(1, "b.org", now) && !is_new(2, "A.org", now));
        assert!(is_new(3, "c.org", now));
        assert!(is_new(1, "a.org", now + REMEMBERED), "that was long ago");

        failing.forget(&letter(1, "a.org"));

        assert!(failing.is_new(&letter(1, "a.org"), now + REMEMBERED));
    }
}
