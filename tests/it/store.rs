//! The contract of the store, by sentences. Everything goes through `dyn Store`; what differs from one database to the
//! other (opening one, and damaging a row as no verb can) is in [`Stage`].
//!
//! Editors and judges here return decisions that the test prepared: they are inputs of the store.

/// Every sentence is a test on SQLite; on PostgreSQL those of a file share a server, each with a database of its own.
macro_rules! contract {
    ($($sentence:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test]
                async fn $sentence() {
                    super::$sentence(&crate::store::Base::Sqlite).await;
                }
            )+
        }

        #[tokio::test]
        async fn postgres() {
            let base = crate::store::Base::postgres().await;
            let mut broken = Vec::new();
            let sentences = tokio::task::LocalSet::new();
            let read = sentences.run_until(async {
                $(
                    let own = base.clone();
                    let sentence = tokio::task::spawn_local(async move { $sentence(&own).await });
                    if sentence.await.is_err() {
                        broken.push(stringify!($sentence));
                    }
                )+
            });
            read.await;
            assert!(broken.is_empty(), "on PostgreSQL: {broken:#?}");
        }
    };
}

mod addressees;
mod answers;
mod changes;
mod claims;
mod digests;
mod epochs;
mod feed;
mod fire;
mod following;
mod interruptions;
mod leaders;
mod limits;
mod opening;
mod plans;
mod poison;
mod races;
mod reading;
mod registry;
mod reports;
mod rescue;
mod series;
mod settle;
mod standalone;
mod tokens;
mod versions;
mod work;

use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::ManualClock;
use carillon::store::Acceptance;
use carillon::store::Alarm;
use carillon::store::AttemptEnd;
use carillon::store::Candidate;
use carillon::store::Change;
use carillon::store::ChangeBody;
use carillon::store::Changed;
use carillon::store::Claimed;
use carillon::store::Delivery;
use carillon::store::Edit;
use carillon::store::Editor;
use carillon::store::EventCopy;
use carillon::store::EventKey;
use carillon::store::FireCheck;
use carillon::store::Group;
use carillon::store::HistoryQuery;
use carillon::store::Judge;
use carillon::store::Judgement;
use carillon::store::NearClaim;
use carillon::store::Owner;
use carillon::store::RescueRules;
use carillon::store::Settled;
use carillon::store::Settlement;
use carillon::store::Store;
use carillon::store::Succession;
use carillon::store::Verdict;
use carillon::store::postgres;
use carillon::store::postgres::PostgresStore;
use carillon::store::postgres::Time;
use carillon::store::sqlite::Options;
use carillon::store::sqlite::SqliteStore;
use carillon::trigger::AlarmIdentity;
use carillon::trigger::AttemptToken;
use carillon::trigger::ChannelKind;
use carillon::trigger::NewTrigger;
use carillon::trigger::OwnerId;
use carillon::trigger::Place;
use carillon::trigger::Recipient;
use carillon::trigger::SessionId;
use carillon::trigger::Trigger;
use carillon::trigger::TriggerId;
use carillon::trigger::Wish;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;
use carillon::trigger::preferences::Action;
use carillon::trigger::preferences::Display;
use carillon::trigger::preferences::Preferences;
use carillon::trigger::preferences::Route;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use sqlx::Connection;
use sqlx::PgConnection;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteConnectOptions;

use crate::harness::postgres::Postgres;

/// On which database a sentence is tried.
#[derive(Debug, Clone)]
pub enum Base {
    Sqlite,
    Postgres(Arc<Postgres>),
}

impl Base {
    /// A server for the sentences of one file.
    pub async fn postgres() -> Self {
        Self::Postgres(Arc::new(Postgres::start().await))
    }
}

/// A store with a clock that stands at minute 0, an owner `ada`, and a session.
pub struct Stage {
    pub store: Arc<dyn Store>,
    pub clock: Arc<ManualClock>,
    pub session: SessionId,
    /// Where the rows are: the file, or the address of the database.
    place: Where,
    /// Deleted when the test ends.
    pub folder: tempfile::TempDir,
    /// Last: the store goes before its server.
    _base: Base,
}

/// Where the rows of a stage are.
enum Where {
    File(PathBuf),
    Server(String),
}

/// Does to the rows in a file what no verb does.
pub async fn damage_file(path: &Path, statement: &str) {
    let options = SqliteConnectOptions::new().filename(path);
    let conn = SqliteConnection::connect_with(&options).await;
    let mut conn = conn.expect("the file opens");
    let done = sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
        .execute(&mut conn)
        .await;
    done.expect("the statement is right");
    conn.close().await.expect("the file closes");
}

