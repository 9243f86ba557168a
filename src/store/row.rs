//! From rows to values and back. Nothing else converts instants, names of enumerations or ids, so that both dialects
//! mean the same, and a value that makes no sense becomes [`StoreError::Corrupt`] with its table, row and column.

use std::fmt::Display;
use std::str::FromStr;

use chrono::DateTime;
use chrono::Utc;
use serde::Serialize;

use crate::store::Alarm;
use crate::store::AlarmCount;
use crate::store::Backlog;
use crate::store::Claimed;
use crate::store::DeadAddress;
use crate::store::Delivery;
use crate::store::EventCopy;
use crate::store::EventKey;
use crate::store::KeptMessage;
use crate::store::Living;
use crate::store::OutboxEntry;
use crate::store::Owner;
use crate::store::SigningSecrets;
use crate::store::Standalone;
use crate::store::StoreError;
use crate::store::Version;
use crate::store::Webhook;
use crate::store::Withdrawn;
use crate::store::group::GroupKey;
use crate::store::value::Value;
use crate::store::value::Values;
use crate::trigger::AlarmId;
use crate::trigger::AlarmIdentity;
use crate::trigger::AttemptToken;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::Place;
use crate::trigger::SessionId;
use crate::trigger::State;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;
use crate::trigger::Wish;
use crate::trigger::answers::Answers;

/// Milliseconds since 1970. What is finer is cut.
pub fn millis(instant: DateTime<Utc>) -> i64 {
    instant.timestamp_millis()
}

/// The instant of these milliseconds. The last one stands for "after everything" and comes back as what it was.
pub fn instant(millis: i64) -> Option<DateTime<Utc>> {
    if millis == DateTime::<Utc>::MAX_UTC.timestamp_millis() {
        return Some(DateTime::<Utc>::MAX_UTC);
    }
    DateTime::from_timestamp_millis(millis)
}

/// The instants of these milliseconds.
pub(in crate::store) fn instants(millis: &[i64]) -> Vec<DateTime<Utc>> {
    millis.iter().filter_map(|millis| instant(*millis)).collect()
}

/// What a column of JSON keeps.
pub(in crate::store) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("what is kept as JSON has names for keys")
}

/// The text of a list that a statement unfolds again with `json_each`.
pub(in crate::store) fn list<T: Serialize>(items: &[T]) -> String {
    serde_json::to_string(items).expect("text, numbers and arrays of them always have a JSON form")
}

/// Whether a statement reached every row it was meant for. Inside one transaction anything else is a mistake of ours,
/// and the transaction must not be kept.
pub fn all(reached: u64, meant: usize, statement: &str) -> Result<(), StoreError> {
    if usize::try_from(reached) == Ok(meant) {
        return Ok(());
    }
    Err(StoreError::Failed(format!(
        "{statement} reached {reached} rows of {meant}"
    )))
}

/// A row of a named table.
#[derive(Clone, Copy)]
pub struct Columns<'r> {
    table: &'static str,
    key: &'static str,
    row: &'r dyn Values,
}

impl<'r> Columns<'r> {
    /// A row of `table`, named in complaints by its column `key`.
    pub const fn new(table: &'static str, key: &'static str, row: &'r dyn Values) -> Self {
        Self { table, key, row }
    }

    /// A value as the database holds it.
    pub fn value<T: Value>(&self, column: &str) -> Result<T, StoreError> {
        T::of(self.row, column).map_err(|error| self.corrupt(column, error))
    }

    /// An instant.
    pub fn instant(&self, column: &str) -> Result<DateTime<Utc>, StoreError> {
        self.instant_if_any(column)?
            .ok_or_else(|| self.corrupt(column, "no instant"))
    }

    /// An instant that may be missing.
    pub fn instant_if_any(&self, column: &str) -> Result<Option<DateTime<Utc>>, StoreError> {
        self.row
            .instant(column)
            .map_err(|error| self.corrupt(column, error))
    }

    /// A value written as text.
    pub fn name<T: FromStr<Err: Display>>(&self, column: &str) -> Result<T, StoreError> {
        let found: String = self.value(column)?;
        found.parse().map_err(|error| self.corrupt(column, error))
    }

    /// A number that is never negative.
    pub fn number<T: TryFrom<i64, Error: Display>>(&self, column: &str) -> Result<T, StoreError> {
        let found: i64 = self.value(column)?;
        T::try_from(found).map_err(|error| self.corrupt(column, error))
    }

