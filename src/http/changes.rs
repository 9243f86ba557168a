//! Many changes in one request: one JSON object a line in, one answer a line out, in order.
//!
//! Lines are applied in transactions of at most [`PER_BATCH`], sooner when the caller pauses, so that whoever sends
//! one line and waits is answered. A bad line is answered and never stops the others. What is not answered was not
//! applied: after a broken connection the caller sends from there again, and what had been applied is `unchanged`.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use futures_util::stream;
use serde::Deserialize;
use serde::Serialize;
use tokio::sync::mpsc;

use super::Shared;
use super::body;
use super::body::Arriving;
use super::events;
use super::events::Taken;
use super::id;
use super::lines::Line;
use super::lines::Lines;
use super::lines::Next;
use super::problem::At;
use super::problem::Problem;
use crate::change::Incoming;
use crate::store::EventKey;
use crate::store::Version;
use crate::trigger::OwnerId;

/// Changes in one transaction at the most.
const PER_BATCH: usize = 500;

/// Bytes of lines in one transaction, about.
const BATCH_BYTES: usize = 4 << 20;

/// How long a transaction waits for more lines.
const PATIENCE: Duration = Duration::from_millis(20);

/// Batches of answers that wait for a caller who sends everything before reading anything.
const BATCHES_AHEAD: usize = 1_024;

/// One line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeLine {
    op: Op,
    key: String,
    #[serde(default)]
    owner: Option<String>,
    #[serde(default)]
    version: Option<serde_json::Value>,
    #[serde(default)]
    ics: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Op {
    Put,
    Delete,
}

/// What a line asks for.
#[derive(Debug)]
enum Ask {
    /// A change of one copy.
    One(Incoming),
    /// To delete every owner's copy.
    Everywhere { key: String, version: Option<Version> },
}

