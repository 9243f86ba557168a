//! Whether a relay that refuses one message after the other means the messages or us. Pure.

use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

use lettre::Address;

use crate::channel::smtp::Letter;

/// So many recipients in a row, of whom not one was served: it is not about one of them.
const RECIPIENTS: usize = 10;

/// Owners among whose messages they are, unless there are no more: what one of them wants sent says nothing of the others.
const OWNERS: usize = 5;

/// Domains where they live, unless there are no more: that a relay does not serve one says nothing of the others.
const DOMAINS: usize = 3;

/// How long it is remembered for whom the relay was asked.
const KNOWN: Duration = Duration::from_hours(24);

/// Owners that are not believed, at the most.
const UNBELIEVED: usize = 1_000;

/// What a refusal that may be about us is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// Our sender, before a recipient was named.
    Sender,
    /// Whatever the relay's policy says.
    Policy,
}

/// How we stand with a relay.
///
/// A refusal for reasons of policy ends a message, as it should where a message is at fault. A relay that has us on a list
/// refuses everybody's in the same words, and what an operator can mend must not end them all.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Who was not served since the last who was.
    refused: Parties,
    /// Recipients in a row at whom our sender was refused.
    unwelcome: HashSet<Address>,
    /// For whom the relay was asked lately.
    known: Parties,
    /// Since when.
    known_since: Duration,
    /// Whether what was refused was taken to be about us.
    is_us: bool,
    /// Owners of what was refused when it was taken to be about us and was not: they are not believed again.
    unbelieved: HashSet<u64>,
}

/// Recipients, owners and domains, as many of each as make a difference.
#[derive(Debug, Default)]
struct Parties {
    recipients: HashSet<Address>,
    owners: HashSet<u64>,
    domains: HashSet<String>,
}

impl Parties {
    fn note(&mut self, letter: &Letter) {
        insert_up_to(RECIPIENTS, &mut self.recipients, &letter.to);
        insert_up_to(OWNERS, &mut self.owners, &letter.owner);
        insert_up_to(DOMAINS, &mut self.domains, &letter.to.domain().to_lowercase());
    }
}

fn insert_up_to<T: Clone + Eq + Hash>(most: usize, set: &mut HashSet<T>, value: &T) {
    if set.len() < most {
        set.insert(value.clone());
    }
}

impl Standing {
    /// Forgets whom it knew long ago: they may have nothing to send any more. The time is that of the boot-time clock.
    pub(super) fn look(&mut self, now: Duration) {
        if now.saturating_sub(self.known_since) >= KNOWN {
            self.known = Parties::default();
            self.unbelieved.clear();
            self.known_since = now;
        }
    }

    /// The relay took this message.
    pub(super) fn accepted(&mut self, letter: &Letter) {
        self.known.note(letter);
        let refused = std::mem::take(&mut self.refused);
        // Of few owners, the others' refusals are all that there is to go by.
        if std::mem::take(&mut self.is_us) && self.known.owners.len() == OWNERS {
            for owner in &refused.owners {
                insert_up_to(UNBELIEVED, &mut self.unbelieved, owner);
            }
        }
        self.unwelcome.clear();
    }

