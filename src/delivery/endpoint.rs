//! What attempts teach about an owner's endpoint: one that is gone, or that has failed for too long without a single
//! success, is disabled, and what waits for it is recorded instead of being tried for ever.

use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::channel::Report;
use crate::store::AlarmAt;
use crate::store::AlarmEdit;
use crate::store::AlarmEditor;
use crate::store::Edit;
use crate::store::Group;
use crate::store::Standalone;
use crate::store::Webhook;
use crate::store::WebhookNews;

/// What `report` says about the endpoint that the store does not know yet. Pure.
pub fn news(
    report: &Report,
    known: &Webhook,
    disable_after: Duration,
    now: DateTime<Utc>,
) -> Option<WebhookNews<'static>> {
    match report {
        Report::Gone { .. } => Some(WebhookNews::Gone("it answered 410: it is gone for good")),
        Report::Accepted { .. } | Report::Again { .. } => {
            known.failing_since.is_some().then_some(WebhookNews::Works)
        }
        // Nothing was tried.
        Report::Busy { .. } | Report::Abandoned => None,
        Report::Transient { .. } | Report::Permanent { .. } | Report::InDoubt { .. } => {
            let Some(since) = known.failing_since else {
                return Some(WebhookNews::Fails);
            };
            let most = TimeDelta::from_std(disable_after).unwrap_or(TimeDelta::MAX);
            (now - since >= most).then_some(WebhookNews::Disabled(
                since,
                "no call of it succeeded for too long",
            ))
        }
    }
}

/// Pauses a series whose own target is gone, as whoever asked for it would: with another target it is resumed.
#[derive(Debug)]
pub struct Parting<'a> {
    /// What it called.
    pub target: &'a str,
}

impl AlarmEditor for Parting<'_> {
    fn edit(&self, _: &AlarmAt, stored: Option<&Standalone>, group: &Group, _: DateTime<Utc>) -> AlarmEdit {
        let concerned =
            |alarm: &&Standalone| alarm.is_live() && alarm.terms.target.as_deref() == Some(self.target);
        let Some(alarm) = stored.filter(concerned) else {
            return AlarmEdit::Leave;
        };
        let alarm = Standalone {
            paused: true,
            ..alarm.clone()
        };
        let edit = Edit {
            withdraw: group.triggers.iter().map(|trigger| trigger.id).collect(),
            ..Edit::default()
        };
        AlarmEdit::Put(Box::new(alarm), edit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Blame;

    fn known(failing_since: Option<&str>) -> Webhook {
        Webhook {
            failing_since: failing_since.map(|text| text.parse().unwrap()),
            ..Webhook::at("https://example.org/".to_owned())
        }
    }

    fn error() -> String {
        "error".to_owned()
    }

    #[test]
    fn an_endpoint_is_given_up_when_it_is_gone_or_has_failed_for_a_day() {
        let failed = Report::Transient {
            error: error(),
            of: Blame::Target,
            retry_after: None,
        };
        let refused = Report::Permanent { error: error() };
        let again = Report::Again {
            after: Duration::ZERO,
            payload: None,
        };
        let day = Duration::from_hours(24);
        let now = "2026-12-02T08:00:00Z".parse().unwrap();
        for (report, since, disabled, told) in [
            (&failed, None, false, Some(WebhookNews::Fails)),
            (&refused, None, false, Some(WebhookNews::Fails)),
            (&failed, Some("2026-12-01T08:00:01Z"), false, None),
            (&failed, Some("2026-12-01T08:00:00Z"), true, None),
            (&refused, Some("2026-12-01T08:00:00Z"), true, None),
            (&again, None, false, None),
            (
                &again,
                Some("2026-12-01T08:00:00Z"),
                false,
                Some(WebhookNews::Works),
            ),
            (&Report::Abandoned, Some("2026-12-01T08:00:00Z"), false, None),
            (&Report::Gone { error: error() }, None, true, None),
        ] {
            let news = news(report, &known(since), day, now);
            assert_eq!(
                matches!(news, Some(WebhookNews::Gone(_) | WebhookNews::Disabled(..))),
                disabled,
                "{report:?} {since:?}"
            );
            if !disabled {
                assert_eq!(news, told, "{report:?} {since:?}");
            }
        }
    }
}
