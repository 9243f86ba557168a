//! Access tokens.

use chrono::DateTime;
use chrono::Utc;
use sqlx::SqliteConnection;

use crate::store::StoreError;
use crate::store::row::millis;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::owners;
use crate::store::sqlite::upkeep;
use crate::store::token;
use crate::store::token::AccessToken;
use crate::store::token::AccessTokens;
use crate::store::token::Issued;
use crate::store::token::MOST_TOKENS;
use crate::store::token::NewToken;
use crate::trigger::TriggerId;

#[async_trait::async_trait]
impl AccessTokens for SqliteStore {
    async fn issue_token(&self, token: &NewToken) -> Result<Issued, StoreError> {
        let mut tx = self.begin().await?;
        let issued = issue(&mut tx, token, self.clock.now()).await?;
        tx.commit().await?;
        Ok(issued)
    }

    async fn access_token(&self, hash: &[u8; 32]) -> Result<Option<AccessToken>, StoreError> {
        let row = sqlx::query(
            "-- access_token
             SELECT name, scope, owner, created_at, expires_at, last_used_at FROM access_token WHERE hash = ?1",
        )
        .bind(hash.as_slice())
        .fetch_optional(&mut *self.reader.acquire().await?)
        .await?;
        row.map(|row| AccessToken::read(&row)).transpose()
    }

    async fn access_tokens(&self) -> Result<Vec<AccessToken>, StoreError> {
        let rows = sqlx::query(
            "-- access_tokens
             SELECT name, scope, owner, created_at, expires_at, last_used_at FROM access_token ORDER BY name",
        )
        .fetch_all(&mut *self.reader.acquire().await?)
        .await?;
        rows.iter().map(AccessToken::read).collect()
    }

    async fn token_used(&self, hash: &[u8; 32], at: DateTime<Utc>) -> Result<bool, StoreError> {
        let noted = sqlx::query(
            "-- token_used
             UPDATE access_token SET last_used_at = ?2
             WHERE hash = ?1 AND (last_used_at IS NULL OR last_used_at <= ?3)",
        )
        .bind(hash.as_slice())
        .bind(millis(at))
        .bind(millis(at - token::USED))
        .execute(&mut *self.writer.acquire().await?)
        .await?;
        Ok(noted.rows_affected() == 1)
    }

    async fn link_epoch(&self, id: TriggerId) -> Result<Option<i64>, StoreError> {
        owners::link_epoch(&mut *self.reader.acquire().await?, &id.0).await
    }

    async fn remember_instead(&self, name: &str, change: (&str, &str)) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let done = upkeep::remember_instead(&mut tx, name, change).await?;
        tx.commit().await?;
        Ok(done)
    }

    async fn revoke_token(&self, name: &str) -> Result<bool, StoreError> {
        let gone = sqlx::query(
            "-- revoke_token
             DELETE FROM access_token WHERE name = ?1",
        )
        .bind(name)
        .execute(&mut *self.writer.acquire().await?)
        .await?;
        Ok(gone.rows_affected() == 1)
    }
}

async fn issue(
    conn: &mut SqliteConnection,
    token: &NewToken,
    now: DateTime<Utc>,
) -> Result<Issued, StoreError> {
    if let Some(owner) = &token.owner
        && owners::read(&mut *conn, owner).await?.is_none()
    {
        return Err(StoreError::UnknownOwner(owner.clone()));
    }
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
         INSERT INTO access_token (hash, name, scope, owner, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO NOTHING",
    )
    .bind(token.hash.as_slice())
    .bind(&token.name)
    .bind(token.scope.as_str())
    .bind(token.owner.as_ref().map(|owner| &owner.0))
    .bind(millis(now))
    .bind(token::end(now, token.lasts).map(millis))
    .execute(conn)
    .await?;
    Ok(if made.rows_affected() == 1 {
        Issued::Done
    } else {
        Issued::NameTaken
    })
}
