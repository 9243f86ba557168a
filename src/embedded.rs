//! A node as a part of a program: the same planner, store and delivery as the service has, without its ways in. The
//! program names handlers, and asks for them to be called at an instant. What it asked for is in the store before it
//! gets an answer, so that it happens whatever becomes of the program: after a crash, when it is started again.
//!
//! A handler is called once for an alarm that it is done with, but may be called again where that could not be
//! written down any more. Only what is due within the look-ahead is held in memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::DropGuard;

use crate::change::alarm;
use crate::change::alarm::NewAlarm;
use crate::change::alarm::Order;
use crate::change::alarm::Past;
use crate::change::alarm::fresh_id;
use crate::change::alarm::request_hash;
use crate::channel::handler;
use crate::config::Complaints;
use crate::config::Settings;
use crate::http;
use crate::service;
use crate::service::Own;
use crate::service::Started;
use crate::shutdown::Shutdown;
use crate::store::AlarmAt;
use crate::store::AlarmQuery;
use crate::store::AlarmRefusal;
use crate::store::AlarmStatus;
use crate::store::AlarmTerms;
use crate::store::Altered;
use crate::store::Notice;
use crate::store::Owner;
use crate::store::Standalone;
use crate::store::Store;
use crate::store::StoreError;
use crate::trigger::AlarmId;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::outcome::Reported;
use crate::trigger::preferences::Preferences;

pub use crate::channel::handler::Answer;
pub use crate::channel::handler::Call;

/// Whose alarms are dispatched where the program does not say.
const OWNER: &str = "program";

/// When a handler is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// So long after it is asked for.
    In(Duration),
    /// At this instant; at once if that is past.
    At(DateTime<Utc>),
}

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Dispatched {
    /// The alarm as it is now.
    pub alarm: Standalone,
    /// Whether it was asked for before, under the same key: then it is that one, with the instant that it has.
    pub existed: bool,
}

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
#[error("the node cannot start: {0:#}")]
pub struct StartError(anyhow::Error);

/// What broke in a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the node broke: {0}")]
pub struct Broken(String);

/// Why something is not as was asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The message has no form as JSON.
    #[error("the message has no form as JSON: {0}")]
    Message(serde_json::Error),
    /// What is asked for makes no sense; the text says all that is wrong with it.
    #[error("{0}")]
    Invalid(String),
    /// Another message or handler was asked for under this key.
    #[error("another message was asked for under this key: use a new key, or the same message")]
    OtherMessage,
    /// There is no such alarm.
    #[error("there is no alarm `{0}`")]
    Unknown(AlarmId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A node that is to be started: what the service is configured by, and what the program adds to it.
///
/// Of the configuration everything holds but what is said of the API.
#[derive(Debug)]
#[must_use = "nothing is delivered before it is started"]
pub struct Builder {
    settings: Settings,
    own: Own,
    owner: OwnerId,
    calls: usize,
}

impl Builder {
    /// A node with this configuration.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            own: Own::default(),
            owner: OwnerId(OWNER.to_owned()),
            calls: handler::DEFAULT_CALLS,
        }
    }

    /// A node that remembers in a file of SQLite, which is made if it is not there, and looks into it at once; all else is as
    /// it comes.
    ///
    /// # Errors
    ///
    /// When the path is empty.
    pub fn on_sqlite(path: &Path) -> Result<Self, Complaints> {
        let differs = [
            ("STORE__URL", format!("sqlite://{}", path.display())),
            ("WORKER__INITIAL_DELAY", "0s".to_owned()),
        ];
        let differs = differs.map(|(key, value)| (format!("CARILLON__{key}"), value));
        Settings::load(None, differs).map(Self::new)
    }

    /// Calls of each handler that is named from here on that may be under way at once; 16 if it is not said.
    pub fn calls(self, calls: usize) -> Self {
        Self { calls, ..self }
    }

    /// Lets `handler` take what is dispatched to `name`. It runs on the runtime of the program: what blocks belongs into
    /// `tokio::task::spawn_blocking`. A call that panics, or takes longer than its alarm allows (5 s), is tried again; a
    /// message that is not a `T` never is.
    pub fn handler<T, F, A>(mut self, name: &str, handler: F) -> Self
    where
        T: DeserializeOwned + Serialize + Send + 'static,
        F: Fn(Call<T>) -> A + Send + Sync + 'static,
        A: Future<Output = Answer<T>> + Send + 'static,
    {
        self.own.handlers.put(name, self.calls, handler);
        self
    }

    /// Remembers in a store of the program's own, in place of the one that the configuration names. The node is alone on it:
    /// it looks for no others, whatever the configuration says of a cluster.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.own.store = Some(store);
        self
    }

    /// Whose alarms are dispatched, where several programs share a store: keys are names among those of one owner. It is
    /// created if it is not there.
    pub fn owner(self, id: &str) -> Self {
        Self {
            owner: OwnerId(id.to_owned()),
            ..self
        }
    }

    /// Starts it on the runtime of the caller. What was due while nobody ran is delivered from now on.
    ///
    /// # Errors
    ///
    /// When the store cannot be opened, is in use, or is of a newer version; when a file of the configuration cannot be read.
    pub async fn start(mut self) -> Result<Embedded, StartError> {
        if self.own.store.is_some() {
            self.settings.cluster = None;
        }
        let shutdown = Shutdown::new();
        let guard = shutdown.soft.clone().drop_guard();
        let started = service::start(&self.settings, self.own, &shutdown).await;
        let node = Embedded {
            started: started.map_err(StartError)?,
            owner: self.owner,
            shutdown,
            _guard: guard,
        };
        let known = node.know_owner().await;
        known.map_err(|error| StartError(error.into()))?;
        Ok(node)
    }
}

