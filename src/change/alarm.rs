//! Stand-alone alarms: what becomes of one that is asked for, altered or called off. Decided inside the transaction, on
//! what it sees ([`deciding`]); its trigger is planned and claimed as those of events are.

mod deciding;
mod planning;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use sha2::Digest;
use sha2::Sha256;

use crate::change::ChangeHandler;
use crate::change::alarm::deciding::AlarmEditing;
use crate::change::to_the_end;
use crate::store::AlarmAt;
use crate::store::AlarmQuery;
use crate::store::AlarmRefusal;
use crate::store::AlarmStatus;
use crate::store::AlarmTerms;
use crate::store::Altered;
use crate::store::StoreError;
use crate::trigger::AlarmId;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;

/// Alarms that are called off in one transaction.
const AT_ONCE: u32 = 500;

/// Series that are put right in one transaction: each costs a search for its next firing.
const AT_ONCE_OF_SERIES: u32 = 50;

/// When an alarm fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// At this instant.
    At(DateTime<Utc>),
    /// At this instant, which a phrase means.
    Meant(DateTime<Utc>),
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
    /// Find the one that was asked for before, with these words.
    Find {
        /// What that request said, as a hash.
        request_hash: String,
    },
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
    /// Owe what a series owes by its terms as they read now.
    PutRight,
}

impl ChangeHandler {
    /// Carries out an order on one alarm. `seen` is when it was last written, as the caller
    /// knows it, if that matters: any of these.
    pub async fn order_alarm(
        &self,
        at: AlarmAt,
        order: Order,
        seen: Option<Vec<DateTime<Utc>>>,
    ) -> Result<Altered, StoreError> {
        if let Order::Create(new) = &order
            && let Some(refusal) = self.too_many(&at.owner).await?
        {
            // What was asked for before is there.
            let find = Order::Find {
                request_hash: new.request_hash.clone(),
            };
            let mut found = self.order_alarms(vec![at], find, None).await?;
            let mut found = found.pop().expect("one answer for each alarm")?;
            if found.refusal == Some(AlarmRefusal::Unknown) {
                found.refusal = Some(refusal);
            }
            return Ok(found);
        }
        let mut altered = self.order_alarms(vec![at], order, seen).await?;
        altered.pop().expect("one answer for each alarm")
    }

    /// Why an owner may have no more alarms. Several requests at once may come to a few more.
    async fn too_many(&self, owner: &OwnerId) -> Result<Option<AlarmRefusal>, StoreError> {
        let most = self.config.borrow().alarms_per_owner;
        let counts = self.store.alarm_counts(owner).await?;
        let active = counts
            .iter()
            .filter(|it| !it.of_firings && it.name == AlarmStatus::Active.as_str());
        let active: i64 = active.map(|it| it.amount).sum();
        let is_full = active >= i64::from(most);
        Ok(is_full.then(|| {
            AlarmRefusal::Conflict(format!(
                "owner `{owner}` has {active} alarms that are to come: cancel some, or raise policies.alarms_per_owner, \
                 which is {most}"
            ))
        }))
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

    /// Puts series right, of one owner or of everybody: one whose trigger was set aside, or whose zone reads differently
    /// now, owes what it should.
    pub(super) async fn put_series_right(&self, owner: Option<&OwnerId>) -> Result<(), StoreError> {
        let mut after: Option<(OwnerId, AlarmId)> = None;
        loop {
            let page = self
                .store
                .live_series(owner, after.as_ref(), AT_ONCE_OF_SERIES)
                .await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.clone());
            let named = page.into_iter().map(|(owner, id)| AlarmAt {
                owner,
                id,
                key: None,
                request: None,
            });
            for altered in self.order_alarms(named.collect(), Order::PutRight, None).await? {
                if let Err(error) = altered {
                    tracing::error!(%error, "a series cannot be planned again; it stays as it is");
                }
            }
        }
    }

    async fn order_alarms(
        &self,
        alarms: Vec<AlarmAt>,
        order: Order,
        seen: Option<Vec<DateTime<Utc>>>,
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

/// What stands for a request in its row: half of the hash of what it says.
pub fn request_hash(said: &str) -> String {
    let digest = Sha256::digest(said);
    let half = digest[..16].try_into().expect("a digest is longer");
    format!("{:032x}", u128::from_be_bytes(half))
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