    /// The relay refused this message for reasons that may be ours; true where they are, since it has refused so many
    /// others, too, and served nobody.
    pub(super) fn refused(&mut self, letter: &Letter, about: About) -> bool {
        self.known.note(letter);
        if about == About::Policy && self.unbelieved.contains(&letter.owner) {
            return false;
        }
        self.refused.note(letter);
        if about == About::Sender {
            insert_up_to(RECIPIENTS, &mut self.unwelcome, &letter.to);
        } else {
            self.unwelcome.clear();
        }
        let is_everybody = self.refused.recipients.len() == RECIPIENTS
            && self.refused.owners.len() == self.known.owners.len()
            && self.refused.domains.len() == self.known.domains.len();
        self.is_us |= is_everybody;
        is_everybody || self.unwelcome.len() == RECIPIENTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(number: usize, owner: u64, domain: &str) -> Letter {
        Letter {
            owner,
            sender: None,
            to: format!("p{number}@{domain}").parse().unwrap(),
            raw: String::new(),
        }
    }

    /// To one of many people in many places, on behalf of many.
    fn everybodys(number: usize) -> Letter {
        letter(number, number as u64, &format!("d{}.org", number % 4))
    }

    #[test]
    fn many_recipients_in_a_row_are_refused_for_what_we_are() {
        let mut standing = Standing::default();
        for number in 1..RECIPIENTS {
            assert!(!standing.refused(&everybodys(number), About::Policy), "{number}");
        }
        assert!(standing.refused(&everybodys(RECIPIENTS), About::Policy));
        assert!(
            standing.refused(&everybodys(1), About::Policy),
            "and everybody after"
        );
    }

    #[test]
    fn one_recipient_who_is_refused_again_and_again_says_nothing_of_us() {
        let mut standing = Standing::default();
        for about in [About::Policy, About::Sender] {
            assert!((0..100).all(|_| !standing.refused(&everybodys(1), about)));
        }
    }

    #[test]
    fn who_is_served_in_between_shows_that_it_is_not_us() {
        let mut standing = Standing::default();
        for number in 0..100 {
            assert!(!standing.refused(&everybodys(number), About::Policy), "{number}");
            if number % 5 == 0 {
                standing.accepted(&everybodys(number));
            }
        }
    }

    #[test]
    fn what_one_owner_wants_sent_says_nothing_of_the_others() {
        let mut standing = Standing::default();
        standing.accepted(&everybodys(1));
        for number in 0..100 {
            let theirs = letter(number, 77, &format!("d{number}.org"));
            assert!(!standing.refused(&theirs, About::Policy), "{number}");
        }
    }

    #[test]
    fn that_one_domain_is_not_served_says_nothing_of_the_others() {
        let mut standing = Standing::default();
        standing.accepted(&everybodys(1));
        for number in 0..100 {
            let there = letter(number, number as u64, "Refused.example");
            assert!(!standing.refused(&there, About::Policy), "{number}");
        }
    }

    #[test]
    fn where_there_is_one_owner_and_one_domain_they_are_everybody() {
        let mut standing = Standing::default();
        standing.accepted(&letter(0, 1, "company.example"));
        let refused = (1..=RECIPIENTS).filter(|number| {
            let letter = letter(*number, 1, "company.example");
            standing.refused(&letter, About::Policy)
        });
        assert_eq!(refused.count(), 1);
    }

    #[test]
    fn a_sender_who_is_refused_before_a_recipient_is_named_is_ours() {
        let mut standing = Standing::default();
        standing.accepted(&everybodys(1));
        let refused = (1..=RECIPIENTS).filter(|number| {
            let letter = letter(*number, 1, "company.example");
            standing.refused(&letter, About::Sender)
        });
        assert_eq!(refused.count(), 1);
    }

    #[test]
    fn owners_who_were_refused_for_themselves_are_not_taken_for_everybody_twice() {
        let mut standing = Standing::default();
        standing.accepted(&everybodys(99));
        let refuse = |standing: &mut Standing| {
            (1..=50)
                .filter(|n| {
                    standing.refused(&letter(*n, (*n % 6) as u64, &format!("d{n}.org")), About::Policy)
                })
                .count()
        };
        assert!(refuse(&mut standing) > 0, "they are many");
        standing.accepted(&everybodys(99));
        assert_eq!(refuse(&mut standing), 0);
    }

    #[test]
    fn who_has_nothing_to_send_any_more_is_not_waited_for() {
        let mut standing = Standing::default();
        standing.accepted(&letter(0, 2, "gone.example"));
        standing.look(KNOWN);
        let refused = (1..=RECIPIENTS).filter(|number| {
            let letter = letter(*number, 1, "company.example");
            standing.refused(&letter, About::Policy)
        });
        assert_eq!(refused.count(), 1);
    }
}
