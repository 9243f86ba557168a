//! One relay: what is handed to it, and what is made of its answers: for the message, for whether it is there, and for how many
//! may be on their way.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;

use lettre::transport::smtp::response::Response;

use crate::channel::Blame;
use crate::channel::Deadline;
use crate::channel::Report;
use crate::channel::Witness;
use crate::channel::breaker::Breaker;
use crate::channel::breaker::Openness;
use crate::channel::smtp::Config;
use crate::channel::smtp::Letter;
use crate::channel::smtp::TlsError;
use crate::channel::smtp::classify;
use crate::channel::smtp::failing::Failing;
use crate::channel::smtp::failing::Says;
use crate::channel::smtp::pool::Pool;
use crate::channel::smtp::stage::Cause;
use crate::channel::smtp::stage::Failure;
use crate::channel::smtp::stage::Stage;
use crate::channel::smtp::stage::Steps;
use crate::channel::smtp::standing::Standing;
use crate::channel::smtp::window::Window;
use crate::channel::smtp::window::max_in_flight;
use crate::clock::Clock;

/// One relay and the connections to it.
pub struct Relay {
    pool: Arc<Pool>,
    clock: Arc<dyn Clock>,
    breaker: Mutex<Breaker>,
    failing: Mutex<Failing>,
    window: Mutex<Window>,
    standing: Mutex<Standing>,
    witness: Option<Witness>,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay")
            .field("config", self.pool.config())
            .finish_non_exhaustive()
    }
}

impl Relay {
    /// Prepares for the relay; nothing is connected yet.
    ///
    /// # Errors
    /// When TLS is asked for and cannot be set up.
    pub fn new(config: Config, clock: Arc<dyn Clock>) -> Result<Self, TlsError> {
        Ok(Self {
            pool: Pool::new(config, Arc::clone(&clock))?,
            clock,
            breaker: Mutex::default(),
            failing: Mutex::default(),
            window: Mutex::default(),
            standing: Mutex::default(),
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
        self.pool.turnstile().is_slow(owner)
    }

    /// How many messages can be in flight, most of them waiting for a connection.
    pub fn permits(&self) -> usize {
        max_in_flight(self.pool.config().connections)
    }

    /// How many of them may be in flight now: fewer while the relay is slow.
    pub fn permits_now(&self) -> usize {
        self.window().in_flight(self.pool.config().connections)
    }

    /// How many connections there may be.
    pub fn max_connections(&self) -> usize {
        self.pool.config().connections
    }

    /// How many connections are in use, and how many wait for the next message.
    pub fn connections(&self) -> (usize, usize) {
        (self.pool.turnstile().inside(), self.pool.unused())
    }

    /// Opens a connection as for a message (greeting, TLS, AUTH), says goodbye and sends nothing. The error is what went
    /// wrong, for an operator.
    pub async fn greet(&self, deadline: Deadline) -> Result<(), String> {
        let steps = self.steps(deadline);
        let greeted = self.pool.greet(&steps).await;
        greeted.map_err(|failure| classify::describe(&failure, None))
    }

    /// The name of the relay in metrics: host and port.
    pub fn name(&self) -> String {
        let Config { host, port, .. } = self.pool.config();
        format!("{host}:{port}")
    }

    /// How many may be handed to it now.
    pub fn openness(&self) -> Openness {
        self.breaker().openness(self.clock.elapsed())
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
                self.standing().accepted(letter);
                return (classify::accepted(&reply, &letter.to), false);
            }
            Err(failure) => failure,
        };
        let about = classify::may_be_about_us(&failure);
        if about.is_some_and(|about| self.standing().refused(letter, about)) {
            (classify::failed_for_us(&failure, &letter.to), true)
        } else {
            (classify::failed(&failure, &letter.to), false)
        }
    }

    /// What an attempt says about the relay: that it refuses a message shows that it is there. `says_no` is none before a
    /// recipient was named and where we were refused, and says whether it was a reply that said no.
    fn note(&self, report: &Report, letter: &Letter, says_no: Option<bool>) {
        let now = self.clock.elapsed();
        let mut failing = self.failing.lock().expect("no holder panics");
        let mut breaker = self.breaker();
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
        Steps::new(&*self.clock, &self.pool.config().timeouts, deadline)
    }

    async fn attempt(&self, steps: &Steps<'_>, letter: &Letter) -> Result<Response, Failure> {
        let waiting = async { Ok(self.pool.turnstile().enter(letter.owner).await) };
        let pass = steps.run(Stage::Permit, waiting).await?;
        // Asked only now: many may have waited while it turned out that the relay is down.
        if !self.breaker().admits(self.clock.elapsed()) {
            return Err(Failure {
                stage: Stage::Connect,
                cause: Cause::LeftAlone,
            });
        }
        let began = self.clock.elapsed();
        let outcome = self.pool.transact(steps, letter, &pass).await;
        let took = self.clock.elapsed().saturating_sub(began);
        self.window().took(took);
        match &outcome {
            Ok(_) => pass.was_taken(),
            // What went wrong before a message was named says nothing of whose it is.
            Err(failure) if failure.stage >= Stage::Mail => pass.was_refused(),
            Err(_) => {}
        }
        outcome
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().expect("no holder panics")
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        let mut standing = self.standing.lock().expect("no holder panics");
        standing.look(self.clock.elapsed());
        standing
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().expect("no holder panics")
    }
}