/// What a crash leaves.
pub struct Remains {
    pub clock: Arc<ManualClock>,
    folder: tempfile::TempDir,
}

impl Remains {
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("carillon.db")
    }
}

impl Stage {
    /// One on SQLite.
    pub async fn new() -> Self {
        Self::on(&Base::Sqlite).await
    }

    pub async fn on(base: &Base) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clock = Arc::new(ManualClock::at(minute(0)));
        let shared = Arc::clone(&clock) as Arc<dyn Clock>;
        let (store, place): (Arc<dyn Store>, _) = match base {
            Base::Sqlite => {
                let path = folder.path().join("carillon.db");
                let store = SqliteStore::open(&path, shared, Options::default()).await;
                (Arc::new(store.expect("a new store opens")), Where::File(path))
            }
            Base::Postgres(server) => {
                let url = server.database().await;
                let options = postgres::Options {
                    time: Time::Given(shared),
                    ..postgres::Options::default()
                };
                let store = PostgresStore::open(&url, options).await;
                (Arc::new(store.expect("a new store opens")), Where::Server(url))
            }
        };
        store.put_owner(&owner("ada")).await.expect("an owner is stored");
        let (session, _) = store.begin_session("node-a", &rules()).await.expect("a session");
        Self {
            store,
            clock,
            session,
            place,
            folder,
            _base: base.clone(),
        }
    }

    /// The file of a stage on SQLite.
    pub fn path(&self) -> &Path {
        match &self.place {
            Where::File(path) => path,
            Where::Server(url) => panic!("{url} is no file"),
        }
    }

    /// The address of the database of a stage on PostgreSQL.
    pub fn url(&self) -> &str {
        match &self.place {
            Where::Server(url) => url,
            Where::File(path) => panic!("{} has no address", path.display()),
        }
    }

    /// The store goes without a farewell; its file stays.
    pub fn crash(self) -> Remains {
        Remains {
            clock: self.clock,
            folder: self.folder,
        }
    }

    /// Does to the rows what no verb does. An instant that is none is written as the largest number.
    pub async fn damage(&self, statement: &str) {
        match &self.place {
            Where::File(path) => damage_file(path, statement).await,
            Where::Server(url) => {
                let statement = statement.replace("9223372036854775807", "'infinity'");
                let mut conn = PgConnection::connect(url).await.expect("it answers");
                let done = sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
                    .execute(&mut conn)
                    .await;
                done.expect("the statement is right");
                conn.close().await.expect("it closes");
            }
        }
    }

    /// From now on the database refuses to write such rows.
    pub async fn poison(&self, verb: &str, table: &str, condition: &str) {
        let trigger = format!("CREATE TRIGGER poison BEFORE {verb} ON {table}");
        self.damage(&match &self.place {
            Where::File(_) => {
                format!("{trigger} WHEN {condition} BEGIN SELECT raise(ABORT, 'poison'); END")
            }
            Where::Server(_) => format!(
                "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS
                     $$ BEGIN RAISE EXCEPTION 'poison'; END $$;
                 {trigger} FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION poison()"
            ),
        })
        .await;
    }

    pub fn pass(&self, minutes: u64) {
        self.clock.advance(Duration::from_mins(minutes));
    }

    /// Puts an event whose group is edited as prepared.
    pub async fn put(&self, uid: &str, edit: Edit) -> Changed {
        self.put_near(uid, edit, None).await
    }

    pub async fn put_near(&self, uid: &str, edit: Edit, near: Option<NearClaim>) -> Changed {
        let editor = Prepared::with(uid, edit);
        let mut results = self
            .store
            .change(&[put(uid)], &editor, near)
            .await
            .expect("the batch is applied");
        results.remove(0).expect("the change is taken")
    }

    /// Plans triggers of one event, each with its wish.
    pub async fn plan(&self, uid: &str, triggers: &[NewTrigger]) {
        let changed = self.put(uid, planning(triggers)).await;
        assert_eq!(changed.planned, triggers.len());
    }

    pub async fn claim(&self) -> Vec<Claimed> {
        self.claim_until(1000).await
    }

    pub async fn claim_until(&self, minutes: i64) -> Vec<Claimed> {
        let claims = self
            .store
            .claim_due(self.session, minute(minutes), None, 1000)
            .await;
        claims.expect("the claim succeeds")
    }

    pub async fn fire(&self, claims: &[Claimed], token: i64, judge: &dyn Judge) -> FireCheck {
        let near = Duration::from_mins(35);
        let checked = self
            .store
            .fire_check(self.session, claims, AttemptToken(token), judge, near)
            .await;
        checked.expect("the fire-check succeeds")
    }

    /// Plans, claims and moves to `sending` one trigger.
    pub async fn sending(&self, new: &NewTrigger, token: i64) -> Claimed {
        self.plan(&new.wish.event_uid, std::slice::from_ref(new)).await;
        self.send_claimed(token).await
    }

    /// Claims the only free trigger and moves it to `sending`.
    pub async fn send_claimed(&self, token: i64) -> Claimed {
        let claims = self.claim().await;
        assert_eq!(claims.len(), 1);
        let checked = self.fire(&claims, token, &send()).await;
        assert_eq!(checked.granted.len(), 1);
        claims[0]
    }

    pub async fn settle(&self, settlement: Settlement) -> Settled {
        let settled = self
            .store
            .settle(&[settlement])
            .await
            .expect("the settle succeeds");
        assert_eq!(settled.len(), 1);
        settled[0]
    }

    /// Ada's copy under this key, or its tombstone.
    pub async fn copy(&self, name: &str) -> Option<EventCopy> {
        self.store.copy(&key(name)).await.expect("it can be read")
    }

    pub async fn group(&self, uid: &str) -> Option<Group> {
        let group = self.store.group(&OwnerId("ada".into()), uid).await;
        group.expect("the group can be read")
    }

    pub async fn triggers(&self, uid: &str) -> Vec<Trigger> {
        self.group(uid)
            .await
            .map(|group| group.triggers)
            .unwrap_or_default()
    }

    pub async fn trigger(&self, new: &NewTrigger) -> Option<Trigger> {
        let triggers = self.triggers(&new.wish.event_uid).await;
        triggers.into_iter().find(|trigger| trigger.id == new.id())
    }

    pub async fn history(&self) -> Vec<Delivery> {
        let query = HistoryQuery {
            limit: 1000,
            ..HistoryQuery::default()
        };
        self.store.history(&query).await.expect("history can be read")
    }

    pub async fn outcome(&self, id: TriggerId) -> Option<(Outcome, Reason)> {
        let history = self.history().await;
        let row = history.into_iter().find(|row| row.id == id)?;
        Some((row.outcome, row.reason))
    }
}