/// A node that runs in this process. Where it is dropped, it takes nothing new; [`Embedded::stop`] waits for what is under
/// way, too.
#[derive(Debug)]
pub struct Embedded {
    started: Started,
    owner: OwnerId,
    shutdown: Shutdown,
    _guard: DropGuard,
}

impl Embedded {
    /// Has the handler of that name called with `message`, once it is time. Asked for again under the same key, it is the
    /// alarm that there is, whatever `when` says: so a program may ask again after a crash. A key is good for ever.
    ///
    /// # Errors
    ///
    /// When the message has more than 256 KiB as JSON or is nested in more than 127 others, the key or the name is empty or has more than 512 bytes, or another
    /// message was asked for under this key; when the store fails.
    pub async fn dispatch<T: Serialize>(
        &self,
        handler: &str,
        message: &T,
        key: &str,
        when: When,
    ) -> Result<Dispatched, AskError> {
        let terms = AlarmTerms::default();
        self.dispatch_with(terms, (handler, message), key, when).await
    }

    /// The same with terms of its own: how often it is tried, how long one call may take, from when on it is of no use.
    ///
    /// # Errors
    ///
    /// As [`Embedded::dispatch`]; and when the terms make no sense.
    pub async fn dispatch_with<T: Serialize>(
        &self,
        terms: AlarmTerms,
        (handler, message): (&str, &T),
        key: &str,
        when: When,
    ) -> Result<Dispatched, AskError> {
        let payload = serde_json::to_string(message).map_err(AskError::Message)?;
        // What is nested too deeply can be written, and be read by nobody.
        serde_json::from_str::<serde_json::Value>(&payload).map_err(AskError::Message)?;
        let terms = AlarmTerms {
            cron: None,
            target: Some(handler.to_owned()),
            created_via: Some("library".to_owned()),
            ..terms
        };
        http::allow(&terms, ChannelKind::Handler, key, &payload).map_err(AskError::Invalid)?;
        let new = NewAlarm {
            when: when.meant(),
            past: Past::Fire,
            channel: ChannelKind::Handler,
            // What is meant by a key: the handler and the message.
            request_hash: request_hash(&format!("{handler}\n{payload}")),
            terms,
            payload: Some(payload),
        };
        let at = AlarmAt {
            key: Some(key.to_owned()),
            ..self.named(fresh_id()?)
        };
        self.ask(at, Order::Create(Box::new(new))).await
    }

    /// Calls an alarm off. Asked for again, it is answered the same; what is being done is not stopped.
    ///
    /// # Errors
    ///
    /// When there is no such alarm; when the store fails.
    pub async fn cancel(&self, id: &AlarmId) -> Result<Standalone, AskError> {
        let dispatched = self.ask(self.named(id.clone()), Order::Cancel).await?;
        Ok(dispatched.alarm)
    }