    /// A trigger id.
    pub fn id(&self) -> Result<TriggerId, StoreError> {
        let id = self.id_if_any("id")?;
        id.ok_or_else(|| self.corrupt("id", "no id"))
    }

    /// The id of a trigger that may be missing.
    pub fn id_if_any(&self, column: &str) -> Result<Option<TriggerId>, StoreError> {
        let found = self.row.bytes(column);
        let Some(found) = found.map_err(|error| self.corrupt(column, error))? else {
            return Ok(None);
        };
        let length = found.len();
        let id = found.try_into().map(TriggerId).map(Some);
        id.map_err(|_| self.corrupt(column, format!("{length} bytes are no id")))
    }

    /// A value that is kept as JSON text.
    pub fn json<T: serde::de::DeserializeOwned>(&self, column: &str) -> Result<T, StoreError> {
        let found: String = self.value(column)?;
        serde_json::from_str(&found).map_err(|error| self.corrupt(column, error))
    }

    /// What to say of a value that makes no sense.
    pub fn corrupt(&self, column: &str, reason: impl Display) -> StoreError {
        let text = self.row.text(self.key).ok().flatten();
        let number = || Some(self.row.whole(self.key).ok()??.to_string());
        let bytes = || Some(hex(&self.row.bytes(self.key).ok()??));
        let row = text.or_else(number).or_else(bytes).unwrap_or_default();
        let row = if self.table == "owner" {
            OwnerId(row).stand_in()
        } else {
            row
        };
        StoreError::Corrupt {
            table: self.table,
            row,
            reason: format!("column {column}: {reason}"),
        }
    }

    fn wish(&self) -> Result<Wish, StoreError> {
        Ok(Wish {
            owner: OwnerId(self.value("owner")?),
            event_uid: self.value("event_uid")?,
            identity: AlarmIdentity(self.value("identity")?),
            channel: self.name("channel")?,
            recipient: self.name("recipient")?,
        })
    }

    fn place(&self) -> Result<Place, StoreError> {
        Ok(Place {
            trigger_at: self.instant("trigger_at")?,
            occurrence: self.instant("occurrence")?,
            repeat: self.number("repeat")?,
        })
    }
}

/// Bytes as hexadecimal digits, for complaints about ids that are none.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

/// Reads a row of `alarm_trigger`.
pub fn trigger<R: Values>(row: &R) -> Result<Trigger, StoreError> {
    let columns = Columns::new("alarm_trigger", "id", row);
    Ok(Trigger {
        id: columns.id()?,
        wish: columns.wish()?,
        place: columns.place()?,
        due_at: columns.instant("due_at")?,
        expires_at: columns.instant("expires_at")?,
        has_more: columns.value("has_more")?,
        state: columns.name("state")?,
        processed: columns.instant_if_any("processed")?,
        session: columns.value::<Option<i64>>("session")?.map(SessionId),
        generation: columns.value("generation")?,
        attempts: columns.number("attempts")?,
        attempt_token: columns.value::<Option<i64>>("attempt_token")?.map(AttemptToken),
        attempt_started: columns.instant_if_any("attempt_started")?,
        withdrawn: columns.value("withdrawn")?,
        last_error: columns.value("last_error")?,
        payload: columns.value("payload")?,
        moved: columns.value("moved")?,
        digest: columns.id_if_any("digest")?,
    })
}

/// Reads what a holder needs from a row of `alarm_trigger`.
pub fn claimed<R: Values>(row: &R) -> Result<Claimed, StoreError> {
    let columns = Columns::new("alarm_trigger", "id", row);
    Ok(Claimed {
        id: columns.id()?,
        generation: columns.value("generation")?,
        due_at: columns.instant("due_at")?,
        channel: columns.name("channel")?,
        owner: columns.value::<String>("owner").map(OwnerId)?.hash(),
    })
}

/// Reads what the holder of a withdrawn trigger is told from a row of `alarm_trigger`.
pub fn withdrawn<R: Values>(row: &R) -> Result<Withdrawn, StoreError> {
    let columns = Columns::new("alarm_trigger", "id", row);
    Ok(Withdrawn {
        id: columns.id()?,
        due_at: columns.instant("due_at")?,
        channel: columns.name("channel")?,
        session: columns.value::<Option<i64>>("session")?.map(SessionId),
    })
}

