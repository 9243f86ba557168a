//! How many messages of each owner are under way through a channel, or over a relay's connections. What is under way has
//! no turn any more: where one owner's messages are slow and fill all that may be under way, everybody waits for them. So
//! an owner gets no more than there is left for others, and who has nothing under way needs no more than one place. Pure.

use std::collections::HashMap;

/// The messages under way.
#[derive(Debug, Clone, Default)]
pub struct Seats {
    of: HashMap<u64, usize>,
    total: usize,
}

impl Seats {
    /// Whether one more message of `owner` may be under way where `most` may be.
    pub fn admit(&self, owner: u64, most: usize) -> bool {
        match self.of.get(&owner) {
            // However many another's slow ones are, they count once.
            None => self.of.len() < most,
            Some(own) => self.total + own < most,
        }
    }

    /// How many of `owner` there are.
    pub fn of(&self, owner: u64) -> usize {
        self.of.get(&owner).copied().unwrap_or_default()
    }

    /// Those of the owners who are not such, and those of the owners who are.
    pub fn parted(&self, is_such: impl Fn(u64) -> bool) -> (Self, Self) {
        let mut parts = (Self::default(), Self::default());
        for (owner, count) in &self.of {
            let part = if is_such(*owner) {
                &mut parts.1
            } else {
                &mut parts.0
            };
            part.of.insert(*owner, *count);
            part.total += count;
        }
        parts
    }

    /// How many there are.
    pub const fn total(&self) -> usize {
        self.total
    }

    /// One more message of `owner` is under way.
    pub fn take(&mut self, owner: u64) {
        *self.of.entry(owner).or_default() += 1;
        self.total += 1;
    }

    /// A message of `owner` is not under way any more.
    pub fn leave(&mut self, owner: u64) {
        if let Some(own) = self.of.get_mut(&owner) {
            *own -= 1;
            self.total -= 1;
            if *own == 0 {
                self.of.remove(&owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes seats for `owner` while there are some; returns how many.
    fn fill(seats: &mut Seats, owner: u64, most: usize) -> usize {
        let taken = (0..1_000).take_while(|_| {
            let is_admitted = seats.admit(owner, most);
            if is_admitted {
                seats.take(owner);
            }
            is_admitted
        });
        taken.count()
    }

    #[test]
    fn an_owner_gets_half_of_what_is_left() {
        let mut seats = Seats::default();
        let taken: Vec<usize> = (1..6).map(|owner| fill(&mut seats, owner, 128)).collect();
        assert_eq!(taken, [64, 32, 16, 8, 4]);
    }

    #[test]
    fn who_has_nothing_under_way_does_not_wait_for_anothers_slow_messages() {
        let mut seats = Seats::default();
        fill(&mut seats, 1, 128);
        // They were many while the channel was quick, and it is slow now.
        assert!(!seats.admit(1, 16));
        assert_eq!(fill(&mut seats, 2, 16), 1);
        assert_eq!(fill(&mut seats, 3, 16), 1);
        seats.leave(2);
        assert_eq!(fill(&mut seats, 2, 16), 1);
        for owner in 4..100 {
            fill(&mut seats, owner, 16);
        }
        assert_eq!(seats.of.len(), 16, "no more than may be under way");
        assert!(!seats.admit(99, 16));
    }

    #[test]
    fn one_seat_is_for_whoever_comes_first() {
        let mut seats = Seats::default();
        assert_eq!(fill(&mut seats, 1, 1), 1);
        assert_eq!(fill(&mut seats, 2, 1), 0);
        seats.leave(1);
        assert_eq!(fill(&mut seats, 2, 1), 1);
        assert_eq!(seats.total, 1);
    }
}
