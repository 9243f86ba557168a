//! The change handler: what a calendar or a person changes becomes alarms and triggers, in one transaction.
//!
//! A change is read before the transaction and decided inside it, on what the transaction sees ([`accept`],
//! [`edit`]). Triggers due inside the look-ahead window are claimed in the same transaction, since the planner
//! may not look again before they are due, for a session that delivers: this node's, or another's. It is told after the
//! commit, as are those who hold the timers of withdrawn ones. Both messages may be lost: what a session holds it looks up
//! before it is due, and a stale timer loses its fire-check.

mod accept;
pub mod alarm;
mod answered;
mod asked;
mod edit;
mod moved;
mod overtaken;
mod read;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;
use tokio::sync::watch;

pub use self::answered::Answered;
use crate::calendar::zone;
use crate::store::Acceptance;
use crate::store::Change;
use crate::store::Changed;
use crate::store::Edit;
use crate::store::Editor;
use crate::store::EventCopy;
use crate::store::EventKey;
use crate::store::Group;
use crate::store::NearClaim;
use crate::store::Owner;
use crate::store::PlanMark;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Version;
use crate::trigger::OwnerId;
use crate::trigger::SessionId;
use crate::trigger::defaults::DefaultPolicy;
use crate::trigger::expand::Choices;
use crate::trigger::preferences::Display;
use crate::trigger::recipients::Recipients;
use crate::trigger::series::Lateness;

/// The name under which the store remembers by which zone data and policies everything was planned.
const PLANNED_BY: &str = "planned_by";

/// Changes in one transaction at the most, so that nobody waits long for the writer.
const PER_TRANSACTION: usize = 500;

/// Owners marked to be planned again that are read at once.
const OWNERS: u32 = 10_000;

/// Groups edited again in one transaction at the most; each may cost what the event of a change may.
const GROUPS_PER_TRANSACTION: u32 = 10;

/// What an alarm means where the standards leave a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policies {
    /// Whether DISPLAY and AUDIO alarms become e-mail, where their owner does not say.
    pub display: Display,
    /// To whom alarms may write beside their owner.
    pub recipients: Recipients,
    /// How late a trigger may already be when its event is created or moved, and still be sent at once.
    pub late_grace: Duration,
    /// What else alarms mean where the standards leave a choice.
    pub choices: Choices,
    /// Alarms of events that have none of their own.
    pub defaults: DefaultPolicy,
    /// The sources that are configured, by name.
    pub sources: BTreeMap<String, Source>,
}

impl Policies {
    /// The source of this name; one that is not configured is a calendar.
    pub fn source(&self, name: &str) -> Source {
        self.sources.get(name).copied().unwrap_or_default()
    }
}

/// Where events come from, as far as it decides what they mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Source {
    /// What its objects are.
    pub kind: SourceKind,
}

/// What the objects of a source are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SourceKind {
    /// Events as they stand in a calendar.
    #[default]
    Calendar,
    /// Messages about events, as people send them to each other (iTIP, RFC 5546).
    Itip,
}

/// What the change handler goes by; read anew for every batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// What alarms mean.
    pub policies: Policies,
    /// How long after its trigger instant a trigger is of use at the most.
    pub max_lateness: Duration,
    /// Stand-alone alarms of one owner that are to come, at the most.
    pub alarms_per_owner: u32,
    /// How far ahead triggers are claimed at once: the look-ahead, widened by the largest time shift.
    pub window: Duration,
}

/// A change as it arrives.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// Which copy.
    pub at: EventKey,
    /// The source's version, if it names one.
    pub version: Option<Version>,
    /// The iCalendar text in whatever encoding; none deletes.
    pub ics: Option<Vec<u8>>,
}

/// What became of an incoming change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether it was taken.
    pub result: ChangeResult,
    /// Triggers planned by it.
    pub planned: usize,
    /// Triggers withdrawn by it.
    pub withdrawn: usize,
    /// What was read leniently, which alarms will not fire and why.
    pub warnings: Vec<String>,
}

/// Whether a change was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeResult {
    /// It is stored and planned.
    Applied,
    /// It says what is stored.
    Unchanged,
    /// It is older than what is stored; nothing was done.
    Stale,
    /// It contradicts what is stored (409).
    Conflict(String),
    /// It cannot be understood (422), or its owner is unknown.
    Rejected(Vec<Complaint>),
}

/// What is wrong with a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// `VEVENT` …, where the text got so far.
    pub component: Option<String>,
    /// The line, from 1.
    pub line: Option<usize>,
    /// What is wrong, with the value and the cure.
    pub reason: String,
}

/// Who takes what is due soon: a session that delivers; none where none is known, which leaves it to the planner.
pub type Taker = Arc<dyn Fn() -> Option<SessionId> + Send + Sync>;

