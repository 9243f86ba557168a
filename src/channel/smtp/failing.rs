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
    /// When something went well, for whomever.
    well_at: Option<Duration>,
}

/// What a failure says of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    /// It may be in trouble.
    Trouble,
    /// It is there.
    IsThere,
    Nothing,
}

impl Failing {
    /// Something went wrong for a message; whether a reply of the relay said so. It is news where nothing did so far for its
    /// owner, nor for its domain, or where nothing goes well for anybody.
    pub(super) fn failed(&mut self, letter: &Letter, is_reply: bool, now: Duration) -> Says {
        let lately = |at: Duration| now.saturating_sub(at) < REMEMBERED;
        if !lately(self.since) || self.owners.len() >= MOST {
            self.owners.clear();
            self.domains.clear();
            self.since = now;
        }
        let is_new_owner = self.owners.insert(letter.owner);
        let is_new = self.domains.insert(letter.to.domain().to_lowercase()) && is_new_owner;
        if is_new || !self.well_at.is_some_and(lately) {
            Says::Trouble
        } else if is_reply {
            Says::IsThere
        } else {
            Says::Nothing
        }
    }

    /// The relay took a message, or refused it for what it is.
    pub(super) fn served(&mut self, letter: &Letter, now: Duration) {
        self.well_at = Some(now);
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
    fn who_fails_again_or_at_the_same_domain_is_no_news_while_others_are_served() {
        let now = Duration::from_secs(1_000);
        let later = now + REMEMBERED;
        let mut failing = Failing::default();
        let says =
            |failing: &mut Failing, owner, domain, now| failing.failed(&letter(owner, domain), true, now);
        assert_eq!(says(&mut failing, 1, "a.org", now), Says::Trouble);
        assert_eq!(
            says(&mut failing, 1, "a.org", now),
            Says::Trouble,
            "nobody is served"
        );
        failing.served(&letter(9, "well.org"), now);
        assert_eq!(says(&mut failing, 1, "b.org", now), Says::IsThere);
        assert_eq!(says(&mut failing, 2, "A.org", now), Says::IsThere);
        let lost = failing.failed(&letter(1, "a.org"), false, now);
        assert_eq!(lost, Says::Nothing);
        assert_eq!(says(&mut failing, 3, "c.org", now), Says::Trouble);
        failing.served(&letter(1, "a.org"), now);
        assert_eq!(
            says(&mut failing, 1, "a.org", now),
            Says::Trouble,
            "it went well before"
        );
        assert_eq!(
            says(&mut failing, 1, "a.org", later),
            Says::Trouble,
            "that is long ago"
        );
        assert_eq!(
            says(&mut failing, 1, "a.org", later),
            Says::Trouble,
            "and nobody is served"
        );
    }
}
