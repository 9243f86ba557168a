//! Whether a relay that refuses one message after the other means the messages or us. Pure.

use std::collections::HashSet;

use lettre::Address;

/// So many recipients in a row, of whom not one was served: it is not about them.
const ENOUGH: usize = 10;

/// How we stand with a relay.
///
/// A refusal for reasons of policy ends a message, as it should where a message is at fault. A relay that has us on a list
/// refuses everybody's in the same words, and what an operator can mend must not end them all.
#[derive(Debug, Default)]
pub(super) struct Standing {
    refused: HashSet<Address>,
}

impl Standing {
    /// The relay took a message.
    pub(super) fn accepted(&mut self) {
        self.refused.clear();
    }

    /// The relay refused a message to this recipient for reasons that may be ours; true where they are, since it has
    /// refused so many others, too, and served nobody.
    pub(super) fn refused(&mut self, recipient: &Address) -> bool {
        if self.refused.len() < ENOUGH {
            self.refused.insert(recipient.clone());
        }
        self.refused.len() == ENOUGH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(number: usize) -> Address {
        format!("p{number}@example.org").parse().unwrap()
    }

    #[test]
    fn many_recipients_in_a_row_are_refused_for_what_we_are() {
        let mut standing = Standing::default();
        for number in 1..ENOUGH {
            assert!(!standing.refused(&person(number)), "{number}");
        }
        assert!(standing.refused(&person(ENOUGH)));
        assert!(standing.refused(&person(1)), "and everybody after");
    }

    #[test]
    fn one_recipient_who_is_refused_again_and_again_says_nothing_of_us() {
        let mut standing = Standing::default();
        assert!((0..100).all(|_| !standing.refused(&person(1))));
    }

    #[test]
    fn who_is_served_in_between_shows_that_it_is_not_us() {
        let mut standing = Standing::default();
        for number in 0..100 {
            assert!(!standing.refused(&person(number)), "{number}");
            if number % 5 == 0 {
                standing.accepted();
            }
        }
    }
}
