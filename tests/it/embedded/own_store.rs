//! A store of the program's own: the trait can be implemented outside of this crate.

use std::collections::BTreeMap;

use async_trait::async_trait;
use carillon::clock::SystemClock;
use carillon::store::token::AccessToken;
use carillon::store::token::AccessTokens;
use carillon::store::token::Issued;
use carillon::store::token::NewToken;
use carillon::store::*;
use carillon::trigger::AttemptToken;
use carillon::trigger::ChannelKind;
use carillon::trigger::OwnerId;
use carillon::trigger::SessionId;
use carillon::trigger::TriggerId;
use chrono::DateTime;
use chrono::Utc;

use super::*;

/// A store that counts what it is asked, and does not answer every settle.
#[derive(Debug)]
struct Counting {
    inner: sqlite::SqliteStore,
    asked: Mutex<BTreeMap<&'static str, u32>>,
}

impl Counting {
    fn count(&self, verb: &'static str) -> u32 {
        let mut asked = self.asked.lock().unwrap();
        let count = asked.entry(verb).or_default();
        *count += 1;
        *count
    }

    fn asked(&self, verb: &str) -> u32 {
        self.asked.lock().unwrap().get(verb).copied().unwrap_or_default()
    }
}

type Instant = DateTime<Utc>;
type Place = Option<(Instant, TriggerId)>;
type Answered<T> = Result<T, StoreError>;

/// Verbs that are counted and passed on.
macro_rules! counting {
    ($($verb:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)+) => {
        #[async_trait]
        impl Store for Counting {
            $(
                async fn $verb(&self, $($argument: $kind),*) -> Answered<$answer> {
                    self.count(stringify!($verb));
                    self.inner.$verb($($argument),*).await
                }
            )+

            async fn settle(&self, settlements: &[Settlement]) -> Answered<Vec<Settled>> {
                let settled = self.inner.settle(settlements).await;
                if self.count("settle") == 1 {
                    // As where the connection is lost after the commit.
                    return Err(StoreError::Unavailable("the test has it so".to_owned()));
                }
                settled
            }

            fn fenced(self: Arc<Self>, _: Option<Fence>) -> Arc<dyn Store> {
                self
            }

            async fn close(&self) {
                self.inner.close().await;
            }
        }
    };
}

