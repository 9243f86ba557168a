//! Who calls, and what is theirs. A token that is bound to an owner opens what is that owner's and nothing else: whatever
//! is somebody else's is answered as if it were not there, before anybody looks whether it is.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;

use super::id;
use super::problem::Problem;
use crate::store::token::AccessToken;
use crate::store::token::Scope;
use crate::trigger::OwnerId;

/// Who calls. Handlers that speak of what belongs to owners ask it whose that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    scope: Scope,
    /// The one owner whose things they may see; none: everybody's.
    owner: Option<OwnerId>,
}

impl Caller {
    /// Who may do everything.
    pub(super) const ADMIN: Self = Self {
        scope: Scope::Admin,
        owner: None,
    };

    /// Refuses whoever may do less than is needed.
    pub(super) fn may(&self, needed: Scope) -> Result<(), Problem> {
        if self.scope >= needed {
            return Ok(());
        }
        let detail = format!("the token has scope `{}`: this needs `{needed}`", self.scope);
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail))
    }

    /// The owner that is meant: the one that is named, or the caller's own.
    pub(super) fn owner(&self, named: Option<String>) -> Result<OwnerId, Problem> {
        let missing = || Problem::bad_request("`owner` is missing: say whose it is, as `?owner=anna`");
        self.owner_if_any(named)?.ok_or_else(missing)
    }

    /// The owner that is meant; none: everybody.
    pub(super) fn owner_if_any(&self, named: Option<String>) -> Result<Option<OwnerId>, Problem> {
        let named = named.map(|owner| id::checked("owner", owner)).transpose()?;
        match (named.map(OwnerId), &self.owner) {
            (None, own) => Ok(own.clone()),
            (Some(named), own) if own.as_ref().is_none_or(|own| *own == named) => Ok(Some(named)),
            (Some(named), _) => Err(Problem::not_found(format!(
                "there is no owner `{named}` that this token opens"
            ))),
        }
    }

    /// Whether what belongs to anybody may be seen.
    pub(super) const fn sees_all(&self) -> bool {
        self.owner.is_none()
    }

    /// Whether what belongs to `owner` may be seen.
    pub(super) fn sees(&self, owner: &OwnerId) -> bool {
        self.owner.as_ref().is_none_or(|own| own == owner)
    }
}

impl From<AccessToken> for Caller {
    fn from(token: AccessToken) -> Self {
        Self {
            scope: token.scope,
            owner: token.owner,
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    /// What [`super::auth::check`] found. Where it was not asked, nobody is let in.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let known = parts.extensions.get::<Self>().cloned();
        let nobody = || Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "send a token");
        known.ok_or_else(nobody)
    }
}
