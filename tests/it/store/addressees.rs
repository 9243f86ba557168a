//! What a fire-check is told of addresses that are not those of the alarm's owner.

use std::sync::Arc;
use std::sync::Mutex;

use carillon::store::Addressee;
use carillon::store::Candidate;
use carillon::store::EventKey;
use carillon::store::Judgement;
use carillon::store::Verdict;
use carillon::trigger::NewTrigger;
use carillon::trigger::OwnerId;
use carillon::trigger::Recipient;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;

use crate::store::Base;
use crate::store::Decided;
use crate::store::Prepared;
use crate::store::Stage;
use crate::store::key;
use crate::store::new;
use crate::store::owner;
use crate::store::planning;
use crate::store::put_under;
use crate::store::sent;

contract! {
    nothing_is_said_of_the_owner_and_of_a_stranger_only_that_nobody_tells_them,
    an_owner_is_found_by_their_address_and_by_the_copy_that_they_hold,
    an_address_is_told_by_the_first_owner_alone,
    what_was_sent_to_an_address_is_told_and_what_failed_is_not,
}

/// Those that the judge saw, by the owner of their trigger.
type Seen = Vec<(String, Option<Addressee>)>;

fn to_bert(owner: &str) -> NewTrigger {
    let mut trigger = new("e", 0);
    trigger.wish.owner = OwnerId(owner.into());
    trigger.wish.recipient = Recipient::Address("bert@example.org".into());
    trigger
}

/// Puts somebody's copy, which owes these.
async fn owing(stage: &Stage, who: &str, triggers: &[NewTrigger]) {
    stage.store.put_owner(&owner(who)).await.expect("they are stored");
    let at = EventKey {
        owner: OwnerId(who.into()),
        ..key("e")
    };
    let editor = Prepared::with("e", planning(triggers));
    let changed = stage.store.change(&[put_under(at, "e")], &editor, None).await;
    changed.expect("it is applied").remove(0).expect("it is taken");
}

/// What is known of the addressees of all that is claimed, which ends with `verdict`.
async fn seen(stage: &Stage, verdict: Verdict) -> Seen {
    let claims = stage.claim().await;
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let watching = Arc::clone(&seen);
    let judge = Decided(move |candidate: &Candidate| {
        let owner = candidate.owner.id.0.clone();
        let known = (owner, candidate.addressee.clone());
        watching.lock().expect("no test panics in it").push(known);
        Judgement {
            verdict,
            succession: None,
        }
    });
    stage.fire(&claims, 7, &judge).await;
    let mut seen = seen.lock().expect("no test panics in it").clone();
    seen.sort_by(|one, other| one.0.cmp(&other.0));
    seen
}

fn nobody() -> Addressee {
    Addressee {
        person: None,
        holds_copy: false,
        is_told: false,
    }
}

async fn nothing_is_said_of_the_owner_and_of_a_stranger_only_that_nobody_tells_them(base: &Base) {
    let stage = Stage::on(base).await;
    owing(&stage, "ada", &[new("e", 0), to_bert("ada")]).await;

    let seen = seen(&stage, Verdict::Send).await;

    let mut known: Vec<_> = seen.into_iter().map(|(_, addressee)| addressee).collect();
    known.sort_by_key(Option::is_some);
    assert_eq!(known, [None, Some(nobody())]);
}

async fn an_owner_is_found_by_their_address_and_by_the_copy_that_they_hold(base: &Base) {
    for holds_copy in [false, true] {
        let stage = Stage::on(base).await;
        owing(&stage, "ada", &[to_bert("ada")]).await;
        let mut bert = owner("bert");
        bert.email = Some("Bert@Example.ORG".into());
        if holds_copy {
            owing(&stage, "bert", &[]).await;
        }
        stage.store.put_owner(&bert).await.expect("he is stored");
        let stored = stage.store.owner(&bert.id).await.expect("an answer");

        let seen = seen(&stage, Verdict::Send).await;

        let known = Addressee {
            person: stored,
            holds_copy,
            is_told: false,
        };
        assert_eq!(seen, [("ada".to_owned(), Some(known))]);
    }
}

async fn an_address_is_told_by_the_first_owner_alone(base: &Base) {
    let stage = Stage::on(base).await;
    for who in ["cleo", "ada", "dora"] {
        owing(&stage, who, &[to_bert(who)]).await;
    }

    let seen = seen(&stage, Verdict::Send).await;

    let told: Vec<_> = seen
        .iter()
        .map(|(owner, known)| (owner.as_str(), known.as_ref().unwrap().is_told))
        .collect();
    assert_eq!(told, [("ada", false), ("cleo", true), ("dora", true)]);
}

async fn what_was_sent_to_an_address_is_told_and_what_failed_is_not(base: &Base) {
    for is_sent in [true, false] {
        let stage = Stage::on(base).await;
        owing(&stage, "cleo", &[to_bert("cleo")]).await;
        if is_sent {
            let claim = stage.send_claimed(6).await;
            stage.settle(sent(claim, 6)).await;
        } else {
            seen(&stage, Verdict::Conclude(Outcome::Failed, Reason::Refused)).await;
        }
        owing(&stage, "ada", &[to_bert("ada")]).await;

        let seen = seen(&stage, Verdict::Send).await;

        let known = Addressee {
            is_told: is_sent,
            ..nobody()
        };
        assert_eq!(seen, [("ada".to_owned(), Some(known))]);
    }
}