pub fn minute(minutes: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_796_000_400, 0).expect("a time of our age") + TimeDelta::minutes(minutes)
}

pub fn rules() -> RescueRules {
    RescueRules {
        dead_after: Duration::from_secs(5),
        overdue_wait: Duration::from_mins(5),
        send_within: Duration::from_mins(2),
        retry_in_doubt: vec![ChannelKind::Email, ChannelKind::Webhook],
    }
}

pub fn owner(id: &str) -> Owner {
    Owner {
        id: OwnerId(id.into()),
        email: Some(format!("{id}@example.org")),
        email_dead: None,
        webhook_secrets: None,
        link_epoch: minute(0).timestamp_millis(),
        addresses: vec![format!("{id}@example.com")],
        phone: Some("+4930123456".into()),
        webhook: None,
        time_zone: "Europe/Berlin".into(),
        locale: "en".into(),
        enabled: true,
        muted: vec![ChannelKind::Sms],
        preferences: Preferences {
            display: Some(Display::Deliver),
            routes: vec![Route {
                action: Action::Audio,
                channel: ChannelKind::Sms,
            }],
            verified: vec!["bert@example.com".into()],
            ..Preferences::default()
        },
    }
}

pub fn key(name: &str) -> EventKey {
    EventKey {
        source: "work".into(),
        key: name.into(),
        owner: OwnerId("ada".into()),
    }
}

/// An event under the key of its UID.
pub fn put(uid: &str) -> Change {
    put_under(key(uid), uid)
}

pub fn put_under(at: EventKey, uid: &str) -> Change {
    Change {
        at,
        version: None,
        body: ChangeBody::Put {
            uid: uid.into(),
            ics: format!("BEGIN:VCALENDAR {uid}"),
        },
    }
}

pub fn delete(uid: &str) -> Change {
    Change {
        at: key(uid),
        version: None,
        body: ChangeBody::Delete,
    }
}

pub fn wish(uid: &str) -> Wish {
    Wish {
        owner: OwnerId("ada".into()),
        event_uid: uid.into(),
        identity: AlarmIdentity("alarm-1".into()),
        channel: ChannelKind::Email,
        recipient: Recipient::Owner,
    }
}

pub fn place(minutes: i64) -> Place {
    Place {
        trigger_at: minute(minutes),
        occurrence: minute(minutes + 15),
        repeat: 0,
    }
}