    /// One alarm, if there is one.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub async fn alarm(&self, id: &AlarmId) -> Result<Option<Standalone>, StoreError> {
        self.store().alarm(&self.owner, id).await
    }

    /// Up to `limit` alarms, newest first: of that state, and those that come after the last one seen.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub async fn alarms(
        &self,
        status: Option<AlarmStatus>,
        after: Option<&Standalone>,
        limit: u32,
    ) -> Result<Vec<Standalone>, StoreError> {
        let query = AlarmQuery {
            owner: self.owner.clone(),
            status,
            after: after.map(|seen| (seen.created_at, seen.id.clone())),
            limit,
        };
        self.store().alarms(&query).await
    }

    /// Says how the work ended that a handler took with [`Answer::Later`], by the `trigger_id` of its call: a result, or why it
    /// failed; history keeps 500 characters. It may be said twice and in any order: that it was completed is the last word.
    /// False: no such firing was ever handed over.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub async fn report(&self, trigger_id: &str, said: Result<&str, &str>) -> Result<bool, StoreError> {
        let Ok(id) = trigger_id.parse() else {
            return Ok(false);
        };
        let reported = said.map_or(Reported::Failed, |_| Reported::Completed);
        let (Ok(detail) | Err(detail)) = said;
        let notice = Notice {
            id,
            reported,
            detail: detail.to_owned(),
        };
        http::note(self.store().as_ref(), &self.started.metrics, notice).await
    }

    /// Where everything is remembered, for what else there is to read.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.started.store
    }

    /// Waits until something broke, which does not happen by itself to alarms or handlers: stop the node then, and start
    /// another.
    pub async fn broke(&self) -> Broken {
        self.shutdown.soft.cancelled().await;
        Broken(
            self.shutdown
                .failure()
                .unwrap_or("it was asked to stop")
                .to_owned(),
        )
    }

    /// Takes nothing new, waits for the calls under way (for at most 30 s), gives back what is held and lets go of the store.
    ///
    /// # Errors
    ///
    /// When something broke before.
    pub async fn stop(self) -> Result<(), Broken> {
        let stopped = self.started.stop(&self.shutdown).await;
        stopped.map_err(|reason| Broken(reason.to_string()))
    }

    async fn ask(&self, at: AlarmAt, order: Order) -> Result<Dispatched, AskError> {
        let id = at.id.clone();
        let altered = self.started.changes.order_alarm(at, order, None).await?;
        taken(altered, id)
    }

    fn named(&self, id: AlarmId) -> AlarmAt {
        AlarmAt {
            owner: self.owner.clone(),
            id,
            key: None,
            request: None,
        }
    }

    /// Has a row for the owner of all alarms here. One that is there stays as it is, whoever wrote it and when.
    async fn know_owner(&self) -> Result<(), StoreError> {
        let owner = Owner {
            id: self.owner.clone(),
            email: None,
            email_dead: None,
            webhook_secrets: None,
            link_epoch: 0,
            addresses: Vec::new(),
            phone: None,
            webhook: None,
            time_zone: "UTC".to_owned(),
            locale: "en".to_owned(),
            enabled: true,
            muted: Vec::new(),
            preferences: Preferences::default(),
        };
        self.store().add_owner(&owner).await.map(drop)
    }
}

impl When {
    fn meant(self) -> alarm::When {
        match self {
            Self::In(delay) => alarm::When::In(TimeDelta::from_std(delay).unwrap_or(TimeDelta::MAX)),
            Self::At(at) => alarm::When::At(at),
        }
    }
}

/// The alarm as it is now, or why it is not as was asked.
fn taken(altered: Altered, id: AlarmId) -> Result<Dispatched, AskError> {
    match (altered.refusal, altered.alarm) {
        (None, Some(alarm)) => Ok(Dispatched {
            alarm,
            existed: altered.existed,
        }),
        (None | Some(AlarmRefusal::Unknown), _) => Err(AskError::Unknown(id)),
        (Some(AlarmRefusal::OtherContent(_)), _) => Err(AskError::OtherMessage),
        (Some(AlarmRefusal::Invalid(field, detail)), _) => {
            Err(AskError::Invalid(format!("{}: {detail}", &field[1..])))
        }
        (Some(AlarmRefusal::Conflict(reason)), _) => Err(AskError::Invalid(reason)),
        (Some(AlarmRefusal::Changed), _) => Err(AskError::Invalid("it was changed meanwhile".to_owned())),
    }
}
