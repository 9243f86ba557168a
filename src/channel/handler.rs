//! Handlers: functions of the program that this node is a part of, which take stand-alone alarms in place of a webhook.
//!
//! ```text
//! send: handler known ▸ room ▸ a task of its own: message read ▸ called │ its answer, a panic, or the time is over
//! ```
//! A handler may be called again for a message that it has seen: where it asks for that, where it failed, and where the
//! program died before its answer was written down. What one handler does must not delay the calls of others, so that each
//! has room of its own; what finds none is put off, and that costs no attempt.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use crate::channel::Blame;
use crate::channel::Channel;
use crate::channel::Content;
use crate::channel::Deadline;
use crate::channel::Message;
use crate::channel::PAYLOAD;
use crate::channel::Report;
use crate::channel::endpoints::Refusal;
use crate::channel::endpoints::pace::Pace;
use crate::channel::endpoints::pace::room_for;
use crate::clock::Clock;

/// Calls of one handler under way at once, where nothing else is said.
pub const DEFAULT_CALLS: usize = 16;

/// How long a call takes at the most where its alarm does not say.
const TIME: Duration = Duration::from_secs(5);

/// Calls of one handler under way at once at the most, whatever the program says.
const MOST_CALLS: usize = 1_024;

/// A stand-alone alarm that is due, as its handler is given it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call<T> {
    /// The payload of the alarm, or what the handler asked to be given in its place at the attempt before.
    pub message: T,
    /// Which attempt this is, the first is 1; one that was put off does not count.
    pub attempt: u32,
    /// The instant for which it was asked.
    pub scheduled_for: DateTime<Utc>,
    /// The id of the alarm, the same at every attempt.
    pub alarm_id: String,
    /// The id of this firing, the same at every attempt: by it a report speaks of it.
    pub trigger_id: String,
    /// The key under which it was asked for, if any.
    pub key: Option<String>,
}

/// What a handler says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    /// It is done: `completed`.
    Ok,
    /// It is taken, and how it ended is reported within so long (`awaiting`); else nobody knows (`timeout_unknown`).
    Later(Duration),
    /// It is not done: call again, which counts as an attempt. Where there are no more attempts, or the alarm is of no use
    /// by then, it has failed.
    Retry {
        /// After so long.
        after: Duration,
        /// With this message; with the same if none. As JSON it has at most 16 KiB.
        message: Option<T>,
    },
    /// It cannot be done, and is not tried again. The reason is shown in history.
    Fail(String),
}

/// A call that did not come to an answer of the handler: why not, for history. It holds nothing of the message.
type Unfit = String;

/// A handler whose type of message is its own affair. The message of its call is JSON.
type Take = dyn Fn(Call<Box<RawValue>>) -> BoxFuture<'static, Result<Answer<String>, Unfit>> + Send + Sync;

#[derive(Clone)]
struct Handler {
    take: Arc<Take>,
    /// How many calls may be under way.
    most: usize,
    calls: Arc<Semaphore>,
    pace: Arc<Mutex<Pace>>,
}

/// The room that a call takes, or one that waits to be made, until this is dropped.
struct Room {
    pace: Arc<Mutex<Pace>>,
    clock: Arc<dyn Clock>,
    /// When it was called.
    call: Option<(Duration, OwnedSemaphorePermit)>,
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut pace = self.pace.lock().expect("no holder panics");
        pace.present -= 1;
        if let Some((began, _)) = self.call {
            pace.ended(began, self.clock.elapsed(), false);
        }
    }
}

/// The handlers of this node, by name.
#[derive(Clone, Default)]
pub struct Handlers(BTreeMap<String, Handler>);

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Handlers {
    /// Lets `handler` take what goes to `name`, in place of what did before; at most `calls` (at least one) are under way
    /// at once.
    pub fn put<T, F, A>(&mut self, name: &str, calls: usize, handler: F)
    where
        T: DeserializeOwned + Serialize + Send + 'static,
        F: Fn(Call<T>) -> A + Send + Sync + 'static,
        A: Future<Output = Answer<T>> + Send + 'static,
    {
        let calls = calls.clamp(1, MOST_CALLS);
        let handler = Arc::new(handler);
        let take = move |call: Call<Box<RawValue>>| -> BoxFuture<'static, _> {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let call = read(call)?;
                written(handler(call).await)
            })
        };
        let handler = Handler {
            take: Arc::new(take),
            most: calls,
            calls: Arc::new(Semaphore::new(calls)),
            pace: Arc::default(),
        };
        self.0.insert(name.to_owned(), handler);
    }
}

/// The call with the message that the handler takes.
fn read<T: DeserializeOwned>(call: Call<Box<RawValue>>) -> Result<Call<T>, Unfit> {
    let message = serde_json::from_str(call.message.get()).map_err(|error| {
        // What is wrong with it would quote it.
        format!(
            "the payload is no message of this handler: it does not fit at line {}, column {}",
            error.line(),
            error.column()
        )
    })?;
    Ok(Call {
        message,
        attempt: call.attempt,
        scheduled_for: call.scheduled_for,
        alarm_id: call.alarm_id,
        trigger_id: call.trigger_id,
        key: call.key,
    })
}

