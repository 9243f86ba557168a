//! Access tokens: what programs present to be let in. Only their hashes are kept, so that whoever reads the store cannot
//! present one. A token that is revoked is gone; one that has expired stays in the list until it is revoked.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::store::StoreError;
use crate::store::row::Columns;
use crate::store::value::Values;
use crate::trigger::OwnerId;
use crate::trigger::TriggerId;

/// Access tokens at the most.
pub const MOST_TOKENS: u32 = 1_000;

/// How exact it is known when a token was last used.
pub(in crate::store) const USED: TimeDelta = TimeDelta::minutes(1);

/// What a token lets its holder do; each includes what stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Read what belongs to owners.
    Read,
    /// Change what belongs to owners.
    Write,
    /// Everything: owners themselves, what sources send, the cluster.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// The name in the store, the API and the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|scope| scope.as_str() == name);
        known.ok_or_else(|| format!("unknown scope `{name}`: use read, write or admin"))
    }
}

/// A token that is about to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    /// What the operator calls it.
    pub name: String,
    /// What it lets its holder do.
    pub scope: Scope,
    /// Whose things it opens; none: everybody's.
    pub owner: Option<OwnerId>,
    /// How long it is good; none: until it is revoked.
    pub lasts: Option<Duration>,
}

/// A token that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// What the operator calls it.
    pub name: String,
    /// What it lets its holder do.
    pub scope: Scope,
    /// Whose things it opens; none: everybody's.
    pub owner: Option<OwnerId>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// From when on it opens nothing; none: until it is revoked.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was last presented, to the minute.
    pub last_used_at: Option<DateTime<Utc>>,
}

impl AccessToken {
    /// Whether it opens nothing any more.
    pub fn has_expired(&self, now: DateTime<Utc>) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Whether its use at `now` is news.
    pub fn is_use_news(&self, now: DateTime<Utc>) -> bool {
        self.last_used_at.is_none_or(|used| used <= now - USED)
    }

    pub(in crate::store) fn read<R: Values>(row: &R) -> Result<Self, StoreError> {
        let columns = Columns::new("access_token", "name", row);
        Ok(Self {
            name: columns.value("name")?,
            scope: columns.name("scope")?,
            owner: columns.value::<Option<String>>("owner")?.map(OwnerId),
            created_at: columns.instant("created_at")?,
            expires_at: columns.instant_if_any("expires_at")?,
            last_used_at: columns.instant_if_any("last_used_at")?,
        })
    }
}

/// What came of making a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Issued {
    /// It is good from now on.
    Done,
    /// Another one has this name.
    NameTaken,
    /// There are [`MOST_TOKENS`].
    TooMany,
}

/// The verbs of access tokens, and of the tokens in links: the epoch to which they are bound, and the change of their secret.
#[async_trait::async_trait]
pub trait AccessTokens {
    /// Makes a token. [`StoreError::UnknownOwner`] if there is no such owner.
    async fn issue_token(&self, token: &NewToken) -> Result<Issued, StoreError>;

    /// The token with this hash; none if it was never made, or was revoked.
    async fn access_token(&self, hash: &[u8; 32]) -> Result<Option<AccessToken>, StoreError>;

    /// All of them, by name.
    async fn access_tokens(&self) -> Result<Vec<AccessToken>, StoreError>;

    /// Notes that the token with this hash was presented at `at`, unless that was noted less than a minute ago. Says
    /// whether it was noted.
    async fn token_used(&self, hash: &[u8; 32], at: DateTime<Utc>) -> Result<bool, StoreError>;

    /// The link epoch of the owner of this trigger, which waits or is in history; none if the owner is disabled or gone.
    async fn link_epoch(&self, id: TriggerId) -> Result<Option<i64>, StoreError>;

    /// Replaces a remembered value, if it is still the first of `change`, by the second. Says whether it was.
    async fn remember_instead(&self, name: &str, change: (&str, &str)) -> Result<bool, StoreError>;

    /// Takes back the token of this name. Says whether there was one.
    async fn revoke_token(&self, name: &str) -> Result<bool, StoreError>;
}

/// When a token that lasts so long ends; none where that is beyond all time.
pub(in crate::store) fn end(now: DateTime<Utc>, lasts: Option<Duration>) -> Option<DateTime<Utc>> {
    now.checked_add_signed(TimeDelta::from_std(lasts?).ok()?)
}