/// The firing of the event's alarm at that minute, with more to follow.
pub fn new(uid: &str, minutes: i64) -> NewTrigger {
    NewTrigger {
        wish: wish(uid),
        place: place(minutes),
        expires_at: minute(minutes + 720),
        has_more: true,
        moved: false,
    }
}

pub fn sms(mut new: NewTrigger) -> NewTrigger {
    new.wish.channel = ChannelKind::Sms;
    new
}

/// An edit that plans triggers and wishes what they belong to.
pub fn planning(triggers: &[NewTrigger]) -> Edit {
    let mut alarms: Vec<Alarm> = Vec::new();
    for trigger in triggers {
        if alarms.iter().all(|alarm| alarm.wish != trigger.wish) {
            alarms.push(Alarm {
                wish: trigger.wish.clone(),
                served_through: None,
            });
        }
    }
    Edit {
        alarms,
        insert: triggers.to_vec(),
        ..Edit::default()
    }
}

/// An editor with prepared decisions, which remembers the groups it saw.
pub struct Prepared {
    pub acceptance: Acceptance,
    pub edits: HashMap<String, Edit>,
    pub stored: Mutex<Vec<Option<EventCopy>>>,
    pub groups: Mutex<Vec<Group>>,
}

impl Prepared {
    pub fn with(uid: &str, edit: Edit) -> Self {
        Self::all([(uid.to_owned(), edit)])
    }

    pub fn all(edits: impl IntoIterator<Item = (String, Edit)>) -> Self {
        Self {
            acceptance: Acceptance::Apply,
            edits: edits.into_iter().collect(),
            stored: Mutex::default(),
            groups: Mutex::default(),
        }
    }

    pub fn uids(&self) -> Vec<String> {
        let groups = self.groups.lock().expect("no test panics in it");
        groups.iter().map(|group| group.uid.clone()).collect()
    }
}

impl Editor for Prepared {
    fn accept(&self, stored: Option<&EventCopy>, _: &Change) -> Acceptance {
        self.stored
            .lock()
            .expect("no test panics in it")
            .push(stored.cloned());
        self.acceptance.clone()
    }

    fn edit(&self, group: &Group, _: DateTime<Utc>) -> Edit {
        self.groups
            .lock()
            .expect("no test panics in it")
            .push(group.clone());
        let prepared = self.edits.get(&group.uid).cloned();
        // Whatever is not prepared stays as it is.
        prepared.unwrap_or_else(|| Edit {
            alarms: group.alarms.clone(),
            ..Edit::default()
        })
    }
}

/// A judge with a prepared decision.
pub struct Decided<F>(pub F);

impl<F: Fn(&Candidate) -> Judgement + Send + Sync> Judge for Decided<F> {
    fn judge(&self, candidate: &Candidate, _: DateTime<Utc>) -> Judgement {
        (self.0)(candidate)
    }
}

/// Sends everything, and nothing follows.
pub fn send() -> impl Judge {
    Decided(|_: &Candidate| Judgement {
        verdict: Verdict::Send,
        succession: None,
    })
}

/// Ends everything with `verdict`; the next firing comes `after` minutes later.
pub fn going_on(verdict: Verdict, after: i64) -> impl Judge {
    Decided(move |candidate: &Candidate| {
        let mut place = candidate.trigger.place;
        place.trigger_at += TimeDelta::minutes(after);
        place.occurrence += TimeDelta::minutes(after);
        Judgement {
            verdict,
            succession: Some(Succession {
                served_through: candidate.trigger.place,
                successor: Some(NewTrigger {
                    wish: candidate.trigger.wish.clone(),
                    place,
                    expires_at: place.trigger_at + TimeDelta::hours(12),
                    has_more: true,
                    moved: false,
                }),
                missed: None,
            }),
        }
    })
}

pub fn done(claim: Claimed, token: i64, outcome: Outcome, reason: Reason) -> Settlement {
    Settlement {
        id: claim.id,
        generation: claim.generation,
        token: AttemptToken(token),
        end: AttemptEnd::Done {
            outcome,
            reason,
            detail: "250 queued as 4711".into(),
            handed_over_at: outcome.is_hand_over().then(|| minute(0)),
            reference: None,
            await_until: None,
            kept: None,
        },
    }
}

pub fn sent(claim: Claimed, token: i64) -> Settlement {
    done(claim, token, Outcome::Sent, Reason::None)
}

pub fn retry(claim: Claimed, token: i64, minutes: i64, counts: bool) -> Settlement {
    Settlement {
        id: claim.id,
        generation: claim.generation,
        token: AttemptToken(token),
        end: AttemptEnd::Retry {
            due_at: minute(minutes),
            counts,
            doubtful: false,
            error: "451 try later".into(),
            payload: None,
        },
    }
}