/// The answer to a line.
#[derive(Debug, Serialize)]
struct LineAnswer {
    line: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(flatten)]
    end: LineEnd,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum LineEnd {
    Taken(Taken),
    Rejected { result: &'static str, problem: Problem },
}

impl LineEnd {
    fn rejected(problem: Problem) -> Self {
        Self::Rejected {
            result: "rejected",
            problem,
        }
    }
}

/// `POST /v1/sources/{source}/changes`.
pub(super) async fn post(
    State(shared): State<Shared>,
    At(source): At<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let source = id::checked("source", source)?;
    let accepted = [
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/json",
    ];
    body::expect_type(
        &headers,
        &accepted,
        "with curl use -H 'content-type: application/x-ndjson'",
    )?;
    let arriving = Arriving::new(body, &headers, shared.limits.body_bytes, &shared)?;
    // An iCalendar object has a line end in every line, which JSON doubles.
    let longest = shared.limits.event_bytes * 2 + 4096;
    let intake = Intake { shared, source };
    let lines = Lines::new(arriving, longest);
    let (answers, answered) = mpsc::channel(BATCHES_AHEAD);
    // A task of its own goes on reading while the caller does not read yet; it ends with either side of the request.
    tokio::spawn(intake.run(lines, answers));
    let answered = stream::unfold(answered, |mut answered: mpsc::Receiver<Bytes>| async {
        let batch = answered.recv().await?;
        Some((Ok::<_, Infallible>(batch), answered))
    });
    let ndjson = HeaderValue::from_static("application/x-ndjson");
    Ok(([(header::CONTENT_TYPE, ndjson)], Body::from_stream(answered)).into_response())
}

/// Applies and answers the lines of one request.
struct Intake {
    shared: Shared,
    source: String,
}

/// Why reading stopped.
enum Stop {
    /// A batch is full, or the caller pauses.
    Pause,
    /// All was read.
    End,
    /// No more can be read.
    Broken(Problem),
}

impl Intake {
    async fn run(self, mut lines: Lines, answers: mpsc::Sender<Bytes>) {
        loop {
            let (batch, stop) = read_batch(&mut lines).await;
            let (mut answered, applied) = self.answer(batch).await;
            let over = match (stop, applied) {
                (Stop::Pause, Ok(())) => false,
                (Stop::Broken(problem), Ok(())) => {
                    let end = LineEnd::rejected(problem);
                    answered.push(LineAnswer {
                        line: lines.number() + 1,
                        key: None,
                        end,
                    });
                    true
                }
                (Stop::End, _) | (_, Err(Unapplied)) => true,
            };
            let sent = answered.is_empty() || answers.send(ndjson(&answered)).await.is_ok();
            if over || !sent {
                return;
            }
        }
    }

    /// Answers each line, in order. An error: the store failed, and what follows was not even tried.
    async fn answer(&self, batch: Vec<(usize, Line)>) -> (Vec<LineAnswer>, Result<(), Unapplied>) {
        let mut answered = Vec::with_capacity(batch.len());
        let applied = self.answer_into(&mut answered, batch).await;
        answered.sort_by_key(|answer| answer.line);
        (answered, applied)
    }

    async fn answer_into(
        &self,
        answered: &mut Vec<LineAnswer>,
        batch: Vec<(usize, Line)>,
    ) -> Result<(), Unapplied> {
        let mut run = Vec::new();
        for (line, text) in batch {
            let (key, ask) = match text {
                Ok(text) => self.ask_of(&text),
                Err(problem) => (None, Err(problem)),
            };
            match ask {
                Ok(Ask::One(incoming)) => run.push((line, incoming)),
                Ok(Ask::Everywhere { key, version }) => {
                    // The copies to delete are known once what came before is stored.
                    self.apply(&mut run, answered).await?;
                    let end = self.delete_everywhere(&key, version).await;
                    answered.push(LineAnswer {
                        line,
                        key: Some(key),
                        end,
                    });
                }
                Err(problem) => answered.push(LineAnswer {
                    line,
                    key,
                    end: LineEnd::rejected(problem),
                }),
            }
        }
        self.apply(&mut run, answered).await
    }

    /// Applies a run of changes and adds their answers.
    async fn apply(
        &self,
        run: &mut Vec<(usize, Incoming)>,
        answered: &mut Vec<LineAnswer>,
    ) -> Result<(), Unapplied> {
        let (places, changes): (Vec<_>, Vec<_>) = std::mem::take(run)
            .into_iter()
            .map(|(line, incoming)| ((line, incoming.at.key.clone()), incoming))
            .unzip();
        if changes.is_empty() {
            return Ok(());
        }
        match events::apply(&self.shared, changes).await {
            Ok(answers) => {
                answered.extend(
                    places
                        .into_iter()
                        .zip(answers)
                        .map(|((line, key), answer)| LineAnswer {
                            line,
                            key: Some(key),
                            end: events::taken(vec![answer]).map_or_else(LineEnd::rejected, LineEnd::Taken),
                        }),
                );
                Ok(())
            }
            Err(problem) => {
                answered.extend(places.into_iter().map(|(line, key)| LineAnswer {
                    line,
                    key: Some(key),
                    end: LineEnd::rejected(problem.clone()),
                }));
                Err(Unapplied)
            }
        }
    }

    async fn delete_everywhere(&self, key: &str, version: Option<Version>) -> LineEnd {
        let deleted = events::delete_copies(&self.shared, &self.source, key, version);
        deleted.await.map_or_else(LineEnd::rejected, LineEnd::Taken)
    }

    /// What a line asks for, and its key where it got so far.
    fn ask_of(&self, text: &[u8]) -> (Option<String>, Result<Ask, Problem>) {
        match body::json::<ChangeLine>(text) {
            Ok(line) => (Some(line.key.clone()), self.ask(line)),
            Err(problem) => (None, Err(problem)),
        }
    }

    fn ask(&self, line: ChangeLine) -> Result<Ask, Problem> {
        let key = id::checked("key", line.key)?;
        let version = version_of(line.version)?;
        let owner = line.owner.map(|owner| id::checked("owner", owner)).transpose()?;
        let ics = match (line.op, line.ics) {
            (Op::Put, Some(ics)) if ics.len() > self.shared.limits.event_bytes => {
                let limit = self.shared.limits.event_bytes;
                let detail = format!("`ics` has {} bytes: {limit} are allowed", ics.len());
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail));
            }
            (Op::Put, Some(ics)) => Some(ics.into_bytes()),
            (Op::Delete, None) => None,
            (Op::Put, None) => return Err(Problem::bad_request("`put` needs `ics`, the iCalendar text")),
            (Op::Delete, Some(_)) => return Err(Problem::bad_request("`delete` takes no `ics`")),
        };
        match (owner, ics) {
            (None, Some(_)) => Err(Problem::bad_request("`put` needs `owner`: say whose event it is")),
            (None, None) => Ok(Ask::Everywhere { key, version }),
            (Some(owner), ics) => {
                let at = EventKey {
                    source: self.source.clone(),
                    key,
                    owner: OwnerId(owner),
                };
                Ok(Ask::One(Incoming { at, version, ics }))
            }
        }
    }
}

/// The next lines, as many as belong in one transaction.
async fn read_batch(lines: &mut Lines) -> (Vec<(usize, Line)>, Stop) {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while batch.len() < PER_BATCH && bytes < BATCH_BYTES {
        let patience = (!batch.is_empty()).then_some(PATIENCE);
        match lines.next(patience).await {
            Next::Line(line) => {
                bytes += line.as_ref().map_or(0, Vec::len);
                batch.push((lines.number(), line));
            }
            Next::Pause => return (batch, Stop::Pause),
            Next::End => return (batch, Stop::End),
            Next::Broken(problem) => return (batch, Stop::Broken(problem)),
        }
    }
    (batch, Stop::Pause)
}

/// The store failed: nothing of this run was applied.
struct Unapplied;

/// A version is a text or a whole number.
fn version_of(version: Option<serde_json::Value>) -> Result<Option<Version>, Problem> {
    let version = match version {
        None | Some(serde_json::Value::Null) => None,
        Some(serde_json::Value::String(text)) => Some(text),
        Some(serde_json::Value::Number(number)) if !number.is_f64() => Some(number.to_string()),
        Some(_) => return Err(Problem::bad_request("`version` must be a text or a whole number")),
    };
    events::version(version)
}

fn ndjson(answers: &[LineAnswer]) -> Bytes {
    let mut text = Vec::new();
    for answer in answers {
        serde_json::to_writer(&mut text, answer).expect("answers are plain data");
        text.push(b'\n');
    }
    text.into()
}
