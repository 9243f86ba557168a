//! Why something does not fire, as a name that stays the same: `carillon preview --json` gives it beside the words.

/// Why something does not fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// The event, or this occurrence of it, is cancelled.
    Cancelled,
    /// The task, or this occurrence of it, is completed.
    Completed,
    /// The person said that they do not come.
    Declined,
    /// The person sends somebody else.
    Delegated,
    /// The trigger is counted from a start or an end that is missing.
    NoAnchor,
    /// It would ring more than once a minute.
    TooOften,
    /// It asks for no alarm, or for one at a place.
    NotByTime,
    /// The rules cannot be followed.
    RuleUnreadable,
    /// The search needed more steps than it is given.
    TooCostly,
    /// This firing was acknowledged.
    Acknowledged,
    /// EXDATE takes this occurrence out.
    Excluded,
    /// An override replaces this occurrence, and with it this firing.
    Replaced,
    /// The override of this occurrence has no alarm.
    OverrideWithoutAlarm,
    /// The channel that was asked for does not carry this ACTION.
    NotCarried,
    /// The VALARM cannot be read.
    AlarmUnreadable,
    /// Another VALARM of the same component is its equal.
    Duplicate,
    /// A newer version of the component counts.
    Superseded,
    /// Its REPEAT is not followed.
    RepeatIgnored,
    /// The event cannot be read.
    EventUnreadable,
    /// It says something about an event and is none.
    NoEvent,
    /// The event has no VALARM.
    NoAlarm,
    /// Its last firing is past.
    Past,
    /// Another copy of the event fires it.
    Copy,
}

impl Why {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::Cancelled,
        Self::Completed,
        Self::Declined,
        Self::Delegated,
        Self::NoAnchor,
        Self::TooOften,
        Self::NotByTime,
        Self::RuleUnreadable,
        Self::TooCostly,
        Self::Acknowledged,
        Self::Excluded,
        Self::Replaced,
        Self::OverrideWithoutAlarm,
        Self::NotCarried,
        Self::AlarmUnreadable,
        Self::Duplicate,
        Self::Superseded,
        Self::RepeatIgnored,
        Self::EventUnreadable,
        Self::NoEvent,
        Self::NoAlarm,
        Self::Past,
        Self::Copy,
    ];

    /// The name for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Completed => "completed",
            Self::Declined => "declined",
            Self::Delegated => "delegated",
            Self::NoAnchor => "no_anchor",
            Self::TooOften => "too_often",
            Self::NotByTime => "not_by_time",
            Self::RuleUnreadable => "rule_unreadable",
            Self::TooCostly => "too_costly",
            Self::Acknowledged => "acknowledged",
            Self::Excluded => "excluded",
            Self::Replaced => "replaced",
            Self::OverrideWithoutAlarm => "override_without_alarm",
            Self::NotCarried => "not_carried",
            Self::AlarmUnreadable => "alarm_unreadable",
            Self::Duplicate => "duplicate",
            Self::Superseded => "superseded",
            Self::RepeatIgnored => "repeat_ignored",
            Self::EventUnreadable => "event_unreadable",
            Self::NoEvent => "no_event",
            Self::NoAlarm => "no_alarm",
            Self::Past => "past",
            Self::Copy => "copy",
        }
    }

    /// With the words for people.
    pub(super) fn because(self, reason: impl Into<String>) -> Refused {
        Refused {
            why: self,
            reason: reason.into(),
        }
    }
}

/// A refusal in words, and by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub why: Why,
    /// Its words, naming the value.
    pub reason: String,
}
