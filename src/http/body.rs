//! Bodies: bounded in length and in silence.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::body::BodyDataStream;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::header;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;

use super::Shared;
use super::problem::Flaw;
use super::problem::Problem;
use crate::clock::Clock;

/// A body as it arrives.
pub(super) struct Arriving {
    stream: BodyDataStream,
    clock: Arc<dyn Clock>,
    silence: Duration,
    left: usize,
    limit: usize,
}

impl Arriving {
    /// Reads `body` up to `limit` bytes. A length that is announced and too large is refused at once.
    pub(super) fn new(
        body: Body,
        headers: &HeaderMap,
        limit: usize,
        shared: &Shared,
    ) -> Result<Self, Problem> {
        let announced = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok());
        if announced.is_some_and(|length| length.parse::<usize>().is_ok_and(|length| length > limit)) {
            return Err(too_large(limit));
        }
        Ok(Self {
            stream: body.into_data_stream(),
            clock: Arc::clone(&shared.clock),
            silence: shared.limits.read_timeout,
            left: limit,
            limit,
        })
    }

    /// The next piece; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let piece = tokio::select! {
            biased;
            piece = self.stream.next() => piece,
            () = self.clock.sleep(self.silence) => return Err(silent(self.silence)),
        };
        self.count(piece)
    }

    /// The next piece if it comes within `patience`; none at the end; `Err(None)` if it does not come.
    pub(super) async fn next_within(&mut self, patience: Duration) -> Result<Option<Bytes>, Option<Problem>> {
        let piece = tokio::select! {
            biased;
            piece = self.stream.next() => piece,
            () = self.clock.sleep(patience) => return Err(None),
        };
        self.count(piece).map_err(Some)
    }

    fn count(&mut self, piece: Option<Result<Bytes, axum::Error>>) -> Result<Option<Bytes>, Problem> {
        let Some(piece) = piece else {
            return Ok(None);
        };
        let piece = piece.map_err(|_| Problem::bad_request("the body ended before it was complete"))?;
        self.left = self
            .left
            .checked_sub(piece.len())
            .ok_or_else(|| too_large(self.limit))?;
        Ok(Some(piece))
    }

    /// All of it.
    pub(super) async fn whole(mut self) -> Result<Vec<u8>, Problem> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }
}

/// A JSON object, with a pointer to what does not fit.
pub(super) fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Else a list would do, its values taken for the fields in their order.
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(Problem::invalid(vec![Flaw {
            pointer: Some(String::new()),
            detail: "a list, expected an object with named fields".to_owned(),
            ..Flaw::default()
        }]));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let detail = error.inner().to_string();
        if !error.inner().is_data() {
            return Problem::bad_request(format!("the body is not JSON: {detail}"));
        }
        let pointer = Some(pointer(error.path()));
        Problem::invalid(vec![Flaw {
            pointer,
            detail,
            ..Flaw::default()
        }])
    })?;
    reader
        .end()
        .map_err(|_| Problem::bad_request("something follows the JSON value: send one value"))?;
    Ok(read)
}

/// A path in the value as a JSON pointer (RFC 6901).
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let segments = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(format!("/{index}")),
        Segment::Map { key } | Segment::Enum { variant: key } => {
            Some(format!("/{}", key.replace('~', "~0").replace('/', "~1")))
        }
        Segment::Unknown => None,
    });
    segments.collect()
}

/// What a program says of a body when nobody told it what that is: curl the first, many libraries the second. Pages of
/// other sites are kept out by who they are ([`super::auth`]), not by the type they name.
const UNTOLD: [&str; 2] = ["application/x-www-form-urlencoded", "application/octet-stream"];

/// Refuses a body of another type than `accepted`, and one that would have to be decoded first. One without a type that means something is taken on trust.
pub(super) fn expect_type(headers: &HeaderMap, accepted: &[&str], cure: &str) -> Result<(), Problem> {
    let encoding = headers.get(header::CONTENT_ENCODING);
    if let Some(encoding) = encoding.filter(|it| !it.as_bytes().eq_ignore_ascii_case(b"identity")) {
        let detail = format!("the body is encoded ({encoding:?}): send it as it is");
        return Err(unsupported(detail));
    }
    let Some(given) = headers.get(header::CONTENT_TYPE) else {
        return Ok(());
    };
    let given = given.to_str().unwrap_or("?");
    let essence = given
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    if accepted.contains(&essence.as_str()) || UNTOLD.contains(&essence.as_str()) {
        return Ok(());
    }
    let detail = format!("the body is `{essence}`, expected {}: {cure}", accepted[0]);
    Err(unsupported(detail))
}

fn unsupported(detail: String) -> Problem {
    Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported-media-type",
        detail,
    )
}

fn too_large(limit: usize) -> Problem {
    let detail = format!("the body is larger than {limit} bytes: send less at once");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
}

fn silent(silence: Duration) -> Problem {
    let detail = format!("nothing came for {}", humantime::format_duration(silence));
    Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail)
}
