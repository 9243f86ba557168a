//! What a node finds out about itself, for whoever asks whether it is ready: whether its clock is right and whether
//! somebody leads. The answers name the cure.

use std::time::Duration;

use chrono::TimeDelta;

use crate::clock::Offset;

/// A wall clock that is further off than this from the database's is wrong.
pub const MOST_OFFSET: TimeDelta = TimeDelta::seconds(1);

/// How long nobody may lead before that is worth a word: an election takes some seconds, and work waits for it unharmed.
const LEADERLESS: Duration = Duration::from_secs(10);

/// Whether the wall clock is right.
pub fn clock(offset: Offset) -> Result<(), String> {
    if !offset.exceeds(MOST_OFFSET) {
        return Ok(());
    }
    let direction = if offset.ahead < TimeDelta::zero() {
        "behind"
    } else {
        "ahead of"
    };
    Err(format!(
        "this node's clock is {} s {direction} the database's: set whichever is wrong, and keep both right with NTP; until \
         then other nodes are given what is due",
        seconds(offset.ahead)
    ))
}

/// What is wrong while a jump of the wall clock is held.
pub fn step(step: TimeDelta) -> Result<(), String> {
    let direction = if step < TimeDelta::zero() { "back" } else { "ahead" };
    Err(format!(
        "this node's clock jumped {direction} by {} s: set it right and keep it right with NTP; the node goes by the old time \
         meanwhile, and by the new time once clock.hold has passed",
        seconds(step)
    ))
}

/// With one decimal, without the sign.
fn seconds(ahead: TimeDelta) -> String {
    let tenths = ahead.abs().num_milliseconds() / 100;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// What a node sees of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// Nobody who leads can be asked.
    Nobody,
    /// Somebody leads, and does not count this node among the members, or not yet among those that vote as it should.
    Outside,
    /// Somebody leads, and this node is what it should be.
    Inside,
}

/// Since when nobody leads, as far as this node knows.
#[derive(Debug, Default)]
pub struct Led {
    last: Option<Duration>,
}

impl Led {
    /// This is what is seen at `elapsed`. Whether that is as it should be.
    pub fn look(&mut self, sight: Sight, elapsed: Duration) -> Result<(), String> {
        if sight != Sight::Nobody {
            self.last = Some(elapsed);
        }
        match sight {
            Sight::Inside => return Ok(()),
            Sight::Outside => {
                return Err(
                    "this node is not let in yet, or was removed: then stop it and delete its cluster.data_dir"
                        .to_owned(),
                );
            }
            Sight::Nobody => {}
        }
        let Some(last) = self.last else {
            return Err(format!("no leader is known yet: {MAJORITY}"));
        };
        let silent = elapsed.saturating_sub(last);
        if silent <= LEADERLESS {
            return Ok(());
        }
        Err(format!("nobody has led for {} s: {MAJORITY}", silent.as_secs()))
    }
}

const MAJORITY: &str = "more than half of the voters must run and reach each other at cluster.listen or cluster.advertise; \
                        `carillon cluster status --config FILE` shows them to whoever may read http.token_file; if most have lost their \
                        cluster.data_dir for good, stop all nodes and use `carillon cluster dissolve`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_wrong_once_it_is_certainly_more_than_a_second_off() {
        let offset = |ahead, error| Offset {
            ahead: TimeDelta::milliseconds(ahead),
            error: TimeDelta::milliseconds(error),
        };
        assert_eq!(clock(offset(1_000, 0)), Ok(()));
        assert_eq!(clock(offset(-5_000, 4_000)), Ok(()), "it may be the round trip");
        let ahead = clock(offset(2_340, 10)).expect_err("it is wrong");
        assert!(ahead.contains("2.3 s ahead of the database's"), "{ahead}");
        let behind = clock(offset(-61_000, 10)).expect_err("it is wrong");
        assert!(behind.contains("61.0 s behind"), "{behind}");
    }

    #[test]
    fn held_jump_names_its_size_and_direction() {
        let ahead = step(TimeDelta::milliseconds(7_200_050)).expect_err("it is held");
        assert!(
            ahead.contains("jumped ahead by 7200.0 s") && ahead.contains("NTP"),
            "{ahead}"
        );
        let back = step(TimeDelta::hours(-1)).expect_err("it is held");
        assert!(back.contains("jumped back by 3600.0 s"), "{back}");
    }

    #[test]
    fn an_election_is_no_reason_not_to_be_ready_but_a_lost_majority_is() {
        let at = Duration::from_secs;
        let mut led = Led::default();
        assert!(
            led.look(Sight::Nobody, at(1))
                .is_err_and(|reason| reason.contains("yet"))
        );
        assert!(
            led.look(Sight::Outside, at(1))
                .is_err_and(|reason| reason.contains("let in"))
        );
        assert_eq!(led.look(Sight::Inside, at(2)), Ok(()));
        assert_eq!(led.look(Sight::Nobody, at(12)), Ok(()));
        let lost = led.look(Sight::Nobody, at(13)).expect_err("it is too long");
        assert!(lost.starts_with("nobody has led for 11 s"), "{lost}");
        assert_eq!(led.look(Sight::Inside, at(14)), Ok(()));
    }
}
