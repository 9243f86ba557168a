//! Connections to the relay: never more than there may be, reused while they are fresh, closed when nobody needs them.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::Weak;
use std::time::Duration;

use crate::channel::Blame;
use crate::channel::Deadline;
use crate::channel::Report;
use crate::channel::Witness;
use crate::channel::breaker::Breaker;
use crate::channel::breaker::Openness;
use crate::channel::smtp::Config;
use crate::channel::smtp::Letter;
use crate::channel::smtp::Tls;
use crate::channel::smtp::TlsError;
use crate::channel::smtp::classify;
use crate::channel::smtp::connection::Connection;
use crate::channel::smtp::failing::Failing;
use crate::channel::smtp::failing::Says;
use crate::channel::smtp::pace;
use crate::channel::smtp::pace::Pace;
use crate::channel::smtp::stage::Cause;
use crate::channel::smtp::stage::Failure;
use crate::channel::smtp::stage::Stage;
use crate::channel::smtp::stage::Steps;
use crate::channel::smtp::standing::Standing;
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

/// One relay and the connections to it.
pub struct Relay {
    shared: Arc<Shared>,
    witness: Option<Witness>,
}

struct Shared {
    config: Config,
    encryption: Option<Encryption>,
    clock: Arc<dyn Clock>,
    turnstile: Arc<Turnstile>,
    idle: Mutex<Idle>,
    breaker: Mutex<Breaker>,
    failing: Mutex<Failing>,
    pace: Mutex<Pace>,
    standing: Mutex<Standing>,
}

/// Who has a pass holds at most one connection, taken from here or new: those in use and those here are together never
/// more than there may be.
#[derive(Default)]
struct Idle {
    connections: Vec<Connection>,
    /// Whether a task is running that closes what nobody uses.
    watched: bool,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay")
            .field("config", &self.shared.config)
            .finish_non_exhaustive()
    }
}

impl Relay {
    /// Prepares for the relay; nothing is connected yet.
    ///
    /// # Errors
    /// When TLS is asked for and cannot be set up.
    pub fn new(config: Config, clock: Arc<dyn Clock>) -> Result<Self, TlsError> {
        let encryption = match config.tls {
            Tls::None => None,
            Tls::Starttls | Tls::Implicit => Some(Encryption::for_relay(&config)?),
        };
        let shared = Shared {
            turnstile: Turnstile::new(config.connections, Arc::clone(&clock)),
            idle: Mutex::default(),
            breaker: Mutex::default(),
            failing: Mutex::default(),
            pace: Mutex::default(),
            standing: Mutex::default(),
            config,
            encryption,
            clock,
        };
        Ok(Self {
            shared: Arc::new(shared),
            witness: None,
        })
    }

    /// The same, which tells `witness` what it makes of each message that is put to it.
    #[must_use]
    pub(in crate::channel) fn witnessed_by(self, witness: Witness) -> Self {
        Self {
            witness: Some(witness),
            ..self
        }
    }

    /// Whether the messages of `owner` take longer than those of others.
    pub fn is_slow(&self, owner: u64) -> bool {
        self.shared.turnstile.is_slow(owner)
    }

    /// How many messages can be on their way at once, most of them waiting for a connection.
    pub fn permits(&self) -> usize {
        pace::most(self.shared.config.connections)
    }

    /// How many of them may be now: fewer while the relay is slow.
    pub fn permits_now(&self) -> usize {
        self.shared.pace().under_way(self.shared.config.connections)
    }

    /// How many connections are in use, and how many wait for the next message.
    pub fn connections(&self) -> (usize, usize) {
        let shared = &self.shared;
        (shared.turnstile.inside(), shared.idle().connections.len())
    }

    /// Opens a connection as for a message (greeting, TLS, AUTH), says goodbye and sends nothing. The error is what went
    /// wrong, for an operator.
    pub async fn greet(&self, deadline: Deadline) -> Result<(), String> {
        let steps = self.steps(deadline);
        let opened = self.open(&steps).await;
        let connection = opened.map_err(|failure| classify::describe(&failure, None))?;
        quit(connection).await;
        Ok(())
    }

    /// The name of the relay in metrics: host and port.
    pub fn name(&self) -> String {
        let Config { host, port, .. } = &self.shared.config;
        format!("{host}:{port}")
    }

    /// How many may be handed to it now.
    pub fn openness(&self) -> Openness {
        self.shared.breaker().openness(self.shared.clock.elapsed())
    }

    /// Hands one message over.
    pub async fn submit(&self, letter: &Letter, deadline: Deadline) -> Report {
        let steps = self.steps(deadline);
        let outcome = self.attempt(&steps, letter).await;
        let was_asked = !matches!(
            &outcome,
            Err(Failure {
                cause: Cause::LeftAlone | Cause::OutOfTime,
                ..
            } | Failure {
                stage: Stage::Permit,
                ..
            })
        );
        let failure = outcome.as_ref().err();
        let says_no = failure
            .filter(|failure| failure.stage >= Stage::Recipient)
            .map(|failure| matches!(failure.cause, Cause::Refused(_)));
        let (report, is_about_us) = self.judge(outcome, letter);
        if was_asked {
            let says_no = says_no.filter(|_| !is_about_us);
            self.note(&report, letter, says_no);
            if let Some(witness) = &self.witness {
                witness(&self.name(), &report);
            }
        }
        report
    }

