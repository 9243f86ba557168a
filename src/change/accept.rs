//! What is newer? Pure, given the stored copy and the change.
//!
//! An explicit version decides; without one, arrival does. SEQUENCE and DTSTAMP do not order the edits of calendar
//! servers and are not looked at. They do order scheduling messages, which are merged into the stored copy.

use std::cmp::Ordering;

use crate::calendar::ical::itip;
use crate::calendar::ical::itip::Merged;
use crate::store::Acceptance;
use crate::store::Change;
use crate::store::ChangeBody;
use crate::store::EventCopy;
use crate::store::Version;

/// Whether `change` is news, given the stored copy or its tombstone.
pub fn accept(stored: Option<&EventCopy>, change: &Change) -> Acceptance {
    if let ChangeBody::Message { uid, ics, addresses } = &change.body {
        return accept_message(stored, uid, ics, addresses);
    }
    let Some(stored) = stored else {
        return Acceptance::Apply;
    };
    let order = match (&change.version, &stored.version) {
        (Some(new), Some(old)) => compare(new, old),
        _ => {
            return if says_the_same(stored, change) {
                Acceptance::Unchanged
            } else {
                Acceptance::Apply
            };
        }
    };
    match order {
        Ordering::Greater => Acceptance::Apply,
        Ordering::Less => Acceptance::Stale,
        Ordering::Equal if says_the_same(stored, change) => Acceptance::Unchanged,
        Ordering::Equal => same_version_other_content(stored, change),
    }
}

/// Messages order themselves, by SEQUENCE and DTSTAMP; what a source deleted is as good as never seen.
fn accept_message(stored: Option<&EventCopy>, uid: &str, ics: &str, addresses: &[String]) -> Acceptance {
    let stored = stored.filter(|copy| copy.deleted_at.is_none());
    if let Some(other) = stored.filter(|copy| copy.uid != uid) {
        return Acceptance::Conflict(format!(
            "the message is about event `{uid}`, but `{}` is stored under this key: use the UID as the key",
            other.uid
        ));
    }
    match itip::merge(stored.map(|copy| copy.ics.as_str()), ics, addresses) {
        Merged::Text(ics) => Acceptance::Merged(ics),
        Merged::Unchanged => Acceptance::Unchanged,
        Merged::Stale => Acceptance::Stale,
        Merged::Nothing(reason) => Acceptance::Nothing(reason),
        Merged::TooLarge(reason) => Acceptance::Conflict(reason),
    }
}

fn same_version_other_content(stored: &EventCopy, change: &Change) -> Acceptance {
    match (&change.body, stored.deleted_at) {
        // A source that deletes a resource names the version that it deletes.
        (ChangeBody::Delete, _) => Acceptance::Apply,
        (_, Some(_)) => Acceptance::Stale,
        (_, None) => {
            let version = change.version.as_ref().map_or("", |version| version.0.as_str());
            Acceptance::Conflict(format!(
                "version `{version}` is stored with other content: send the change under a new version"
            ))
        }
    }
}

fn says_the_same(stored: &EventCopy, change: &Change) -> bool {
    match &change.body {
        ChangeBody::Put { ics, .. } => stored.deleted_at.is_none() && stored.ics == *ics,
        ChangeBody::Delete => stored.deleted_at.is_some(),
        ChangeBody::Message { .. } => false,
    }
}

fn compare(new: &Version, old: &Version) -> Ordering {
    match (new.0.parse::<u64>(), old.0.parse::<u64>()) {
        (Ok(new), Ok(old)) => new.cmp(&old),
        _ => new.0.as_bytes().cmp(old.0.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::store::EventKey;
    use crate::trigger::OwnerId;

    fn at() -> EventKey {
        EventKey {
            source: "s".into(),
            key: "k".into(),
            owner: OwnerId("anna".into()),
        }
    }

    fn stored(version: Option<&str>, ics: &str, deleted: bool) -> EventCopy {
        EventCopy {
            at: at(),
            uid: "u".into(),
            version: version.map(|it| Version(it.into())),
            ics: ics.into(),
            deleted_at: deleted.then_some(DateTime::UNIX_EPOCH),
            quarantine: None,
            changed_at: DateTime::UNIX_EPOCH,
        }
    }

    fn put(version: Option<&str>, ics: &str) -> Change {
        let body = ChangeBody::Put {
            uid: "u".into(),
            ics: ics.into(),
        };
        Change {
            at: at(),
            version: version.map(|it| Version(it.into())),
            body,
        }
    }

    fn delete(version: Option<&str>) -> Change {
        Change {
            at: at(),
            version: version.map(|it| Version(it.into())),
            body: ChangeBody::Delete,
        }
    }

    #[test]
    fn numbers_are_compared_as_numbers_and_everything_else_bytewise() {
        assert_eq!(
            accept(Some(&stored(Some("9"), "a", false)), &put(Some("10"), "b")),
            Acceptance::Apply
        );
        assert_eq!(
            accept(Some(&stored(Some("10"), "a", false)), &put(Some("9"), "b")),
            Acceptance::Stale
        );
        assert_eq!(
            accept(Some(&stored(Some("a9"), "a", false)), &put(Some("a10"), "b")),
            Acceptance::Stale
        );
    }

    #[test]
    fn an_equal_version_with_other_content_is_a_conflict() {
        assert_eq!(
            accept(Some(&stored(Some("1"), "a", false)), &put(Some("1"), "a")),
            Acceptance::Unchanged
        );
        let verdict = accept(Some(&stored(Some("1"), "a", false)), &put(Some("1"), "b"));
        assert!(matches!(verdict, Acceptance::Conflict(reason) if reason.contains("`1`")));
    }

    #[test]
    fn without_versions_arrival_decides() {
        assert_eq!(
            accept(Some(&stored(None, "a", false)), &put(None, "b")),
            Acceptance::Apply
        );
        assert_eq!(
            accept(Some(&stored(None, "a", false)), &put(None, "a")),
            Acceptance::Unchanged
        );
        assert_eq!(
            accept(Some(&stored(Some("3"), "a", false)), &put(None, "b")),
            Acceptance::Apply
        );
    }

    #[test]
    fn a_late_put_does_not_wake_the_dead() {
        assert_eq!(
            accept(Some(&stored(Some("5"), "a", true)), &put(Some("4"), "b")),
            Acceptance::Stale
        );
        assert_eq!(
            accept(Some(&stored(Some("5"), "a", true)), &put(Some("5"), "a")),
            Acceptance::Stale
        );
        assert_eq!(
            accept(Some(&stored(Some("5"), "a", true)), &put(Some("6"), "b")),
            Acceptance::Apply
        );
    }

    #[test]
    fn a_delete_of_the_stored_version_is_taken_and_a_second_one_changes_nothing() {
        assert_eq!(
            accept(Some(&stored(Some("5"), "a", false)), &delete(Some("5"))),
            Acceptance::Apply
        );
        assert_eq!(
            accept(Some(&stored(Some("5"), "a", true)), &delete(Some("5"))),
            Acceptance::Unchanged
        );
        assert_eq!(
            accept(Some(&stored(Some("5"), "a", false)), &delete(Some("4"))),
            Acceptance::Stale
        );
    }
}
