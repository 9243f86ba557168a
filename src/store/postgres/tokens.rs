//! Access tokens.

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;

use crate::store::StoreError;
use crate::store::postgres::PostgresStore;
use crate::store::postgres::columns::cut;
use crate::store::postgres::owners;
use crate::store::postgres::upkeep;
use crate::store::token;
use crate::store::token::AccessToken;
use crate::store::token::AccessTokens;
use crate::store::token::Issued;
use crate::store::token::MOST_TOKENS;
use crate::store::token::NewToken;
use crate::trigger::TriggerId;

#[async_trait::async_trait]
impl AccessTokens for PostgresStore {
    async fn issue_token(&self, token: &NewToken) -> Result<Issued, StoreError> {
        in_transaction!(self, |tx, now| issue(tx, token, now))
    }

    async fn access_token(&self, hash: &[u8; 32]) -> Result<Option<AccessToken>, StoreError> {
        repeating!(self, |conn| read(conn, hash).await)
    }

    async fn access_tokens(&self) -> Result<Vec<AccessToken>, StoreError> {
        repeating!(self, |conn| list(conn).await)
    }

    async fn token_used(&self, hash: &[u8; 32], at: DateTime<Utc>) -> Result<bool, StoreError> {
        in_transaction!(self, |tx, _| used(tx, hash, at))
    }

    async fn link_epoch(&self, id: TriggerId) -> Result<Option<i64>, StoreError> {
        repeating!(self, |conn| owners::link_epoch(conn, &id.0).await)
    }

    async fn remember_instead(&self, name: &str, change: (&str, &str)) -> Result<bool, StoreError> {
        in_transaction!(self, |tx, _| upkeep::remember_instead(tx, name, change))
    }

    async fn revoke_token(&self, name: &str) -> Result<bool, StoreError> {
        in_transaction!(self, |tx, _| revoke(tx, name))
    }
}

async fn issue(conn: &mut PgConnection, token: &NewToken, now: DateTime<Utc>) -> Result<Issued, StoreError> {
    if let Some(owner) = &token.owner
        && owners::read(&mut *conn, owner).await?.is_none()
    {
        return Err(StoreError::UnknownOwner(owner.clone()));
    }
    // Two that are issued at once would each count without the other. Whoever only looks at tokens does not wait.
    sqlx::query(
        "-- issue_token: alone
         LOCK TABLE access_token IN SHARE ROW EXCLUSIVE MODE",
    )
    .execute(&mut *conn)
    .await?;
    let there: i64 = sqlx::query_scalar(
        "-- issue_token: those there are
         SELECT count(*) FROM access_token",
    )
    .fetch_one(&mut *conn)
    .await?;
    if there >= i64::from(MOST_TOKENS) {
        return Ok(Issued::TooMany);
    }
    let made = sqlx::query(
        "-- issue_token
         INSERT INTO access_token (hash, name, scope, owner, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT DO NOTHING",
    )
    .bind(token.hash.as_slice())
    .bind(&token.name)
    .bind(token.scope.as_str())
    .bind(token.owner.as_ref().map(|owner| &owner.0))
    .bind(cut(now))
    .bind(token::end(now, token.lasts).map(cut))
    .execute(conn)
    .await?;
    Ok(if made.rows_affected() == 1 {
        Issued::Done
    } else {
        Issued::NameTaken
    })
}

async fn read(conn: &mut PgConnection, hash: &[u8; 32]) -> Result<Option<AccessToken>, StoreError> {
    let row = sqlx::query(concat!(
        "-- access_token
         SELECT ",
        columns!(access_token),
        " FROM access_token AS k WHERE k.hash = $1",
    ))
    .bind(hash.as_slice())
    .fetch_optional(conn)
    .await?;
    row.map(|row| AccessToken::read(&row)).transpose()
}

async fn list(conn: &mut PgConnection) -> Result<Vec<AccessToken>, StoreError> {
    let rows = sqlx::query(concat!(
        "-- access_tokens
         SELECT ",
        columns!(access_token),
        " FROM access_token AS k ORDER BY k.name",
    ))
    .fetch_all(conn)
    .await?;
    rows.iter().map(AccessToken::read).collect()
}

async fn used(conn: &mut PgConnection, hash: &[u8; 32], at: DateTime<Utc>) -> Result<bool, StoreError> {
    let noted = sqlx::query(
        "-- token_used
         UPDATE access_token SET last_used_at = $2
         WHERE hash = $1 AND (last_used_at IS NULL OR last_used_at <= $3)",
    )
    .bind(hash.as_slice())
    .bind(cut(at))
    .bind(cut(at - token::USED))
    .execute(conn)
    .await?;
    Ok(noted.rows_affected() == 1)
}

async fn revoke(conn: &mut PgConnection, name: &str) -> Result<bool, StoreError> {
    let gone = sqlx::query(
        "-- revoke_token
         DELETE FROM access_token WHERE name = $1",
    )
    .bind(name)
    .execute(conn)
    .await?;
    Ok(gone.rows_affected() == 1)
}