/// Told after the commit what became of a change: what was claimed, for whom, and what is no longer owed.
pub type Tell = Arc<dyn Fn(&Changed, Option<SessionId>) + Send + Sync>;

/// What became of one change, and who took what it owes soon.
type Decided = (Result<Changed, StoreError>, Option<SessionId>);

/// Takes changes.
#[derive(Clone)]
pub struct ChangeHandler {
    store: Arc<dyn Store>,
    config: watch::Receiver<Config>,
    taker: Taker,
    tell: Tell,
}

impl fmt::Debug for ChangeHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeHandler")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl ChangeHandler {
    /// A handler that claims near triggers for whom `taker` names.
    pub fn new(store: Arc<dyn Store>, config: watch::Receiver<Config>, taker: Taker, tell: Tell) -> Self {
        Self {
            store,
            config,
            taker,
            tell,
        }
    }

    /// Applies changes in order, in as few transactions as their number allows; answers come in the same order. After
    /// an error nothing of the transaction it names was done, and whatever was answered before it stands.
    pub async fn apply(&self, incoming: Vec<Incoming>) -> Result<Vec<Answer>, StoreError> {
        let mut answers = Vec::with_capacity(incoming.len());
        let mut rest = incoming.into_iter().peekable();
        while rest.peek().is_some() {
            let batch = rest.by_ref().take(PER_TRANSACTION).collect();
            let handler = self.clone();
            answers.extend(to_the_end(async move { handler.apply_batch(batch).await }).await?);
        }
        Ok(answers)
    }

    /// Told when the configuration is another.
    pub fn config(&self) -> watch::Receiver<Config> {
        self.config.clone()
    }

    /// Creates or replaces an owner, and plans again what depends on it. Returns the owner before.
    pub async fn put_owner(&self, owner: Owner) -> Result<Option<Owner>, StoreError> {
        let handler = self.clone();
        to_the_end(async move { handler.replace_owner(owner).await }).await
    }

    async fn replace_owner(&self, owner: Owner) -> Result<Option<Owner>, StoreError> {
        let replaced = self.store.put_owner(&owner).await?;
        if let Some(mark) = replaced.to_plan {
            self.plan_owner(&owner.id, mark).await?;
        }
        Ok(replaced.before)
    }

    /// Plans again what has to be: everything, where zone data or policies are not those it was planned by; else
    /// everything of the owners that are marked. What an interrupted run has not done stays to be done.
    pub async fn catch_up(&self) -> Result<(), StoreError> {
        let config = self.config.borrow().clone();
        let planned_by = planned_by(&config);
        let before = self.store.remembered(PLANNED_BY).await?;
        if before.as_ref() != Some(&planned_by) {
            tracing::info!(planned_by, "planning everything again");
            // Half of it may be planned by these from now on, whatever was in force before.
            self.store.remember(PLANNED_BY, "").await?;
            self.plan_again(None, &editing(config)).await?;
            self.store.remember(PLANNED_BY, &planned_by).await?;
        }
        self.plan_marked().await
    }

    /// Plans the owners that are marked, as many as one look finds; the rest is found by the next. One that fails does not
    /// stop the others.
    async fn plan_marked(&self) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        for (owner, mark) in self.store.owners_to_plan(OWNERS).await? {
            if let Err(error) = self.plan_owner(&owner, mark).await {
                tracing::error!(owner = owner.stand_in(), %error, "an owner cannot be planned again; trying again later");
                outcome = Err(error);
            }
        }
        outcome
    }

    async fn plan_owner(&self, owner: &OwnerId, mark: PlanMark) -> Result<(), StoreError> {
        self.plan_again(Some(owner), &self.editing()).await?;
        self.store.owner_planned(owner, mark).await
    }

    async fn plan_again(&self, owner: Option<&OwnerId>, editing: &Editing) -> Result<(), StoreError> {
        let mut cursor = None;
        loop {
            let near = self.near();
            let page = self
                .store
                .edit_groups(owner, cursor, GROUPS_PER_TRANSACTION, editing, near);
            let (changed, next) = page.await?;
            (self.tell)(&changed, near.map(|near| near.session));
            if next.is_none() {
                return self.put_series_right(owner).await;
            }
            cursor = next;
        }
    }

    async fn apply_batch(&self, batch: Vec<Incoming>) -> Result<Vec<Answer>, StoreError> {
        let mut owners = BTreeMap::new();
        let mut drafts = Vec::with_capacity(batch.len());
        let now = self.store.now().await?;
        for incoming in batch {
            let owner = self.owner_of(&incoming, &mut owners).await?;
            drafts.push(read::read(
                incoming,
                owner.as_ref(),
                &self.config.borrow().policies,
                now,
            ));
        }
        let understood = || drafts.iter().filter_map(|draft| draft.as_ref().ok());
        let changes: Vec<Change> = understood().map(|it| it.change.clone()).collect();
        let costs: Vec<u32> = understood().map(|it| it.cost).collect();
        let mut results = Vec::with_capacity(changes.len());
        let mut rest = &changes[..];
        for length in affordable(&costs) {
            let (part, later) = rest.split_at(length);
            let near = self.near();
            let applied = self.store.change(part, &self.editing(), near).await?;
            results.extend(applied.into_iter().map(|it| (it, near.map(|near| near.session))));
            rest = later;
        }
        let mut results = results.into_iter();
        drafts
            .into_iter()
            .map(|draft| match draft {
                Err(complaints) => Ok(rejected(complaints)),
                Ok(read) => self.answer(read, results.next().expect("one result for each change")),
            })
            .collect()
    }

    async fn owner_of(
        &self,
        incoming: &Incoming,
        known: &mut BTreeMap<OwnerId, Option<Owner>>,
    ) -> Result<Option<Owner>, StoreError> {
        let id = &incoming.at.owner;
        if !known.contains_key(id) {
            known.insert(id.clone(), self.store.owner(id).await?);
        }
        Ok(known.get(id).cloned().flatten())
    }

    fn answer(&self, read: read::Read, (result, taker): Decided) -> Result<Answer, StoreError> {
        let changed = match result {
            Ok(changed) => changed,
            Err(unknown @ StoreError::UnknownOwner(_)) => {
                return Ok(rejected(vec![read::complaint(unknown.to_string())]));
            }
            Err(corrupt @ StoreError::Corrupt { .. }) => {
                return Ok(rejected(vec![read::complaint(corrupt.to_string())]));
            }
            Err(error) => return Err(error),
        };
        (self.tell)(&changed, taker);
        let mut warnings = read.warnings;
        let set_aside = changed.set_aside.iter();
        warnings.extend(
            set_aside.map(|reason| format!("the event is stored, but its alarms are set aside: {reason}")),
        );
        let result = match changed.acceptance {
            Acceptance::Apply | Acceptance::Merged(_) => ChangeResult::Applied,
            Acceptance::Nothing(reason) => {
                warnings.push(format!("nothing is changed: {reason}"));
                ChangeResult::Unchanged
            }
            Acceptance::Unchanged => ChangeResult::Unchanged,
            Acceptance::Stale => ChangeResult::Stale,
            Acceptance::Conflict(reason) => ChangeResult::Conflict(reason),
        };
        Ok(Answer {
            result,
            planned: changed.planned,
            withdrawn: changed.withdrawn.len(),
            warnings,
        })
    }

    fn editing(&self) -> Editing {
        editing(self.config.borrow().clone())
    }

    fn near(&self) -> Option<NearClaim> {
        let window = self.config.borrow().window;
        (self.taker)().map(|session| NearClaim { session, window })
    }
}

