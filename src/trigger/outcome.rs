//! What became of a trigger.

use std::fmt;
use std::str::FromStr;

/// What became of a trigger; the last word of its history row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Handed over and accepted.
    Sent,
    /// Handed over; a report is outstanding.
    Awaiting,
    /// Handed over, and reported as done.
    Completed,
    /// Refused for good, or out of attempts.
    Failed,
    /// Handed over, and no report came in time.
    TimeoutUnknown,
    /// Nobody knows whether it was handed over.
    InDoubt,
    /// Too late to be of use.
    Expired,
    /// Stepped over while nobody was there to send it.
    Missed,
    /// Not wanted, for the reason given.
    Suppressed,
    /// Withdrawn by its owner or its event.
    Cancelled,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 10] = [
        Self::Sent,
        Self::Awaiting,
        Self::Completed,
        Self::Failed,
        Self::TimeoutUnknown,
        Self::InDoubt,
        Self::Expired,
        Self::Missed,
        Self::Suppressed,
        Self::Cancelled,
    ];

    /// The name in the store, the metrics and the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Awaiting => "awaiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::TimeoutUnknown => "timeout_unknown",
            Self::InDoubt => "in_doubt",
            Self::Expired => "expired",
            Self::Missed => "missed",
            Self::Suppressed => "suppressed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the message may have reached somebody: such a trigger is never planned again.
    pub const fn is_hand_over(self) -> bool {
        matches!(
            self,
            Self::Sent | Self::Awaiting | Self::Completed | Self::InDoubt | Self::TimeoutUnknown
        )
    }

    /// How much is known: a history row is replaced only by one that knows more.
    pub const fn rank(self) -> u8 {
        match self {
            Self::Cancelled | Self::Suppressed | Self::Missed | Self::Expired => 0,
            Self::Failed => 1,
            Self::InDoubt => 2,
            Self::Awaiting => 3,
            Self::TimeoutUnknown => 4,
            Self::Sent => 5,
            Self::Completed => 7,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Outcome {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == name)
            .ok_or_else(|| format!("unknown outcome `{name}`"))
    }
}

/// What is said later of a message that was handed over: by who took it, or by the provider that was to deliver it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reported {
    /// The work that was taken is done.
    Completed,
    /// It failed.
    Failed,
    /// The recipient has the message.
    Delivered,
    /// The recipient will not get it.
    Undelivered,
}

impl Reported {
    /// What became of the trigger, and why.
    pub const fn outcome(self) -> (Outcome, Reason) {
        match self {
            Self::Completed | Self::Delivered => (Outcome::Completed, Reason::None),
            Self::Failed => (Outcome::Failed, Reason::Reported),
            Self::Undelivered => (Outcome::Failed, Reason::Undelivered),
        }
    }

    /// As [`Outcome::rank`], of a message that is known to have been handed over: a failure that is reported says more
    /// than that it was sent. That it arrived is the last word, in whatever order reports come.
    pub const fn rank(self) -> u8 {
        match self {
            Self::Failed | Self::Undelivered => 6,
            Self::Completed | Self::Delivered => Outcome::Completed.rank(),
        }
    }
}

/// Why a trigger ended as it did, as a label: few values, no personal data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Nothing to add.
    None,
    /// The owner has no address for this channel.
    NoAddress,
    /// The owner is disabled.
    Disabled,
    /// The owner muted this channel.
    Muted,
    /// The operator switched this channel off.
    SwitchedOff,
    /// The owner declined the event.
    Declined,
    /// The event was cancelled.
    EventCancelled,
    /// The event or the alarm is gone.
    Withdrawn,
    /// Its owner got as many messages as the channel's limit allows.
    RateLimit,
    /// Another copy of the event tells the same person.
    ToldAnyway,
    /// It was already past when it was asked for.
    Past,
    /// The receiving side refused it for good.
    Refused,
    /// All attempts were used up.
    Exhausted,
    /// The deadline passed.
    Late,
    /// Nobody ran at the time.
    Outage,
    /// The connection was lost where acceptance cannot be known.
    ConnectionLost,
    /// The node died or was paused in mid-send.
    HolderLost,
    /// The event can no longer be read.
    Unreadable,
    /// Who took it says that it failed.
    Reported,
    /// The provider says that the recipient will not get it.
    Undelivered,
    /// No report came in time.
    NoReport,
    /// The owner's endpoint is gone, or was failing for too long.
    EndpointDisabled,
    /// The relay said before that no mail can go to the address.
    DeadAddress,
    /// The local part of the address may lead the relay to another address, which the policy does not allow.
    RoutedAddress,
    /// It was told in the message of another trigger, whose id is the detail.
    Digest,
    /// The database went back in time, and may have forgotten that it was sent.
    Rewound,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 26] = [
        Self::None,
        Self::NoAddress,
        Self::Disabled,
        Self::Muted,
        Self::SwitchedOff,
        Self::Declined,
        Self::EventCancelled,
        Self::Withdrawn,
        Self::RateLimit,
        Self::ToldAnyway,
        Self::Past,
        Self::Refused,
        Self::Exhausted,
        Self::Late,
        Self::Outage,
        Self::ConnectionLost,
        Self::HolderLost,
        Self::Unreadable,
        Self::Reported,
        Self::Undelivered,
        Self::NoReport,
        Self::EndpointDisabled,
        Self::DeadAddress,
        Self::RoutedAddress,
        Self::Digest,
        Self::Rewound,
    ];

    /// The name in the store, the metrics and the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::NoAddress => "no address",
            Self::Disabled => "disabled",
            Self::Muted => "muted",
            Self::SwitchedOff => "switched off",
            Self::Declined => "declined",
            Self::EventCancelled => "event cancelled",
            Self::Withdrawn => "withdrawn",
            Self::RateLimit => "rate limit",
            Self::ToldAnyway => "told anyway",
            Self::Past => "past",
            Self::Refused => "refused",
            Self::Exhausted => "exhausted",
            Self::Late => "late",
            Self::Outage => "outage",
            Self::ConnectionLost => "connection lost",
            Self::HolderLost => "holder lost",
            Self::Unreadable => "unreadable",
            Self::Reported => "reported",
            Self::Undelivered => "undelivered",
            Self::NoReport => "no report",
            Self::EndpointDisabled => "endpoint disabled",
            Self::DeadAddress => "dead address",
            Self::RoutedAddress => "routed address",
            Self::Digest => "digest",
            Self::Rewound => "rewound",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Reason {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|reason| reason.as_str() == name)
            .ok_or_else(|| format!("unknown reason `{name}`"))
    }
}
