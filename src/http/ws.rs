//! Calls and what happens to alarms over one connection: a WebSocket.
//!
//! A call is answered by the very route that answers the same request over HTTP ([`calls`](super::calls)), with the headers
//! of the request that opened the connection. Only `subscribe` is of this place: what happens is pushed from then on.
//!
//! Nothing is queued but a page of what happens: while a caller does not read, nothing more is read of theirs nor looked for,
//! and the port ends a connection whose writes wait for too long. What was pushed is resumed by its number. Where the node stops, calls under
//! way are answered first, as they are over HTTP.

mod call;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::extract::Request;
use axum::extract::State;
use axum::extract::ws::CloseCode;
use axum::extract::ws::CloseFrame;
use axum::extract::ws::Message;
use axum::extract::ws::WebSocket;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::close_code;
use axum::http::StatusCode;
use axum::http::header;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use axum::response::Response;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinError;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::error::ProtocolError;

use self::call::Call;
use super::Shared;
use super::alarms::feed::ChangeAnswer;
use super::alarms::feed::HEARTBEAT;
use super::alarms::feed::follow;
use super::alarms::feed::refused;
use super::calls::Routes;
use super::problem::Problem;
use crate::feed::End;
use crate::feed::Follower;
use crate::store::AlarmChange;
use crate::store::token::Scope;

/// Bytes of a message at the most.
const LARGEST: usize = 64 * 1024;

/// Calls of a connection that are answered at once: what they come to waits in memory while the caller does not read.
const AT_ONCE: usize = 2;

/// Calls of a connection in a second.
const IN_A_SECOND: u32 = 50;

/// Bytes that are read at once; a connection costs them all the time.
const READ: usize = 8 * 1024;

/// Pings without a sign of life, after which nobody is there.
const PINGS: u32 = 3;

/// How long calls under way and the farewell may take in the end.
const FAREWELL: Duration = Duration::from_secs(5);

/// `GET /v1/ws`.
pub(super) async fn open(
    State(shared): State<Shared>,
    Extension(routes): Extension<Routes>,
    request: Request,
) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &shared).await {
        Ok(upgrade) => upgrade,
        Err(rejection) => return Ok(no_websocket(&rejection.body_text())),
    };
    let place = shared.feed.place().map_err(refused)?;
    let upgrade = upgrade
        .read_buffer_size(READ)
        .max_message_size(LARGEST)
        .max_frame_size(LARGEST);
    Ok(upgrade.on_upgrade(move |socket| Talk::new(shared, routes, parts, place).go_on(socket)))
}

fn no_websocket(why: &str) -> Response {
    let detail = format!("this is a WebSocket: {why}");
    let problem = Problem::new(StatusCode::UPGRADE_REQUIRED, "upgrade-required", detail);
    ([(header::UPGRADE, "websocket")], problem).into_response()
}

/// A conversation with one caller.
struct Talk {
    shared: Shared,
    routes: Routes,
    /// The request that opened it, by which is looked again at who calls.
    parts: Arc<Parts>,
    /// What is looked for to be told next, at most one page. It goes on by itself as answers do, and whatever a caller says
    /// meanwhile: who looks anew at each call never finds the end.
    looking: JoinSet<Looked>,
    /// Answers under way. They go on by themselves: one that stood still while its caller does not read would keep a
    /// connection to the store from others.
    answers: JoinSet<Answer>,
    /// When it is next looked whether the caller is there, and the pings since they were last heard.
    tick: Duration,
    pings: u32,
    /// How many calls came, and which of them is the subscription that is followed: the last one counts, whichever is answered
    /// last.
    subscriptions: (u64, u64),
    /// The second that is counted, and the calls in it.
    calls: (u64, u32),
    _place: OwnedSemaphorePermit,
}

/// What a call comes to: its text, and who is followed from then on.
struct Answer {
    text: String,
    follower: Option<Follower>,
    /// Which of the calls it answers, counted as they came.
    number: u64,
}

/// Somebody who follows, and what there is to be told next.
type Looked = (Follower, Result<Vec<Arc<AlarmChange>>, End>);

