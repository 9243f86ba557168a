//! Access tokens.

use std::time::Duration;

use carillon::store::StoreError;
use carillon::store::token::AccessToken;
use carillon::store::token::Issued;
use carillon::store::token::MOST_TOKENS;
use carillon::store::token::NewToken;
use carillon::store::token::Scope;
use carillon::trigger::OwnerId;

use crate::store::Base;
use crate::store::Stage;
use crate::store::minute;

contract! {
    a_token_is_found_by_its_hash_until_it_is_revoked,
    a_name_and_an_owner_are_looked_at,
    a_use_is_noted_once_a_minute,
    tokens_are_bounded,
}

fn token(number: u32, name: &str) -> NewToken {
    let mut hash = [7; 32];
    hash[..4].copy_from_slice(&number.to_be_bytes());
    NewToken {
        hash,
        name: name.to_owned(),
        scope: Scope::Write,
        owner: Some(OwnerId("ada".into())),
        lasts: Some(Duration::from_mins(5)),
    }
}

async fn issue(stage: &Stage, token: &NewToken) -> Issued {
    stage.store.issue_token(token).await.expect("an answer")
}

async fn found(stage: &Stage, token: &NewToken) -> Option<AccessToken> {
    stage.store.access_token(&token.hash).await.expect("it is read")
}

async fn a_token_is_found_by_its_hash_until_it_is_revoked(base: &Base) {
    let stage = Stage::on(base).await;
    let (one, other) = (token(1, "one"), token(2, "other"));
    let unbound = NewToken {
        scope: Scope::Admin,
        owner: None,
        lasts: None,
        ..token(3, "admin")
    };
    for token in [&one, &other, &unbound] {
        assert_eq!(issue(&stage, token).await, Issued::Done);
    }
    let known = found(&stage, &one).await.expect("it is there");
    let expected = AccessToken {
        name: "one".into(),
        scope: Scope::Write,
        owner: Some(OwnerId("ada".into())),
        created_at: minute(0),
        expires_at: Some(minute(5)),
        last_used_at: None,
    };
    assert_eq!(known, expected);
    assert!(!known.has_expired(minute(4)) && known.has_expired(minute(5)));
    let admin = found(&stage, &unbound).await.expect("it is there");
    assert_eq!(
        (admin.scope, admin.owner, admin.expires_at),
        (Scope::Admin, None, None)
    );
    assert_eq!(found(&stage, &token(4, "one")).await, None);

    assert!(stage.store.revoke_token("one").await.expect("an answer"));
    assert!(!stage.store.revoke_token("one").await.expect("an answer"));
    assert_eq!(found(&stage, &one).await, None);
    let left = stage.store.access_tokens().await.expect("a list");
    let left: Vec<&str> = left.iter().map(|token| token.name.as_str()).collect();
    assert_eq!(left, ["admin", "other"]);
}

async fn a_name_and_an_owner_are_looked_at(base: &Base) {
    let stage = Stage::on(base).await;
    assert_eq!(issue(&stage, &token(1, "one")).await, Issued::Done);
    assert_eq!(issue(&stage, &token(2, "one")).await, Issued::NameTaken);
    assert_eq!(found(&stage, &token(2, "one")).await, None);
    let strange = NewToken {
        owner: Some(OwnerId("nobody".into())),
        ..token(3, "other")
    };
    let refused = stage.store.issue_token(&strange).await;
    assert!(matches!(refused, Err(StoreError::UnknownOwner(_))), "{refused:?}");
}

async fn a_use_is_noted_once_a_minute(base: &Base) {
    let stage = Stage::on(base).await;
    let one = token(1, "one");
    assert_eq!(issue(&stage, &one).await, Issued::Done);
    let half = chrono::TimeDelta::seconds(30);
    for (at, is_news) in [
        (minute(1), true),
        (minute(1) + half, false),
        (minute(2), true),
        (minute(1), false),
    ] {
        let known = found(&stage, &one).await.expect("it is there");
        assert_eq!(known.is_use_news(at), is_news, "{at}");
        let noted = stage.store.token_used(&one.hash, at).await;
        assert_eq!(noted.expect("an answer"), is_news, "{at}");
    }
    let known = found(&stage, &one).await.expect("it is there");
    assert_eq!(known.last_used_at, Some(minute(2)));
    let noted = stage.store.token_used(&token(2, "other").hash, minute(9)).await;
    assert!(!noted.expect("an answer"), "there is no such token");
}

async fn tokens_are_bounded(base: &Base) {
    let stage = Stage::on(base).await;
    let (numbers, hash, now) = match base {
        Base::Sqlite => {
            let numbers = "WITH RECURSIVE s (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM s WHERE n < 999)";
            (numbers, "randomblob(32)", "0")
        }
        Base::Postgres(_) => (
            "WITH s (n) AS (SELECT generate_series(1, 999))",
            "decode(md5('t' || n), 'hex')",
            "now()",
        ),
    };
    let many = format!(
        "{numbers} INSERT INTO access_token (hash, name, scope, created_at)
         SELECT {hash}, 't' || n, 'read', {now} FROM s"
    );
    stage.damage(&many).await;
    assert_eq!(issue(&stage, &token(1, "the last")).await, Issued::Done);
    let there = stage.store.access_tokens().await.expect("a list");
    assert_eq!(u32::try_from(there.len()), Ok(MOST_TOKENS));
    let one_more = token(2, "one more");
    assert_eq!(issue(&stage, &one_more).await, Issued::TooMany);
    assert!(stage.store.revoke_token("t7").await.expect("an answer"));
    assert_eq!(issue(&stage, &one_more).await, Issued::Done);
}
