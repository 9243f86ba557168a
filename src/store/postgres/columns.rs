//! Lists of values as columns of arrays, which statements unfold again with `unnest`.

use chrono::DateTime;
use chrono::Utc;

use crate::store::row::millis;
use crate::trigger::Place;
use crate::trigger::TriggerId;
use crate::trigger::Wish;

/// An instant as it is stored: cut to milliseconds.
pub fn cut(instant: DateTime<Utc>) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(millis(instant)).unwrap_or(instant)
}

/// Ids, in their own order: whoever locks rows in it waits for nobody who waits for him.
pub fn ids<'a>(ids: impl IntoIterator<Item = &'a TriggerId>) -> Vec<Vec<u8>> {
    let mut ids: Vec<_> = ids.into_iter().map(|id| id.0.to_vec()).collect();
    ids.sort_unstable();
    ids
}

/// Wishes.
#[derive(Debug, Default)]
pub struct Wishes {
    /// Whose.
    pub owner: Vec<String>,
    /// Of which event.
    pub event_uid: Vec<String>,
    /// Which alarm of it.
    pub identity: Vec<String>,
    /// Through what.
    pub channel: Vec<&'static str>,
    /// For whom.
    pub recipient: Vec<String>,
}

impl<'a> FromIterator<&'a Wish> for Wishes {
    fn from_iter<I: IntoIterator<Item = &'a Wish>>(wishes: I) -> Self {
        let mut columns = Self::default();
        for wish in wishes {
            columns.owner.push(wish.owner.0.clone());
            columns.event_uid.push(wish.event_uid.clone());
            columns.identity.push(wish.identity.0.clone());
            columns.channel.push(wish.channel.as_str());
            columns.recipient.push(wish.recipient.to_string());
        }
        columns
    }
}

/// Places, or none.
#[derive(Debug, Default)]
pub struct Places {
    /// Trigger instants.
    pub trigger_at: Vec<Option<DateTime<Utc>>>,
    /// Occurrences.
    pub occurrence: Vec<Option<DateTime<Utc>>>,
    /// Repeat indices.
    pub repeat: Vec<Option<i64>>,
}

impl FromIterator<Option<Place>> for Places {
    fn from_iter<I: IntoIterator<Item = Option<Place>>>(places: I) -> Self {
        let mut columns = Self::default();
        for place in places {
            columns.trigger_at.push(place.map(|place| cut(place.trigger_at)));
            columns.occurrence.push(place.map(|place| cut(place.occurrence)));
            columns.repeat.push(place.map(|place| i64::from(place.repeat)));
        }
        columns
    }
}