/// Does `work` to its end even when whoever asked for it has gone: a timer must be armed for every claim that was
/// committed.
async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|error| {
        Err(StoreError::Failed(format!(
            "a change was not carried out: {error}"
        )))
    })
}

/// By what stored events are planned: when it changes, everything is planned again.
fn planned_by(config: &Config) -> String {
    let most = config.max_lateness;
    format!(
        "tzdata {}, {:?}, at most {most:?} late",
        zone::data_version(),
        config.policies
    )
}

fn editing(config: Config) -> Editing {
    Editing {
        lateness: Lateness {
            grace: config.policies.late_grace,
            most: config.max_lateness,
        },
        policies: config.policies,
    }
}

/// The decisions of a change, with the policies of its batch.
struct Editing {
    policies: Policies,
    lateness: Lateness,
}

impl Editor for Editing {
    fn accept(&self, stored: Option<&EventCopy>, change: &Change) -> Acceptance {
        accept::accept(stored, change)
    }

    fn edit(&self, group: &Group, now: DateTime<Utc>) -> Edit {
        edit::edit(group, &self.policies, self.lateness, now)
    }
}

/// How many changes go into each transaction, so that none costs much more than one event may: everybody else waits for
/// it, and reminders with them.
fn affordable(costs: &[u32]) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut sum = edit::MOST_STEPS;
    for cost in costs {
        match lengths.last_mut() {
            Some(length) if sum + cost <= edit::MOST_STEPS => *length += 1,
            _ => {
                lengths.push(1);
                sum = 0;
            }
        }
        sum += cost;
    }
    lengths
}

fn rejected(complaints: Vec<Complaint>) -> Answer {
    Answer {
        result: ChangeResult::Rejected(complaints),
        planned: 0,
        withdrawn: 0,
        warnings: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_costs_little_more_than_one_event_may() {
        let most = edit::MOST_STEPS;
        assert_eq!(affordable(&[]), Vec::<usize>::new());
        assert_eq!(affordable(&[0; 500]), [500]);
        assert_eq!(affordable(&[most, most, 0, 1, most - 1]), [1, 2, 2]);
    }
}
