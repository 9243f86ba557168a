//! `carillon alarms`: asks a running node for alarms of its own, and shows what became of them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use clap::Subcommand;
use reqwest::Method;
use serde_json::Value;
use serde_json::value::RawValue;
use serde_json::value::to_raw_value;

use crate::cli::asking::Node;
use crate::cli::asking::Which;
use crate::cli::asking::print;
use crate::cli::preview::harmless::plain;
use crate::cli::watch;
use crate::config::Settings;

/// What `alarms` takes.
#[derive(Debug, Args)]
#[command(after_help = MORE_HELP)]
pub(super) struct Arguments {
    #[command(flatten)]
    node: Which,

    /// Whose alarms [default: the token's owner; `me` without a token]
    #[arg(long, global = true, value_name = "OWNER")]
    owner: Option<String>,

    /// The answer as JSON instead of a table
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    what: What,
}

impl Arguments {
    /// Whose alarms are meant; of whoever has a token that is its own, where that is not said.
    fn owner(&self, node: &Node) -> Option<&str> {
        self.owner.as_deref().or((!node.has_token()).then_some(OWNER))
    }
}

/// Whose alarms are meant where neither is said nor a token could say it.
const OWNER: &str = "me";

const MORE_HELP: &str = "\
Examples:
  carillon alarms --owner anna add --delay 90s --channel email --label 'Tea is ready'
  carillon alarms --owner anna add --cron '0 9 * * mon-fri' --tz Europe/Berlin --target https://example.org/hook
  carillon alarms --owner anna list --status active
  carillon alarms --owner anna history --json
  carillon alarms --owner anna watch --after 0";

#[derive(Debug, Subcommand)]
enum What {
    /// Ask for an alarm
    Add(Box<Add>),

    /// List alarms, newest first
    List {
        /// Only those: active, fired, failed or cancelled
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,

        /// So many at the most
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
    },

    /// Show one alarm
    Show {
        /// Its id
        id: String,
    },

    /// Cancel an alarm
    Cancel {
        /// Its id
        id: String,
    },

    /// Fire an alarm now, whatever became of it before
    Retry {
        /// Its id
        id: String,
    },

    /// Show firings that are over, newest first
    History {
        /// Only of this alarm
        #[arg(long, value_name = "ID")]
        alarm: Option<String>,

        /// Only of alarms that call this: the URL of a webhook, or the name of a handler
        #[arg(long, value_name = "TARGET")]
        target: Option<String>,

        /// Only through this way out: email, sms, webhook or handler
        #[arg(long, value_name = "CHANNEL")]
        channel: Option<String>,

        /// Only those: completed, failed, timeout_unknown …
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,

        /// So many at the most
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
    },

    /// Show how many there are
    Stats,

    /// Show what happens, as it happens; after a lost connection from where it was
    Watch {
        /// Begin after this number: 0 shows all that is kept [default: from now on]
        #[arg(long, value_name = "N")]
        after: Option<u64>,
    },
}

/// An alarm that is asked for; the node says what is wrong with it.
#[derive(Debug, Args)]
struct Add {
    /// The instant: RFC 3339, or a local time in --tz
    #[arg(long, value_name = "TIME", group = "times")]
    at: Option<String>,

    /// How long from now, as `90s` or `in 30 minutes`
    #[arg(long, value_name = "LENGTH", group = "times")]
    delay: Option<String>,

    /// A phrase such as `tomorrow at 9am`
    #[arg(long, value_name = "PHRASE", group = "times")]
    when: Option<String>,

    /// A cron expression
    #[arg(long, value_name = "EXPR", group = "times")]
    cron: Option<String>,

    /// The time zone in which that is said [default: the owner's]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,

    /// Through what: email, sms, webhook or handler
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,

    /// What is called: the URL of a webhook in place of the owner's own, or the name of a handler
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,

    /// What it is called
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,

    /// What it says
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,

    /// What the target is given back: a JSON document
    #[arg(long, value_name = "JSON", value_parser = document)]
    payload: Option<Box<RawValue>>,

    /// How often a firing that fails is tried again
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,

    /// A name of yours: asked for again, it is the same alarm
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// As it is written, to the byte: it is the target's.
fn document(text: &str) -> Result<Box<RawValue>, String> {
    serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))
}

/// Asks, and says what was answered.
pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let node = Node::new(&arguments.node, settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    if let What::Watch { after } = &arguments.what {
        let shown = if arguments.json {
            watch::Shown::Json
        } else {
            watch::Shown::Lines
        };
        runtime.block_on(watch::watch(&node, arguments.owner(&node), *after, shown))?;
        return Ok(ExitCode::SUCCESS);
    }
    let answer = runtime.block_on(ask(&node, arguments))?;
    let said = if arguments.json {
        serde_json::to_string_pretty(&answer)? + "\n"
    } else {
        shown(&arguments.what, &answer)
    };
    print(&said).context("the answer cannot be shown")?;
    Ok(ExitCode::SUCCESS)
}