    /// What an outcome is for the message; and whether it was refused for what we are.
    fn judge(&self, outcome: Result<Response, Failure>, letter: &Letter) -> (Report, bool) {
        let failure = match outcome {
            Ok(reply) => {
                self.shared.standing().accepted(letter);
                return (classify::accepted(&reply, &letter.to), false);
            }
            Err(failure) => failure,
        };
        let about = classify::may_be_about_us(&failure);
        if about.is_some_and(|about| self.shared.standing().refused(letter, about)) {
            (classify::failed_for_us(&failure, &letter.to), true)
        } else {
            (classify::failed(&failure, &letter.to), false)
        }
    }

    /// What an attempt says about the relay: that it refuses a message shows that it is there. `says_no` is none before a
    /// recipient was named and where we were refused, and says whether it was a reply that said no.
    fn note(&self, report: &Report, letter: &Letter, says_no: Option<bool>) {
        let now = self.shared.clock.elapsed();
        let mut failing = self.shared.failing.lock().expect("no holder panics");
        let mut breaker = self.shared.breaker();
        let was_open = breaker.is_open();
        let is_trouble = matches!(
            report,
            Report::InDoubt { .. }
                | Report::Transient {
                    of: Blame::Target,
                    ..
                }
        );
        if is_trouble {
            match says_no.map_or(Says::Trouble, |is_reply| failing.failed(letter, is_reply, now)) {
                Says::Trouble => breaker.failed(now),
                Says::IsThere if was_open => breaker.succeeded(),
                Says::IsThere | Says::Nothing => {}
            }
        } else {
            breaker.succeeded();
            failing.served(letter, now);
        }
        if breaker.is_open() != was_open {
            let relay = self.name();
            if was_open {
                tracing::info!(relay, "the relay is back");
            } else {
                tracing::warn!(
                    relay,
                    ?report,
                    "the relay is left alone but for a probe every few seconds"
                );
            }
        }
    }

    fn steps(&self, deadline: Deadline) -> Steps<'_> {
        Steps::new(&*self.shared.clock, &self.shared.config.timeouts, deadline)
    }

    async fn attempt(&self, steps: &Steps<'_>, letter: &Letter) -> Result<Response, Failure> {
        let waiting = async { Ok(self.shared.turnstile.enter(letter.owner).await) };
        let pass = steps.run(Stage::Permit, waiting).await?;
        // Asked only now: many may have waited while it turned out that the relay is down.
        if !self.shared.breaker().admits(self.shared.clock.elapsed()) {
            return Err(Failure {
                stage: Stage::Connect,
                cause: Cause::LeftAlone,
            });
        }
        let began = self.shared.clock.elapsed();
        let outcome = self.transact(steps, letter, &pass).await;
        let took = self.shared.clock.elapsed().saturating_sub(began);
        self.shared.pace().took(took);
        match &outcome {
            Ok(_) => pass.was_taken(),
            // What went wrong before a message was named says nothing of whose it is.
            Err(failure) if failure.stage >= Stage::Mail => pass.was_refused(),
            Err(_) => {}
        }
        outcome
    }

    async fn transact(&self, steps: &Steps<'_>, letter: &Letter, pass: &Pass) -> Result<Response, Failure> {
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
        let idle = self.shared.idle().connections.pop();
        let Some(mut connection) = idle else {
            return self.open(steps).await;
        };
        let age = self.shared.clock.elapsed().saturating_sub(connection.used_at);
        if (age > FRESH || connection.in_transaction) && connection.reset(steps).await.is_err() {
            drop(connection);
            return self.open(steps).await;
        }
        Ok(connection)
    }

    async fn open(&self, steps: &Steps<'_>) -> Result<Connection, Failure> {
        Connection::open(&self.shared.config, self.shared.encryption.as_ref(), steps).await
    }

    async fn release(&self, mut connection: Connection, failure: Option<&Failure>) {
        let is_lost = failure.is_some_and(|failure| !failure.leaves_dialogue_in_step());
        if is_lost || connection.is_out_of_step {
            return;
        }
        connection.transactions += 1;
        connection.in_transaction = failure.is_some();
        connection.used_at = self.shared.clock.elapsed();
        if connection.transactions >= MAX_TRANSACTIONS {
            quit(connection).await;
            return;
        }
        let was_watched = {
            let mut idle = self.shared.idle();
            idle.connections.push(connection);
            std::mem::replace(&mut idle.watched, true)
        };
        if !was_watched {
            tokio::spawn(close_unused(Arc::downgrade(&self.shared)));
        }
    }
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().expect("no holder panics")
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().expect("no holder panics")
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        let mut standing = self.standing.lock().expect("no holder panics");
        standing.look(self.clock.elapsed());
        standing
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().expect("no holder panics")
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

/// Closes connections that nobody uses; ends when there are none, or when the relay is gone.
async fn close_unused(relay: Weak<Shared>) {
    let mut watched = true;
    while watched {
        let Some((clock, pause)) = relay
            .upgrade()
            .map(|relay| (relay.clock.clone(), relay.config.timeouts.idle))
        else {
            return;
        };
        clock.sleep(pause).await;
        let Some((unused, more)) = relay.upgrade().map(|relay| relay.take_unused()) else {
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
