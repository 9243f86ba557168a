//! The secret of the links in messages, which all nodes of a store share and any of them may rotate.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use crate::service::Started;
use crate::service::watch_over;
use crate::shutdown::Shutdown;
use crate::store::Store;
use crate::token;
use crate::token::Tokens;

/// How often a node looks whether another has rotated the secret of links.
const FOLLOW: Duration = Duration::from_secs(2);

/// The tokens that all nodes of this store know.
pub(super) async fn tokens(store: &dyn Store) -> anyhow::Result<Tokens> {
    let fresh = Tokens::fresh_secret().context("the system has no random numbers to give")?;
    let secret = store.remember_first(token::SECRET, &fresh).await?;
    Ok(Tokens::new(&secret))
}

/// Makes links under the secret that the store has, which any node may rotate.
pub(super) fn follow(started: &Started, shutdown: &Shutdown) {
    let (store, clock) = (Arc::clone(&started.store), Arc::clone(&started.clock));
    let (tokens, stop) = (started.tokens.clone(), shutdown.soft.clone());
    let following = async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = clock.sleep(FOLLOW) => {}
            }
            // A store that does not answer is reported by what needs it.
            if let Ok(Some(remembered)) = store.remembered(token::SECRET).await {
                tokens.follow(&remembered);
            }
        }
    };
    watch_over("follower of the link secret", tokio::spawn(following), shutdown);
}