async fn ask(node: &Node, arguments: &Arguments) -> anyhow::Result<Value> {
    let owner = ("owner", arguments.owner(node));
    let most = |limit: &u32| limit.to_string();
    let (method, path, query) = match &arguments.what {
        What::Add(add) => {
            let body = add.body(arguments.owner(node));
            return node.ask(Method::POST, "/v1/alarms", Some(body)).await;
        }
        What::List { status, limit } => {
            let query = query(&[
                owner,
                ("status", status.as_deref()),
                ("limit", Some(&most(limit))),
            ]);
            (Method::GET, "/v1/alarms".to_owned(), query)
        }
        What::Show { id } => (Method::GET, of_alarm(id, ""), query(&[owner])),
        What::Cancel { id } => (Method::DELETE, of_alarm(id, ""), query(&[owner])),
        What::Retry { id } => (Method::POST, of_alarm(id, "/run"), query(&[owner])),
        What::History {
            alarm,
            target,
            channel,
            status,
            limit,
        } => {
            let query = query(&[
                owner,
                ("alarm", alarm.as_deref()),
                ("target", target.as_deref()),
                ("channel", channel.as_deref()),
                ("status", status.as_deref()),
                ("limit", Some(&most(limit))),
            ]);
            (Method::GET, "/v1/alarms/history".to_owned(), query)
        }
        What::Stats => (Method::GET, "/v1/alarms/stats".to_owned(), query(&[owner])),
        // It is no answer, but goes on.
        What::Watch { .. } => (Method::GET, "/v1/alarms/feed".to_owned(), query(&[owner])),
    };
    node.ask(method, &format!("{path}?{query}"), None).await
}

/// The path of an alarm. What is no id is no path either.
fn of_alarm(id: &str, verb: &str) -> String {
    let id: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("/v1/alarms/{id}{verb}")
}

pub(super) fn query(parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters
        .iter()
        .filter_map(|(name, value)| Some((name, (*value)?)));
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in given {
        query.append_pair(name, value);
    }
    query.finish()
}

impl Add {
    fn body(&self, owner: Option<&str>) -> String {
        let text = |text: &str| to_raw_value(text).expect("a text can be written");
        let mut body = BTreeMap::from([("created_via", text("cli"))]);
        body.extend(owner.map(|owner| ("owner", text(owner))));
        for (name, value) in [
            ("at", &self.at),
            ("delay", &self.delay),
            ("when", &self.when),
            ("cron", &self.cron),
            ("timezone", &self.tz),
            ("channel", &self.channel),
            ("target", &self.target),
            ("label", &self.label),
            ("wake_message", &self.message),
            ("idempotency_key", &self.key),
        ] {
            if let Some(value) = value {
                body.insert(name, text(value));
            }
        }
        if let Some(retries) = &self.max_retries {
            body.insert(
                "max_retries",
                to_raw_value(retries).expect("a number can be written"),
            );
        }
        if let Some(payload) = &self.payload {
            body.insert("payload", payload.clone());
        }
        serde_json::to_string(&body).expect("what can be written alone can be written together")
    }
}

/// For people.
fn shown(what: &What, answer: &Value) -> String {
    let items =
        |columns: &[(&str, &str)]| table(columns, answer["items"].as_array().map_or(&[], Vec::as_slice));
    match what {
        What::List { .. } => items(&[
            ("ID", "id"),
            ("STATUS", "status"),
            ("NEXT", "next_fire_at"),
            ("CHANNEL", "channel"),
            ("LABEL", "label"),
        ]),
        What::History { .. } => items(&[
            ("ALARM", "alarm_id"),
            ("SCHEDULED FOR", "scheduled_for"),
            ("STATUS", "status"),
            ("ATTEMPTS", "attempts"),
            ("MS", "duration_ms"),
            ("RESULT", "result"),
        ]),
        What::Add(_)
        | What::Show { .. }
        | What::Cancel { .. }
        | What::Retry { .. }
        | What::Stats
        | What::Watch { .. } => fields(answer),
    }
}

pub(super) fn table(columns: &[(&str, &str)], rows: &[Value]) -> String {
    let mut cells: Vec<Vec<String>> = vec![columns.iter().map(|(title, _)| (*title).to_owned()).collect()];
    cells.extend(
        rows.iter()
            .map(|row| columns.iter().map(|(_, name)| cell(&row[name])).collect()),
    );
    let widths: Vec<usize> = (0..columns.len())
        .map(|column| {
            cells
                .iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or_default()
        })
        .collect();
    let mut text = String::new();
    for row in cells {
        let line = row
            .iter()
            .zip(&widths)
            .fold(String::new(), |line, (cell, width)| {
                format!("{line}{cell:<width$}  ")
            });
        writeln!(text, "{}", line.trim_end()).expect("a string takes every text");
    }
    text
}

/// One field a line.
fn fields(answer: &Value) -> String {
    let fields = answer.as_object().into_iter().flatten();
    fields.fold(String::new(), |mut text, (name, value)| {
        writeln!(text, "{name:<20} {}", cell(value)).expect("a string takes every text");
        text
    })
}

/// What others wrote is shown without characters that command a terminal.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => plain(text).replace(['\n', '\t'], " "),
        other => other.to_string(),
    }
}
