//! Stand-alone alarms: what becomes of one that is asked for, altered or called off. Decided inside the transaction, on
//! what it sees ([`deciding`]); its trigger is planned and claimed as those of events are.

mod deciding;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::change::ChangeHandler;
use crate::change::alarm::deciding::AlarmEditing;
use crate::change::to_the_end;
use crate::store::AlarmAt;
use crate::store::AlarmQuery;
use crate::store::AlarmStatus;
use crate::store::AlarmTerms;
use crate::store::Altered;
use crate::store::StoreError;
use crate::trigger::AlarmId;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;

/// Alarms that are called off in one transaction.
const AT_ONCE: u32 = 500;

/// When an alarm fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// At this instant.
    At(DateTime<Utc>),
    /// So long after it is asked for.
    In(TimeDelta),
    /// Whenever its terms say, from now on.
    Again,
}

/// What to do about an instant that is past.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Past {
    /// Refuse it.
    #[default]
    Reject,
    /// Fire at once.
    Fire,
}

/// An alarm that is asked for.
#[derive(Debug, Clone)]
pub struct NewAlarm {
    /// When it fires.
    pub when: When,
    /// If that is past.
    pub past: Past,
    /// The way out.
    pub channel: ChannelKind,
    /// What else is asked for.
    pub terms: AlarmTerms,
    /// What its target is given back: a JSON document.
    pub payload: Option<String>,
    /// What the request says, as a hash.
    pub request_hash: String,
}

/// What an alarm is to be like.
#[derive(Debug, Clone)]
pub struct AlarmPatch {
    /// When it fires, if that changes; one that has fired or failed is active again.
    pub when: Option<When>,
    /// If that is past.
    pub past: Past,
    /// The way out.
    pub channel: ChannelKind,
    /// What else is asked for.
    pub terms: AlarmTerms,
    /// What its target is given back: a JSON document.
    pub payload: Option<String>,
}

/// What is asked of an alarm.
#[derive(Debug, Clone)]
pub enum Order {
    /// Let there be one.
    Create(Box<NewAlarm>),
    /// Let it be different.
    Patch(Box<AlarmPatch>),
    /// Call it off. Asked for again, nothing changes.
    Cancel,
    /// Plan nothing until it is resumed.
    Pause,
    /// Go on.
    Resume,
    /// Fire now.
    Run,
}

impl ChangeHandler {
    /// Carries out an order on one alarm. `seen` is when it was last written, as the caller knows it, if that matters.
    pub async fn order_alarm(
        &self,
        at: AlarmAt,
        order: Order,
        seen: Option<DateTime<Utc>>,
    ) -> Result<Altered, StoreError> {
        let mut altered = self.order_alarms(vec![at], order, seen).await?;
        altered.pop().expect("one answer for each alarm")
    }

    /// Calls off all active alarms of an owner. Returns how many.
    pub async fn reset_alarms(&self, owner: &OwnerId) -> Result<u64, StoreError> {
        let query = AlarmQuery {
            owner: owner.clone(),
            status: Some(AlarmStatus::Active),
            after: None,
            limit: AT_ONCE,
        };
        let mut cancelled = 0;
        loop {
            let active = self.store.alarms(&query).await?;
            let named = active.into_iter().map(|alarm| AlarmAt {
                owner: alarm.owner,
                id: alarm.id,
                key: None,
                request: None,
            });
            let altered = self.order_alarms(named.collect(), Order::Cancel, None).await?;
            let gone = |it: &&Result<Altered, StoreError>| it.as_ref().is_ok_and(|it| it.existed);
            let gone = altered.iter().filter(gone).count() as u64;
            cancelled += gone;
            // Whoever cannot be read stays, and is not asked for for ever.
            if gone == 0 {
                return Ok(cancelled);
            }
        }
    }

    async fn order_alarms(
        &self,
        alarms: Vec<AlarmAt>,
        order: Order,
        seen: Option<DateTime<Utc>>,
    ) -> Result<Vec<Result<Altered, StoreError>>, StoreError> {
        let handler = self.clone();
        let work = async move {
            let near = handler.near();
            let editing = AlarmEditing {
                order,
                seen,
                most: handler.config.borrow().max_lateness,
            };
            let altered = handler.store.alter_alarms(&alarms, &editing, near).await?;
            for altered in altered.iter().flatten() {
                (handler.tell)(&altered.changed, near.map(|near| near.session));
            }
            Ok(altered)
        };
        to_the_end(work).await
    }
}

/// A name that nobody has and nobody can guess.
///
/// # Errors
///
/// When the system has no random numbers to give.
pub fn fresh_id() -> Result<AlarmId, StoreError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::Failed(format!("the system has no random numbers to give: {error}")))?;
    Ok(AlarmId(format!("{:032x}", u128::from_be_bytes(bytes))))
}