/// How a conversation ends; none where nobody is there to be told.
type Ending = Option<(CloseCode, &'static str)>;

const STOPS: Ending = Some((close_code::AWAY, "this node stops: come back, or go to another"));

const NO_STORE: Ending = Some((
    close_code::AGAIN,
    "the store does not answer: come back after the last number",
));

/// What happens next in a conversation.
enum Next {
    Stopped,
    Tick,
    Heard(Option<Result<Message, axum::Error>>),
    Answered(Result<Answer, JoinError>),
    Told(Result<Looked, JoinError>),
}

impl Talk {
    fn new(shared: Shared, routes: Routes, parts: Parts, place: OwnedSemaphorePermit) -> Self {
        Self {
            tick: shared.clock.elapsed() + HEARTBEAT,
            shared,
            routes,
            parts: Arc::new(parts),
            looking: JoinSet::new(),
            answers: JoinSet::new(),
            pings: 0,
            subscriptions: (0, 0),
            calls: (0, 0),
            _place: place,
        }
    }

    /// Talks until it is over.
    async fn go_on(mut self, mut socket: WebSocket) {
        let ending = loop {
            let next = self.next(&mut socket).await;
            if let ControlFlow::Break(ending) = self.act(next, &mut socket).await {
                break ending;
            }
        };
        tracing::debug!(?ending, "a conversation is over");
        let Some((code, reason)) = ending else { return };
        let clock = Arc::clone(&self.shared.clock);
        tokio::select! {
            () = self.part(&mut socket, code, reason) => {}
            () = clock.sleep(FAREWELL) => {}
        }
    }

    /// Answers what was asked, says farewell, and stays until it was heard: who closes first what was not read to the end
    /// takes back what was said.
    async fn part(&mut self, socket: &mut WebSocket, code: CloseCode, reason: &'static str) {
        while let Some(Ok(answer)) = self.answers.join_next().await {
            // Where the caller said farewell, nothing is said any more.
            let _ = socket.send(Message::text(answer.text)).await;
        }
        let reason = reason.into();
        let _ = socket
            .send(Message::Close(Some(CloseFrame { code, reason })))
            .await;
        // What is too large is not read.
        while code != close_code::SIZE && matches!(socket.recv().await, Some(Ok(_))) {}
    }

    async fn next(&mut self, socket: &mut WebSocket) -> Next {
        let clock = Arc::clone(&self.shared.clock);
        let stop = self.shared.feed.stop().clone();
        let until_tick = self.tick.saturating_sub(clock.elapsed());
        tokio::select! {
            () = stop.cancelled() => Next::Stopped,
            () = clock.sleep(until_tick) => Next::Tick,
            Some(answer) = self.answers.join_next(), if !self.answers.is_empty() => Next::Answered(answer),
            message = socket.recv(), if self.answers.len() < AT_ONCE => Next::Heard(message),
            Some(told) = self.looking.join_next(), if !self.looking.is_empty() => Next::Told(told),
        }
    }

    async fn act(&mut self, next: Next, socket: &mut WebSocket) -> ControlFlow<Ending> {
        match next {
            Next::Stopped => ControlFlow::Break(STOPS),
            Next::Told(Ok((follower, told))) => self.tell(follower, told, socket).await,
            Next::Answered(Ok(answer)) => {
                say(&self.shared, socket, Message::text(answer.text)).await?;
                if let Some(follower) = answer.follower.filter(|_| answer.number > self.subscriptions.1) {
                    self.subscriptions.1 = answer.number;
                    self.looking = JoinSet::new();
                    self.follow(follower);
                }
                ControlFlow::Continue(())
            }
            Next::Answered(Err(error)) | Next::Told(Err(error)) => {
                tracing::error!(%error, "a call broke");
                ControlFlow::Break(Some((close_code::ERROR, "a call broke here")))
            }
            Next::Tick => self.look(socket).await,
            Next::Heard(message) => {
                self.pings = 0;
                self.hear(message)
            }
        }
    }

    /// Looks for what is to be told next.
    fn follow(&mut self, mut follower: Follower) {
        self.looking.spawn(async move {
            let next = follower.next().await;
            (follower, next)
        });
    }

    /// Tells what happened, and goes on looking.
    async fn tell(
        &mut self,
        follower: Follower,
        told: Result<Vec<Arc<AlarmChange>>, End>,
        socket: &mut WebSocket,
    ) -> ControlFlow<Ending> {
        let changes = match told {
            Ok(changes) => changes,
            Err(End::Stopped) => return ControlFlow::Break(STOPS),
            Err(End::Gone) => {
                let why = "what comes next is gone: read the alarms anew";
                return ControlFlow::Break(Some((close_code::POLICY, why)));
            }
            Err(End::Failed(error)) => {
                tracing::warn!(%error, "a follower of alarms is let go");
                return ControlFlow::Break(NO_STORE);
            }
        };
        for change in changes {
            let pushed = json!({ "event": ChangeAnswer::from(&*change) });
            say(&self.shared, socket, Message::text(pushed.to_string())).await?;
        }
        self.follow(follower);
        ControlFlow::Continue(())
    }

    /// Looks whether the caller is there, and may still be.
    async fn look(&mut self, socket: &mut WebSocket) -> ControlFlow<Ending> {
        self.tick = self.shared.clock.elapsed() + HEARTBEAT;
        if self.pings == PINGS {
            return ControlFlow::Break(None);
        }
        self.pings += 1;
        match self.shared.guard.admit(&self.parts, Scope::Read).await {
            Ok(_) => say(&self.shared, socket, Message::Ping(Bytes::new())).await,
            Err(problem) if problem.status.is_server_error() => ControlFlow::Break(NO_STORE),
            Err(_) => ControlFlow::Break(Some((close_code::POLICY, "the token opens this no more"))),
        }
    }

    fn hear(&mut self, message: Option<Result<Message, axum::Error>>) -> ControlFlow<Ending> {
        match message {
            None | Some(Ok(Message::Close(_))) => ControlFlow::Break(Some((close_code::NORMAL, ""))),
            Some(Err(error)) => ControlFlow::Break(unreadable(error)),
            Some(Ok(Message::Binary(_))) => {
                ControlFlow::Break(Some((close_code::UNSUPPORTED, "calls are text")))
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => ControlFlow::Continue(()),
            Some(Ok(Message::Text(text))) => {
                let is_too_much = self.is_too_much();
                let (shared, routes) = (self.shared.clone(), self.routes.clone());
                let parts = Arc::clone(&self.parts);
                self.subscriptions.0 += 1;
                let number = self.subscriptions.0;
                self.answers.spawn(async move {
                    let answer = match Call::read(text.as_str()) {
                        Ok(call) if is_too_much => call.refused(&too_many()).into(),
                        Ok(call) => answer(&shared, routes, &parts, call).await,
                        Err(text) => text.into(),
                    };
                    Answer { number, ..answer }
                });
                ControlFlow::Continue(())
            }
        }
    }

    /// Counts a call; says whether it is one too many in this second.
    fn is_too_much(&mut self) -> bool {
        let second = self.shared.clock.elapsed().as_secs();
        let count = if self.calls.0 == second {
            self.calls.1 + 1
        } else {
            1
        };
        self.calls = (second, count);
        count > IN_A_SECOND
    }
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        Self {
            text,
            follower: None,
            number: 0,
        }
    }
}

/// Says something; who does not read it does not keep the node from stopping.
async fn say(shared: &Shared, socket: &mut WebSocket, message: Message) -> ControlFlow<Ending> {
    tokio::select! {
        biased;
        said = socket.send(message) => said.map_or(ControlFlow::Break(None), ControlFlow::Continue),
        () = shared.feed.stop().cancelled() => ControlFlow::Break(STOPS),
    }
}

/// What was wrong with what was heard; none where the connection is gone.
fn unreadable(error: axum::Error) -> Ending {
    match error.into_inner().downcast_ref::<tungstenite::Error>()? {
        tungstenite::Error::Capacity(_) => Some((
            close_code::SIZE,
            "that cannot be read: a message has 64 KiB at the most",
        )),
        tungstenite::Error::Utf8(_) => Some((close_code::INVALID, "that cannot be read: it is no UTF-8")),
        tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        tungstenite::Error::Protocol(_) => Some((
            close_code::PROTOCOL,
            "that cannot be read: it is no frame of a WebSocket",
        )),
        _ => None,
    }
}

fn too_many() -> Problem {
    let detail = format!("more than {IN_A_SECOND} calls in a second: ask again in the next");
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-calls", detail)
}

async fn answer(shared: &Shared, routes: Routes, parts: &Parts, call: Call) -> Answer {
    if !call.is_subscription() {
        return call.answered_by(routes, parts).await.into();
    }
    let subscribed = async {
        let (owner, after) = call.followed()?;
        let caller = shared.guard.admit(parts, Scope::Read).await?;
        follow(shared, &caller, owner, after).await
    };
    match subscribed.await {
        Ok(follower) => Answer {
            text: call.result(&json!({ "after": follower.seen() })),
            follower: Some(follower),
            number: 0,
        },
        Err(problem) => call.refused(&problem).into(),
    }
}
