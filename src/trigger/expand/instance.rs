//! An instance, and how long it lasts.

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::event::Component;
use crate::calendar::event::End;
use crate::calendar::moment::Anchor;
use crate::calendar::moment::Span;
use crate::calendar::zone::Zone;

/// An instance as the component that speaks for it has it.
#[derive(Debug, Clone)]
pub(super) struct Instance {
    /// Its RECURRENCE-ID.
    pub(super) occurrence: DateTime<Utc>,
    /// Where triggers related to the start are counted from; none for a task without DTSTART.
    pub(super) start: Option<Anchor>,
    /// Where triggers related to the end are counted from; none where there is no end that can be known.
    pub(super) end: Option<Anchor>,
}

impl Instance {
    /// Start and end as instants; each stands for the other where it is missing. At the end of the years that are known
    /// the two are cut, each in its own zone, so that the end may seem to be first.
    pub(super) fn bounds(&self) -> (DateTime<Utc>, DateTime<Utc>) {
        let start = self.start.as_ref().or(self.end.as_ref());
        let end = self.end.as_ref().or(self.start.as_ref());
        let instant = |anchor: Option<&Anchor>| anchor.map_or(self.occurrence, |anchor| anchor.instant);
        let starts_at = instant(start);
        (starts_at, instant(end).max(starts_at))
    }

    pub(super) fn new(
        occurrence: DateTime<Utc>,
        start: Anchor,
        component: &Component,
        length: &Length,
        period: Option<Anchor>,
    ) -> Self {
        let is_due_only = component.is_task && component.start.is_none();
        let end = if is_due_only {
            Some(start.clone())
        } else {
            period.or_else(|| length.from(&start))
        };
        Self {
            occurrence,
            start: (!is_due_only).then_some(start),
            end,
        }
    }
}

/// How long the instances of a component last (RFC 5545 section 3.6.1).
#[derive(Debug)]
pub(super) enum Length {
    /// As long as from DTSTART to DTEND, exactly; days before the end are counted in the zone of DTEND.
    Exact(i64, Zone),
    /// So many days, or a DURATION.
    Span(Span),
    /// Nobody knows.
    Unknown,
}

impl Length {
    pub(super) fn of(component: &Component, zone: &Zone) -> Self {
        let is_date = component.start.as_ref().is_some_and(|start| start.is_date);
        match (&component.end, &component.start) {
            (End::At(end), Some(start)) if start.is_date && end.is_date => {
                let days = end
                    .local
                    .date()
                    .signed_duration_since(start.local.date())
                    .num_days();
                Self::days(days.max(0))
            }
            (End::At(end), Some(start)) => {
                let exact = end.instant(zone).signed_duration_since(start.instant(zone));
                let own = end.zone.as_ref().unwrap_or(zone);
                Self::Exact(exact.num_seconds().max(0), own.clone())
            }
            (End::After(span), _) if span.seconds_nominal() >= 0 => Self::Span(*span),
            (End::Unstated, _) if component.is_task => Self::Unknown,
            (End::Unstated, _) if is_date => Self::days(1),
            (End::After(_) | End::Unstated, _) => Self::Span(Span::default()),
            (End::At(_), None) | (End::Unreadable, _) => Self::Unknown,
        }
    }

    fn days(days: i64) -> Self {
        Self::Span(Span { days, seconds: 0 })
    }

    fn from(&self, start: &Anchor) -> Option<Anchor> {
        match self {
            Self::Exact(seconds, zone) => {
                let exact = Span {
                    days: 0,
                    seconds: *seconds,
                };
                Some(Anchor::at_instant(start.plus(exact).instant, zone))
            }
            Self::Span(span) => Some(start.plus(*span)),
            Self::Unknown => None,
        }
    }
}