counting! {
    now() -> Instant;
    begin_session(node: &str, rules: &RescueRules) -> (SessionId, Rescued);
    beat(session: SessionId, says: Report) -> bool;
    living(dead_after: Duration) -> Vec<Living>;
    give_back(session: SessionId) -> u64;
    end_session(session: SessionId) -> u64;
    add_owner(owner: &Owner) -> bool;
    put_owner(owner: &Owner) -> Replaced;
    owner(id: &OwnerId) -> Option<Owner>;
    webhook_news(id: &OwnerId, url: &str, news: WebhookNews<'_>) -> bool;
    address_died(id: &OwnerId, email: &str, dead: &DeadAddress) -> bool;
    owners_to_plan(limit: u32) -> Vec<(OwnerId, PlanMark)>;
    owner_planned(id: &OwnerId, mark: PlanMark) -> ();
    change(changes: &[Change], editor: &dyn Editor, near: Option<NearClaim>) -> Vec<Answered<Changed>>;
    edit_groups(owner: Option<&OwnerId>, after: Option<(OwnerId, String)>, limit: u32, editor: &dyn Editor,
        near: Option<NearClaim>) -> (Changed, Option<(OwnerId, String)>);
    answer(key: &(OwnerId, String), answering: &Answering, editor: &dyn Editor, near: Option<NearClaim>)
        -> Option<Changed>;
    copy(at: &EventKey) -> Option<EventCopy>;
    holders(source: &str, key: &str, after: Option<&OwnerId>, limit: u32) -> Vec<OwnerId>;
    group(owner: &OwnerId, uid: &str) -> Option<Group>;
    alter_alarms(alarms: &[AlarmAt], editor: &dyn AlarmEditor, near: Option<NearClaim>) -> Vec<Answered<Altered>>;
    alarm(owner: &OwnerId, id: &AlarmId) -> Option<Standalone>;
    alarms(query: &AlarmQuery) -> Vec<Standalone>;
    alarm_counts(owner: &OwnerId) -> Vec<AlarmCount>;
    claim_due(session: SessionId, until: Instant, after: Place, limit: u32) -> Vec<Claimed>;
    next_free_due(after: Instant) -> Option<Instant>;
    held_by(session: SessionId, until: Instant, after: Place, limit: u32) -> Vec<Claimed>;
    rescue(rules: &RescueRules, limit: u32) -> Rescued;
    fire_check(session: SessionId, claims: &[Claimed], token: AttemptToken, judge: &dyn Judge, near: Duration)
        -> FireCheck;
    recall(recall: Recall) -> Recalled;
    report(notices: &[Notice]) -> Vec<Noted>;
    time_out(limit: u32) -> BTreeMap<ChannelKind, u64>;
    history(query: &HistoryQuery) -> Vec<Delivery>;
    delivery(id: TriggerId) -> Option<Delivery>;
    outbox(owner: Option<&OwnerId>, after: Place, limit: u32) -> Vec<OutboxEntry>;
    backlog(until: Instant, limit: u32) -> Backlog;
    purge(retention: &Retention) -> u64;
    remembered(name: &str) -> Option<String>;
    remember(name: &str, value: &str) -> ();
    remember_first(name: &str, value: &str) -> String;
}

#[async_trait]
impl Epochs for Counting {
    async fn heartbeat(&self, session: SessionId, says: Report) -> Answered<Heartbeat> {
        self.inner.heartbeat(session, says).await
    }

    async fn epoch(&self) -> Answered<Epoch> {
        self.inner.epoch().await
    }

    async fn resume_session(&self, session: SessionId, node: &str) -> Answered<bool> {
        self.inner.resume_session(session, node).await
    }

    async fn record_again(&self, hand_overs: &[HandOver]) -> Answered<u64> {
        self.inner.record_again(hand_overs).await
    }

    async fn doubtful(&self) -> Answered<Doubtful> {
        self.inner.doubtful().await
    }

    async fn release(&self, epoch: EpochId, missed_before: Option<Instant>) -> Answered<bool> {
        self.inner.release(epoch, missed_before).await
    }
}

#[async_trait]
impl AccessTokens for Counting {
    async fn issue_token(&self, token: &NewToken) -> Answered<Issued> {
        self.inner.issue_token(token).await
    }

    async fn access_token(&self, hash: &[u8; 32]) -> Answered<Option<AccessToken>> {
        self.inner.access_token(hash).await
    }

    async fn access_tokens(&self) -> Answered<Vec<AccessToken>> {
        self.inner.access_tokens().await
    }

    async fn token_used(&self, hash: &[u8; 32], at: Instant) -> Answered<bool> {
        self.inner.token_used(hash, at).await
    }

    async fn link_epoch(&self, id: TriggerId) -> Answered<Option<i64>> {
        self.inner.link_epoch(id).await
    }

    async fn remember_instead(&self, name: &str, change: (&str, &str)) -> Answered<bool> {
        self.inner.remember_instead(name, change).await
    }

    async fn revoke_token(&self, name: &str) -> Answered<bool> {
        self.inner.revoke_token(name).await
    }
}

#[async_trait]
impl AlarmFeed for Counting {
    async fn alarm_changes(&self, owner: &OwnerId, after: u64, limit: u32) -> Answered<Vec<AlarmChange>> {
        self.inner.alarm_changes(owner, after, limit).await
    }

    async fn last_changes(&self, owners: &[OwnerId]) -> Answered<Vec<(OwnerId, u64)>> {
        self.inner.last_changes(owners).await
    }

    async fn firing_counts(&self, owner: &OwnerId) -> Answered<Vec<FiringCount>> {
        self.inner.firing_counts(owner).await
    }
}

#[async_trait]
impl LiveSeries for Counting {
    async fn live_series(
        &self,
        owner: Option<&OwnerId>,
        after: Option<&(OwnerId, AlarmId)>,
        limit: u32,
    ) -> Answered<Vec<(OwnerId, AlarmId)>> {
        self.inner.live_series(owner, after, limit).await
    }
}

#[tokio::test]
async fn a_node_works_on_a_store_of_the_programs_own() {
    let (_folder, path) = file();
    let inner = sqlite::SqliteStore::open(&path, Arc::new(SystemClock), sqlite::Options::default());
    let store = Arc::new(Counting {
        inner: inner.await.expect("the store opens"),
        asked: Mutex::default(),
    });
    let elsewhere = path.with_extension("not-used");
    let own = Arc::clone(&store) as Arc<dyn Store>;
    let (node, calls) = noting(on(&elsewhere).store(own), "tea").await;

    let id = dispatch(&node, "tea", "black").await;
    status(&node, &id, AlarmStatus::Fired).await;
    node.stop().await.expect("nothing broke");

    // The answer to the first settle was lost, and it was asked again; the handler was not.
    assert_eq!(calls.all(), given(&[("black", 1)]));
    assert_eq!((store.asked("alter_alarms"), store.asked("settle")), (1, 2));
    assert!(store.asked("fire_check") >= 1 && store.asked("alarm") >= 1);
    assert_eq!(store.asked("end_session"), 1);
    assert!(!elsewhere.exists());
}
