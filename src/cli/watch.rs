//! `carillon alarms watch`: follows what happens to alarms, and goes on where it was after a connection is lost.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Context;
use reqwest::Method;
use reqwest::Response;
use reqwest::StatusCode;
use serde_json::Value;

use crate::cli::alarms::cell;
use crate::cli::alarms::query;
use crate::cli::asking::Node;
use crate::cli::asking::print;
use crate::cli::asking::silent;
use crate::clock::Clock;
use crate::clock::SystemClock;

/// The node shows every ten seconds that it is there.
const SILENCE: Duration = Duration::from_secs(30);

/// The first and the longest pause before a lost connection is opened again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// How long a watch may take: as long as somebody looks.
const FOR_EVER: Duration = Duration::from_hours(24 * 365);

/// Bytes of one change at the most.
const LONGEST: usize = 64 * 1024;

/// How changes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// A line for people each.
    Lines,
    /// A line of JSON each.
    Json,
}

/// Follows an owner's alarms after that number, from now on without one. Ends only where the node refuses.
pub(super) async fn watch(
    node: &Node,
    owner: Option<&str>,
    after: Option<u64>,
    shown: Shown,
) -> anyhow::Result<()> {
    let mut seen = after.map(|after| after.to_string());
    let mut pause = PAUSES.0;
    // A node that was never there is not waited for.
    let mut stream = open(node, owner, seen.as_deref())
        .await?
        .map_err(|error| silent(&node.url, &error))?;
    if shown == Shown::Lines {
        print(&line(["AT", "WHAT", "ALARM", "CHANNEL", "LABEL", "DETAIL"]))?;
    }
    loop {
        let told = follow(&mut stream, &mut seen, shown).await?;
        if told {
            pause = PAUSES.0;
        }
        eprintln!(
            "the connection to {} is lost; going on after {}",
            node.url,
            seen.as_deref().unwrap_or("now")
        );
        stream = loop {
            SystemClock.sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
            if let Ok(stream) = open(node, owner, seen.as_deref()).await? {
                break stream;
            }
        };
    }
}

/// Opens the feed. The outer error is for good; the inner one may pass.
async fn open(
    node: &Node,
    owner: Option<&str>,
    seen: Option<&str>,
) -> anyhow::Result<reqwest::Result<Response>> {
    let path = format!("/v1/alarms/feed?{}", query(&[("owner", owner)]));
    let mut request = node.request(Method::GET, &path).timeout(FOR_EVER);
    if let Some(seen) = seen {
        request = request.header("last-event-id", seen);
    }
    let answer = match request.send().await {
        Ok(answer) => answer,
        Err(error) => return Ok(Err(error)),
    };
    let status = answer.status();
    match answer.error_for_status_ref() {
        Ok(_) => Ok(Ok(answer)),
        Err(error) if status == StatusCode::SERVICE_UNAVAILABLE => Ok(Err(error)),
        Err(_) => {
            let body = answer.bytes().await.unwrap_or_default();
            Err(node.refused(status, &body)).context("the alarms cannot be watched")
        }
    }
}

/// Shows what is told until the connection is lost. Says whether anything was.
async fn follow(stream: &mut Response, seen: &mut Option<String>, shown: Shown) -> anyhow::Result<bool> {
    let mut frames = Frames::default();
    let mut told = false;
    while let Ok(Ok(Some(part))) = tokio::time::timeout(SILENCE, stream.chunk()).await {
        told = true;
        frames.take(&part)?;
        while let Some(frame) = frames.next() {
            if let Some(data) = frame.data {
                show(&data, shown)?;
            }
            *seen = frame.id.or(seen.take());
        }
    }
    Ok(told)
}

fn show(data: &str, shown: Shown) -> anyhow::Result<()> {
    if shown == Shown::Json {
        return Ok(print(&format!("{data}\n"))?);
    }
    let change: Value =
        serde_json::from_str(data).context("the node tells what is no JSON: is it one of Carillon?")?;
    let cells = ["at", "type", "alarm_id", "channel", "label", "detail"].map(|name| cell(&change[name]));
    Ok(print(&line(cells.each_ref().map(String::as_str)))?)
}

fn line([at, what, alarm, channel, label, detail]: [&str; 6]) -> String {
    let line = format!("{at:<24}  {what:<15}  {alarm:<32}  {channel:<7}  {label:<20}  {detail}");
    line.trim_end().to_owned() + "\n"
}

/// One event of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Frame {
    id: Option<String>,
    data: Option<String>,
}

/// Events, out of the parts in which they come.
#[derive(Debug, Default)]
struct Frames {
    rest: Vec<u8>,
    whole: VecDeque<Frame>,
    next: Frame,
}

impl Frames {
    /// Takes a part of the stream.
    fn take(&mut self, part: &[u8]) -> anyhow::Result<()> {
        self.rest.extend_from_slice(part);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            self.line(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']));
        }
        anyhow::ensure!(
            self.rest.len() <= LONGEST,
            "the node tells a line without an end: is it one of Carillon?"
        );
        Ok(())
    }

    fn line(&mut self, line: &str) {
        match line
            .split_once(':')
            .map(|(name, value)| (name, value.trim_start()))
        {
            Some(("id", id)) => self.next.id = Some(id.to_owned()),
            Some(("data", data)) => self.next.data = Some(data.to_owned()),
            None if line.is_empty() => self.whole.push_back(std::mem::take(&mut self.next)),
            _ => {}
        }
    }

    fn next(&mut self) -> Option<Frame> {
        self.whole.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text = "retry: 1000\nid: 3\n\n:\n\nid: 4\ndata: {\"a\": 1}\n\n";
        for size in [1, 3, 100] {
            let mut frames = Frames::default();
            for part in text.as_bytes().chunks(size) {
                frames.take(part).unwrap();
            }
            let read: Vec<Frame> = std::iter::from_fn(|| frames.next()).collect();
            let frame = |id: &str, data: Option<&str>| Frame {
                id: Some(id.to_owned()),
                data: data.map(str::to_owned),
            };
            let expected = [frame("3", None), Frame::default(), frame("4", Some("{\"a\": 1}"))];
            assert_eq!(read, expected, "{size}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_kept() {
        let mut frames = Frames::default();
        assert!(frames.take(&vec![b'x'; LONGEST]).is_ok());
        assert!(frames.take(b"x").is_err());
    }
}