/// Reads a row of `alarm`.
pub fn alarm<R: Values>(row: &R) -> Result<Alarm, StoreError> {
    let columns = Columns::new("alarm", "event_uid", row);
    let served_through = match columns.instant_if_any("served_trigger_at")? {
        None => None,
        Some(trigger_at) => Some(Place {
            trigger_at,
            occurrence: columns.instant("served_occurrence")?,
            repeat: columns.number("served_repeat")?,
        }),
    };
    Ok(Alarm {
        wish: columns.wish()?,
        served_through,
    })
}

/// Reads a row of `event`.
pub fn copy<R: Values>(row: &R) -> Result<EventCopy, StoreError> {
    let columns = Columns::new("event", "row_id", row);
    Ok(EventCopy {
        at: EventKey {
            source: columns.value("source")?,
            key: columns.value("key")?,
            owner: OwnerId(columns.value("owner")?),
        },
        uid: columns.value("uid")?,
        version: columns.value::<Option<String>>("version")?.map(Version),
        ics: columns.value("ics")?,
        deleted_at: columns.instant_if_any("deleted_at")?,
        quarantine: columns.value("quarantine")?,
        changed_at: columns.instant("changed_at")?,
    })
}

/// Reads a row of `answer`.
pub fn answers<R: Values>(row: &R) -> Result<Answers, StoreError> {
    Columns::new("answer", "event_uid", row).json("answers")
}

fn webhook(owner: &Columns<'_>) -> Result<Option<Webhook>, StoreError> {
    let Some(url) = owner.value("webhook_url")? else {
        return Ok(None);
    };
    Ok(Some(Webhook {
        url,
        failing_since: owner.instant_if_any("webhook_failing_since")?,
        disabled: owner.value("webhook_disabled")?,
    }))
}

fn dead_address(owner: &Columns<'_>) -> Result<Option<DeadAddress>, StoreError> {
    let Some(until) = owner.instant_if_any("email_dead_until")? else {
        return Ok(None);
    };
    let says = owner
        .value::<Option<String>>("email_dead_says")?
        .unwrap_or_default();
    Ok(Some(DeadAddress { until, says }))
}

/// Reads a row of `owner`.
pub fn owner<R: Values>(row: &R) -> Result<Owner, StoreError> {
    let columns = Columns::new("owner", "id", row);
    let muted: Vec<String> = columns.json("muted")?;
    Ok(Owner {
        id: OwnerId(columns.value("id")?),
        email: columns.value("email")?,
        email_dead: dead_address(&columns)?,
        addresses: columns.json("addresses")?,
        phone: columns.value("phone")?,
        webhook: webhook(&columns)?,
        time_zone: columns.value("time_zone")?,
        locale: columns.value("locale")?,
        enabled: columns.value("enabled")?,
        muted: muted
            .iter()
            .map(|name| name.parse::<ChannelKind>())
            .collect::<Result<_, _>>()
            .map_err(|error| columns.corrupt("muted", error))?,
        preferences: columns.json("preferences")?,
        webhook_secrets: columns
            .value::<Option<String>>("webhook_secrets")?
            .filter(|secrets| !secrets.is_empty())
            .map(|secrets| SigningSecrets(secrets.into())),
        link_epoch: columns.value("link_epoch")?,
    })
}

/// Reads a row of `delivery`.
pub fn delivery<R: Values>(row: &R) -> Result<Delivery, StoreError> {
    let columns = Columns::new("delivery", "id", row);
    Ok(Delivery {
        id: columns.id()?,
        wish: columns.wish()?,
        place: columns.place()?,
        outcome: columns.name("outcome")?,
        reason: columns.name("reason")?,
        detail: columns.value("detail")?,
        attempts: columns.number("attempts")?,
        count: columns.number("count")?,
        handed_over_at: columns.instant_if_any("handed_over_at")?,
        recorded_at: columns.instant("recorded_at")?,
        reference: columns.value("reference")?,
        started_at: columns.instant_if_any("started_at")?,
        await_until: columns.instant_if_any("await_until")?,
        report: columns.value("report")?,
        reported_at: columns.instant_if_any("reported_at")?,
        first_started_at: columns.instant_if_any("first_started_at")?,
    })
}

