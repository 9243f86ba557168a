//! What a sink has seen.

use std::collections::HashMap;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

/// How late a mail may be where nothing is wrong; loose, since the machine of the tests may be busy.
const LATE: TimeDelta = TimeDelta::seconds(10);

/// A message whose final dot arrived.
#[derive(Debug, Clone)]
pub struct Mail {
    /// Who said so in EHLO.
    pub from: String,
    /// When its MAIL command arrived, by the wall clock.
    pub began: DateTime<Utc>,
    /// When the final dot arrived, by the wall clock.
    pub at: DateTime<Utc>,
    /// The recipients of the envelope.
    pub recipients: Vec<String>,
    /// Whether the sink took responsibility with a 250 that the other side was there to hear.
    pub accepted: bool,
    /// Header and body, with the dots unstuffed and lines ended by `\n`.
    pub raw: String,
}

impl Mail {
    /// A header field, unfolded.
    pub fn header(&self, name: &str) -> String {
        let head = self.raw.split("\n\n").next().unwrap_or_default();
        let unfolded = head.replace("\n ", " ").replace("\n\t", " ");
        unfolded
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(field, _)| field.eq_ignore_ascii_case(name))
            .map_or_else(String::new, |(_, value)| value.trim().to_owned())
    }

    /// Checks that it came at its instant: never before, and not much later.
    pub fn assert_on_time(&self, due: DateTime<Utc>) {
        assert!(self.at >= due, "early: {} before {due}", self.at);
        assert!(self.at - due < LATE, "late: {} for {due}", self.at);
    }

    /// The Message-ID, with its brackets.
    pub fn message_id(&self) -> String {
        self.header("Message-ID")
    }

    /// The trigger it was sent for: the first 32 hexadecimal digits of the Message-ID.
    pub fn trigger_id(&self) -> String {
        let id = self.message_id();
        let digits: Vec<char> = id.chars().collect();
        let found = digits
            .windows(32)
            .find(|window| window.iter().all(char::is_ascii_hexdigit));
        let found = found.unwrap_or_else(|| panic!("Message-ID `{id}` names no trigger"));
        found.iter().collect()
    }
}

/// What the sink has seen so far.
#[derive(Debug, Default, Clone)]
pub struct Log {
    /// Connections.
    pub connections: usize,
    /// When each of them came, by the wall clock.
    pub arrivals: Vec<DateTime<Utc>>,
    /// The recipients that were refused, and when.
    pub refused: Vec<(String, DateTime<Utc>)>,
    /// How long those who hung up in vain had waited for a reply: from the connection, or from the last line they sent.
    pub given_up: Vec<Duration>,
    /// Messages, in the order of their final dots.
    pub mails: Vec<Mail>,
}

impl Log {
    /// How often each Message-ID arrived.
    pub fn by_message_id(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for mail in &self.mails {
            *counts.entry(mail.message_id()).or_default() += 1;
        }
        counts
    }
}
