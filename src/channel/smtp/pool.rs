//! Connections to the relay: never more than there may be, reused while they are fresh, closed when nobody needs them.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::Weak;
use std::time::Duration;

use crate::channel::smtp::Config;
use crate::channel::smtp::Letter;
use crate::channel::smtp::Tls;
use crate::channel::smtp::TlsError;
use crate::channel::smtp::connection::Connection;
use crate::channel::smtp::stage::Cause;
use crate::channel::smtp::stage::Failure;
use crate::channel::smtp::stage::Stage;
use crate::channel::smtp::stage::Steps;
use crate::channel::smtp::tls::Encryption;
use crate::channel::smtp::turnstile::Pass;
use crate::channel::smtp::turnstile::Turnstile;
use crate::clock::Clock;
use lettre::transport::smtp::response::Response;

/// Relays and the machines between forget connections; one used this recently is taken as it is.
const FRESH: Duration = Duration::from_secs(5);

/// Many relays end a session after a number of messages; we part before they do.
const MAX_TRANSACTIONS: u32 = 100;

/// Saying goodbye is a courtesy and may not hold anybody up.
const QUIT_LIMIT: Duration = Duration::from_secs(1);

/// The connections to one relay.
pub(super) struct Pool {
    config: Config,
    encryption: Option<Encryption>,
    clock: Arc<dyn Clock>,
    turnstile: Arc<Turnstile>,
    idle: Mutex<Idle>,
}

/// Who has a pass holds at most one connection, taken from here or new: those in use and those here are together never
/// more than there may be.
#[derive(Default)]
struct Idle {
    connections: Vec<Connection>,
    /// Whether a task is running that closes what nobody uses.
    watched: bool,
}

impl Pool {
    /// Prepares for the relay; nothing is connected yet.
    ///
    /// # Errors
    /// When TLS is asked for and cannot be set up.
    pub(super) fn new(config: Config, clock: Arc<dyn Clock>) -> Result<Arc<Self>, TlsError> {
        let encryption = match config.tls {
            Tls::None => None,
            Tls::Starttls | Tls::Implicit => Some(Encryption::for_relay(&config)?),
        };
        Ok(Arc::new(Self {
            turnstile: Turnstile::new(config.connections, Arc::clone(&clock)),
            idle: Mutex::default(),
            config,
            encryption,
            clock,
        }))
    }

    pub(super) const fn config(&self) -> &Config {
        &self.config
    }

    /// Who has a connection.
    pub(super) const fn turnstile(&self) -> &Arc<Turnstile> {
        &self.turnstile
    }

    /// How many connections wait for the next message.
    pub(super) fn unused(&self) -> usize {
        self.idle().connections.len()
    }

    /// Opens a connection as for a message, says goodbye and sends nothing.
    pub(super) async fn greet(&self, steps: &Steps<'_>) -> Result<(), Failure> {
        quit(self.open(steps).await?).await;
        Ok(())
    }

    /// Hands a message over, by leave of its pass.
    pub(super) async fn transact(
        self: &Arc<Self>,
        steps: &Steps<'_>,
        letter: &Letter,
        pass: &Pass,
    ) -> Result<Response, Failure> {
        let mut connection = self.connection(steps).await?;
        let mut begun = begin(&mut connection, steps, letter, pass).await;
        let is_old = connection.transactions > 0;
        if is_old && begun.as_ref().is_err_and(|failure| failure.stage == Stage::Mail) {
            // It may have died of age, or have had enough of us: that says nothing about the relay or the message.
            drop(connection);
            connection = self.open(steps).await?;
            begun = begin(&mut connection, steps, letter, pass).await;
        }
        let outcome = match begun {
            Ok(()) => connection.finish(steps, letter).await,
            Err(failure) => Err(failure),
        };
        self.release(connection, outcome.as_ref().err()).await;
        outcome
    }

    async fn connection(&self, steps: &Steps<'_>) -> Result<Connection, Failure> {
        let idle = self.idle().connections.pop();
        let Some(mut connection) = idle else {
            return self.open(steps).await;
        };
        let age = self.clock.elapsed().saturating_sub(connection.used_at);
        if (age > FRESH || connection.in_transaction) && connection.reset(steps).await.is_err() {
            drop(connection);
            return self.open(steps).await;
        }
        Ok(connection)
    }

    async fn open(&self, steps: &Steps<'_>) -> Result<Connection, Failure> {
        Connection::open(&self.config, self.encryption.as_ref(), steps).await
    }

    async fn release(self: &Arc<Self>, mut connection: Connection, failure: Option<&Failure>) {
        let is_lost = failure.is_some_and(|failure| !failure.leaves_dialogue_in_step());
        if is_lost || connection.is_out_of_step {
            return;
        }
        connection.transactions += 1;
        connection.in_transaction = failure.is_some();
        connection.used_at = self.clock.elapsed();
        if connection.transactions >= MAX_TRANSACTIONS {
            quit(connection).await;
            return;
        }
        let was_watched = {
            let mut idle = self.idle();
            idle.connections.push(connection);
            std::mem::replace(&mut idle.watched, true)
        };
        if !was_watched {
            tokio::spawn(close_unused(Arc::downgrade(self)));
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().expect("no holder panics")
    }

    /// Takes out what has not been used for a while. Nobody watches any longer once nothing is left.
    fn take_unused(&self) -> (Vec<Connection>, bool) {
        let now = self.clock.elapsed();
        let limit = self.config.timeouts.idle;
        let mut idle = self.idle();
        let unused = idle
            .connections
            .extract_if(.., |connection| now.saturating_sub(connection.used_at) >= limit)
            .collect();
        idle.watched = !idle.connections.is_empty();
        (unused, idle.watched)
    }
}

/// Closes connections that nobody uses; ends when there are none, or when the pool is gone.
async fn close_unused(pool: Weak<Pool>) {
    let mut watched = true;
    while watched {
        let Some((clock, pause)) = pool
            .upgrade()
            .map(|pool| (pool.clock.clone(), pool.config.timeouts.idle))
        else {
            return;
        };
        clock.sleep(pause).await;
        let Some((unused, more)) = pool.upgrade().map(|pool| pool.take_unused()) else {
            return;
        };
        watched = more;
        for connection in unused {
            quit(connection).await;
        }
    }
}

/// Names the message to the relay. Nothing of it is sent before, so that it can give way to others.
async fn begin(
    connection: &mut Connection,
    steps: &Steps<'_>,
    letter: &Letter,
    pass: &Pass,
) -> Result<(), Failure> {
    pass.begins();
    let begun = tokio::select! {
        begun = connection.begin(steps, letter) => begun,
        () = pass.is_to_give_way() => Err(Failure {
            stage: Stage::Permit,
            cause: Cause::GaveWay,
        }),
    };
    pass.has_begun();
    begun
}

async fn quit(connection: Connection) {
    // Whatever comes of it, the connection is closed.
    tokio::time::timeout(QUIT_LIMIT, connection.dialogue.quit())
        .await
        .ok();
}
