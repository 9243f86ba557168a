//! Stand-alone alarms: what programs ask for without an event. Their wishes, triggers and history are rows like those of
//! events; beside them stands one row for each alarm, with what was asked for and how it is going.

use std::fmt;
use std::str::FromStr;

use chrono::DateTime;
use chrono::Utc;
use serde::Deserialize;
use serde::Serialize;

use crate::store::Changed;
use crate::store::Edit;
use crate::store::Group;
use crate::trigger::AlarmId;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::Wish;
use crate::trigger::firings::Firings;

/// How a stand-alone alarm is going.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AlarmStatus {
    /// It will fire, or is paused.
    Active,
    /// It has fired, and will not again.
    Fired,
    /// It could not be handed over, or its target says that it failed.
    Failed,
    /// It was called off.
    Cancelled,
}

impl AlarmStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Active, Self::Fired, Self::Failed, Self::Cancelled];

    /// The name in the store and the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Fired => "fired",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for AlarmStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AlarmStatus {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|status| status.as_str() == name);
        known.ok_or_else(|| format!("unknown status `{name}`: use active, fired, failed or cancelled"))
    }
}

/// What was asked for, beside when and through what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AlarmTerms {
    /// The cron expression of a series.
    pub cron: Option<String>,
    /// The IANA name of the zone in which the series is read.
    pub time_zone: Option<String>,
    /// What is called instead of the owner's own webhook.
    pub target: Option<String>,
    /// What it is called.
    pub label: String,
    /// What it says.
    pub wake_message: String,
    /// What it belongs to, in words of who asked for it.
    pub conversation_id: Option<String>,
    /// How often a firing is tried; as the channel's configuration says if none.
    pub attempts: Option<u32>,
    /// The pause after the first failure, in milliseconds; it doubles.
    pub backoff_ms: Option<u64>,
    /// How long one call may take, in milliseconds.
    pub dispatch_timeout_ms: Option<u64>,
    /// From when on nothing is fired any more.
    pub expires_at: Option<DateTime<Utc>>,
    /// Who asked for it.
    pub created_by: Option<String>,
    /// By what way it was asked for.
    pub created_via: Option<String>,
}

/// A stand-alone alarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standalone {
    /// Whose it is.
    pub owner: OwnerId,
    /// Its name.
    pub id: AlarmId,
    /// How it is going.
    pub status: AlarmStatus,
    /// Whether nothing is planned until it is resumed.
    pub paused: bool,
    /// The instant of its next firing; of its last one where there is no next.
    pub fire_at: DateTime<Utc>,
    /// The way out.
    pub channel: ChannelKind,
    /// What else was asked for.
    pub terms: AlarmTerms,
    /// What its target is given back, byte for byte: a JSON document.
    pub payload: Option<String>,
    /// Its owner's own name for it, good for ever.
    pub key: Option<String>,
    /// The name of the request that created it, good for a day.
    pub request_key: Option<String>,
    /// What that request said, as a hash.
    pub request_hash: String,
    /// When it was asked for.
    pub created_at: DateTime<Utc>,
    /// When it was last written; only rises.
    pub updated_at: DateTime<Utc>,
    /// When it was last handed over.
    pub last_fired_at: Option<DateTime<Utc>>,
    /// Why it was last not handed over.
    pub last_error: Option<String>,
    /// How many firings have failed.
    pub failure_count: u64,
}

impl Standalone {
    /// What its triggers belong to.
    pub fn wish(&self) -> Wish {
        Wish::standalone(self.owner.clone(), &self.id, self.channel)
    }

    /// Whether it fires once or is a series.
    pub const fn kind(&self) -> &'static str {
        if self.terms.cron.is_some() { "cron" } else { "once" }
    }

    /// When it comes again; none where it fires once. The error says why that cannot be read.
    pub fn firings(&self) -> Option<Result<Firings, String>> {
        let cron = self.terms.cron.as_deref()?;
        let zone = self.terms.time_zone.as_deref().unwrap_or("UTC");
        Some(Firings::read(
            (cron, zone),
            self.created_at,
            self.terms.expires_at,
        ))
    }

    /// Whether nothing of it may be sent, whatever was planned. One that may have arrived counts as fired, and is tried
    /// again all the same.
    pub fn is_called_off(&self) -> bool {
        self.status == AlarmStatus::Cancelled || self.paused
    }

    /// Whether a firing is to come.
    pub fn is_live(&self) -> bool {
        self.status == AlarmStatus::Active && !self.paused
    }
}

/// Which stand-alone alarm an edit is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlarmAt {
    /// Whose.
    pub owner: OwnerId,
    /// Its name; a fresh one where it is about to be created.
    pub id: AlarmId,
    /// Where one with this name of its owner's exists, that one is meant.
    pub key: Option<String>,
    /// Where a request of this name created one since then, that one is meant.
    pub request: Option<(String, DateTime<Utc>)>,
}

/// What becomes of a stand-alone alarm.
#[derive(Debug, Clone)]
pub enum AlarmEdit {
    /// Nothing.
    Leave,
    /// It reads like this from now on, and its triggers are put right.
    Put(Box<Standalone>, Edit),
    /// It stays as it is, and whoever asked is told why.
    Refuse(AlarmRefusal),
}

/// Why a change of a stand-alone alarm is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlarmRefusal {
    /// There is no such alarm.
    Unknown,
    /// It is not what the caller saw.
    Changed,
    /// It is in no state for that; the reason is for the caller.
    Conflict(String),
    /// What was asked for makes no sense: the field, and why.
    Invalid(&'static str, String),
    /// Another alarm was asked for by the same name.
    OtherContent(&'static str),
}

/// Takes the decision about a stand-alone alarm inside its transaction.
pub trait AlarmEditor: Send + Sync {
    /// What becomes of it, given its row and everything that it owes.
    fn edit(&self, at: &AlarmAt, stored: Option<&Standalone>, group: &Group, now: DateTime<Utc>)
    -> AlarmEdit;
}

/// What became of one edit.
#[derive(Debug, Clone)]
pub struct Altered {
    /// The alarm as it is now; none where there is none.
    pub alarm: Option<Standalone>,
    /// Whether it was there before.
    pub existed: bool,
    /// What became of its triggers.
    pub changed: Changed,
    /// Why it stayed as it was.
    pub refusal: Option<AlarmRefusal>,
}

/// Which stand-alone alarms to list. Newest first.
#[derive(Debug, Clone)]
pub struct AlarmQuery {
    /// Of this owner.
    pub owner: OwnerId,
    /// In this state.
    pub status: Option<AlarmStatus>,
    /// Strictly after this row of the listing: (created_at, id) of the last row seen.
    pub after: Option<(DateTime<Utc>, AlarmId)>,
    /// How many at most.
    pub limit: u32,
}

/// One counter of an owner's stand-alone alarms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlarmCount {
    /// Through which way out.
    pub channel: ChannelKind,
    /// Whether alarms are counted, or firings.
    pub of_firings: bool,
    /// A state of alarms, or `total`; an outcome of firings, or `duration_ms` and `durations`.
    pub name: String,
    /// How many.
    pub amount: i64,
}