/// The answer with its message as it is kept.
fn written<T: Serialize>(answer: Answer<T>) -> Result<Answer<String>, Unfit> {
    let (after, message) = match answer {
        Answer::Ok => return Ok(Answer::Ok),
        Answer::Later(within) => return Ok(Answer::Later(within)),
        Answer::Fail(reason) => return Ok(Answer::Fail(reason)),
        Answer::Retry { after, message } => (after, message),
    };
    let message = message.map(|message| serde_json::to_string(&message)).transpose();
    let message = message.map_err(|_| "the message for the next attempt has no form as JSON".to_owned())?;
    match message.as_ref().map(String::len) {
        Some(length) if length > PAYLOAD => Err(format!(
            "the message for the next attempt has {length} bytes: {PAYLOAD} are kept; send where to find it instead"
        )),
        _ => Ok(Answer::Retry { after, message }),
    }
}

/// What a call needs of the document of an alarm.
#[derive(Debug, Deserialize)]
struct Document {
    alarm_id: String,
    trigger_id: String,
    attempt: u32,
    scheduled_for: DateTime<Utc>,
    idempotency_key: Option<String>,
    payload: Option<Box<RawValue>>,
}

/// Delivers by calling handlers.
#[derive(Debug)]
pub struct HandlerChannel {
    handlers: Handlers,
    clock: Arc<dyn Clock>,
}

impl HandlerChannel {
    /// Calls these handlers.
    pub fn new(handlers: Handlers, clock: Arc<dyn Clock>) -> Self {
        Self { handlers, clock }
    }

    /// Waits for room, for as long as a call takes where its alarm does not say, and one that begins then has its whole time.
    /// Else says when there may be some.
    async fn room(
        &self,
        handler: &Handler,
        number: u64,
        (within, deadline): (Duration, Deadline),
    ) -> Result<Room, Duration> {
        let now = self.clock.elapsed();
        let pace = || handler.pace.lock().expect("no holder panics");
        pace().admit(now, handler.most, number).map_err(Refusal::after)?;
        let mut room = Room {
            pace: Arc::clone(&handler.pace),
            clock: Arc::clone(&self.clock),
            call: None,
        };
        let spare = deadline.0.saturating_sub(now + within);
        let permit = tokio::select! {
            biased;
            permit = handler.calls.clone().acquire_owned() => permit.expect("the semaphore is never closed"),
            () = self.clock.sleep(spare.min(TIME)) => {
                drop(room);
                return Err(pace().book(self.clock.elapsed(), handler.most, number));
            }
        };
        room.call = Some((self.clock.elapsed(), permit));
        Ok(room)
    }

    async fn call(
        &self,
        handler: &Handler,
        (number, call): (u64, Call<Box<RawValue>>),
        within: Duration,
        deadline: Deadline,
    ) -> Report {
        let room = match self.room(handler, number, (within, deadline)).await {
            Ok(room) => room,
            Err(after) => {
                let error = "the handler has as many calls as it may have at once".to_owned();
                return Report::Busy { error, after };
            }
        };
        let left = deadline.0.saturating_sub(self.clock.elapsed()).min(within);
        if left.is_zero() {
            return Report::Abandoned;
        }
        let take = Arc::clone(&handler.take);
        let task = async move {
            let answer = take(call).await;
            // Also one that goes on after its time is over takes room.
            drop(room);
            answer
        };
        let task = AbortOnDropHandle::new(tokio::spawn(task));
        tokio::select! {
            ended = task => match ended {
                Ok(answer) => report(answer),
                Err(_) => setback("the handler panicked".to_owned()),
            },
            () = self.clock.sleep(left) => {
                setback(format!("the handler did not end within {} ms", left.as_millis()))
            }
        }
    }
}

fn report(answer: Result<Answer<String>, Unfit>) -> Report {
    let accepted = |awaits| Report::Accepted {
        reply: "ok".to_owned(),
        kept: None,
        reference: None,
        awaits,
    };
    match answer {
        Ok(Answer::Ok) => accepted(None),
        Ok(Answer::Later(within)) => accepted(Some(within)),
        Ok(Answer::Retry { after, message }) => Report::Again {
            after,
            payload: message,
        },
        Ok(Answer::Fail(error)) | Err(error) => Report::Permanent { error },
    }
}

const fn setback(error: String) -> Report {
    Report::Transient {
        error,
        of: Blame::Message,
        retry_after: None,
    }
}

#[async_trait::async_trait]
impl Channel for HandlerChannel {
    async fn send(&self, message: &Message, deadline: Deadline) -> Report {
        if self.clock.elapsed() >= deadline.0 {
            return Report::Abandoned;
        }
        // Another node may have it, or this one after its next start.
        let Some(handler) = self.handlers.0.get(&message.to) else {
            return setback(format!("no such target {}", message.to));
        };
        let document = match &message.content {
            Content::Json(document) => serde_json::from_str::<Document>(document).ok(),
            Content::Letter { .. } | Content::Text(_) => None,
        };
        let Some(document) = document else {
            return Report::Permanent {
                error: "handlers take stand-alone alarms alone".to_owned(),
            };
        };
        let call = Call {
            message: document.payload.unwrap_or_default(),
            attempt: document.attempt,
            scheduled_for: document.scheduled_for,
            alarm_id: document.alarm_id,
            trigger_id: document.trigger_id,
            key: document.idempotency_key,
        };
        let within = message.within.unwrap_or(TIME);
        self.call(handler, (message.number(), call), within, deadline)
            .await
    }

    fn name(&self) -> &'static str {
        "handler"
    }

    fn permits_of_one(&self) -> Option<usize> {
        None
    }

    /// As many as all handlers together have room for, and one that only finds that there is none: so none takes what is
    /// another's.
    fn permits(&self) -> usize {
        1 + self
            .handlers
            .0
            .values()
            .map(|it| room_for(it.most))
            .sum::<usize>()
    }
}