/// Adds up the rows of the due index, counted by state and by whether they are due within the horizon and past due.
pub fn backlog<R: Values>(rows: &[R], oldest_due: Option<DateTime<Utc>>) -> Result<Backlog, StoreError> {
    let mut backlog = Backlog {
        oldest_due,
        ..Backlog::default()
    };
    for row in rows {
        let columns = Columns::new("alarm_trigger", "state", row);
        let count: u64 = columns.number("rows")?;
        let planned = columns.name::<State>("state")? == State::Planned;
        if columns.value("in_time")? {
            *(if planned {
                &mut backlog.planned
            } else {
                &mut backlog.claimed
            }) += count;
        }
        if columns.value("past")? {
            backlog.overdue += count;
        }
    }
    Ok(backlog)
}

/// Reads a row of `session`.
pub fn living<R: Values>(row: &R) -> Result<Living, StoreError> {
    let columns = Columns::new("session", "id", row);
    Ok(Living {
        session: SessionId(columns.value("id")?),
        peer: columns.value("peer")?,
        pending: columns.number("pending")?,
    })
}

/// Reads a row of `standalone_alarm`.
pub fn standalone<R: Values>(row: &R) -> Result<Standalone, StoreError> {
    let columns = Columns::new("standalone_alarm", "id", row);
    Ok(Standalone {
        owner: OwnerId(columns.value("owner")?),
        id: AlarmId(columns.value("id")?),
        status: columns.name("status")?,
        paused: columns.value("paused")?,
        fire_at: columns.instant("fire_at")?,
        channel: columns.name("channel")?,
        terms: columns.json("terms")?,
        payload: columns.value("payload")?,
        key: columns.value("key")?,
        request_key: columns.value("request_key")?,
        request_hash: columns.value("request_hash")?,
        created_at: columns.instant("created_at")?,
        updated_at: columns.instant("updated_at")?,
        last_fired_at: columns.instant_if_any("last_fired_at")?,
        last_error: columns.value("last_error")?,
        failure_count: columns.number("failure_count")?,
    })
}

/// Reads a row of `standalone_alarm`, and the name of its group.
pub fn standalone_by_group<R: Values>(
    row: &R,
) -> Result<(GroupKey, Result<Standalone, StoreError>), StoreError> {
    let columns = Columns::new("standalone_alarm", "id", row);
    let id = AlarmId(columns.value("id")?);
    let key = (OwnerId(columns.value("owner")?), id.as_event_uid());
    Ok((key, standalone(row)))
}

/// Reads a row of `alarm_count`.
pub fn alarm_count<R: Values>(row: &R) -> Result<AlarmCount, StoreError> {
    let columns = Columns::new("alarm_count", "name", row);
    let about: String = columns.value("about")?;
    Ok(AlarmCount {
        channel: columns.name("channel")?,
        of_firings: about == "firing",
        name: columns.value("name")?,
        amount: columns.value("amount")?,
    })
}

/// Reads a row of `outbox`.
pub fn outbox_entry<R: Values>(row: &R) -> Result<OutboxEntry, StoreError> {
    let columns = Columns::new("outbox", "id", row);
    Ok(OutboxEntry {
        id: columns.id()?,
        owner: OwnerId(columns.value("owner")?),
        handed_over_at: columns.instant("handed_over_at")?,
        message: KeptMessage {
            to: columns.value("recipient")?,
            subject: columns.value("subject")?,
            text: columns.value("text")?,
            raw: columns.value("raw")?,
        },
    })
}

#[cfg(test)]
mod tests {
    use chrono::SubsecRound;

    use super::*;
    use crate::trigger::outcome::Outcome;

    #[test]
    fn the_place_before_everything_comes_back_as_it_was() {
        let place = Place::just_before(DateTime::UNIX_EPOCH);

        assert_eq!(instant(millis(place.trigger_at)), Some(place.trigger_at));
        assert_eq!(instant(millis(place.occurrence)), Some(place.occurrence));
    }

    #[test]
    fn an_instant_is_cut_to_milliseconds() {
        let fine = DateTime::from_timestamp_nanos(1_764_291_600_123_456_789);

        assert_eq!(instant(millis(fine)), Some(fine.trunc_subsecs(3)));
    }

    #[test]
    fn the_ranks_that_statements_take_for_a_hand_over_are_those_of_hand_overs() {
        for outcome in Outcome::ALL {
            assert_eq!(outcome.is_hand_over(), outcome.rank() >= 2, "{outcome}");
        }
    }
}
