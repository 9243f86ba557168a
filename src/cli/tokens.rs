//! `carillon tokens`: makes the tokens by which programs are let in, lists them and takes them back. It works on the store
//! itself, also while nodes run on it, and each of them knows at its next request.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use anyhow::bail;
use clap::Args;
use clap::Subcommand;
use secrecy::ExposeSecret;
use serde_json::Value;
use serde_json::json;

use crate::cli::alarms::table;
use crate::cli::asking::print;
use crate::cli::instants::rfc3339;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::config::Settings;
use crate::store::Store;
use crate::store::postgres;
use crate::store::postgres::PostgresStore;
use crate::store::sqlite;
use crate::store::sqlite::SqliteStore;
use crate::store::token::AccessToken;
use crate::store::token::Issued;
use crate::store::token::MOST_TOKENS;
use crate::store::token::NewToken;
use crate::store::token::Scope;
use crate::token::access;
use crate::trigger::OwnerId;

/// Bytes of a name at the most.
const LONGEST_NAME: usize = 100;

/// How long a token that expires may be good: ten years.
const LONGEST_LIFE: Duration = Duration::from_hours(24 * 3_650);

/// What `tokens` takes.
#[derive(Debug, Args)]
#[command(after_help = MORE_HELP)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

const MORE_HELP: &str = "\
Examples:
  carillon tokens create --name calendar --scope admin > calendar.token
  carillon tokens create --name annas-agent --scope write --owner anna --expires 30d
  carillon tokens revoke annas-agent";

#[derive(Debug, Subcommand)]
enum What {
    /// Make a token and show it, this once: only its hash is kept
    Create(New),

    /// List the tokens: what they open, until when, and when they were last used
    List {
        /// The list as JSON instead of a table
        #[arg(long)]
        json: bool,
    },

    /// Take a token back: it opens nothing from now on
    Revoke {
        /// Its name
        #[arg(value_parser = name)]
        name: String,
    },
}

/// A token that is asked for.
#[derive(Debug, Args)]
struct New {
    /// What it is called, in lists
    #[arg(long, value_parser = name)]
    name: String,

    /// What it opens: read, write (and read) what belongs to owners, or admin, everything
    #[arg(long, value_name = "SCOPE")]
    scope: Scope,

    /// The one owner whose things it opens [default: everybody's]
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,

    /// How long it is good, as `30d` [default: until it is revoked]
    #[arg(long, value_name = "LENGTH", value_parser = life)]
    expires: Option<Duration>,
}

fn name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > LONGEST_NAME || text.chars().any(char::is_control) {
        return Err(format!(
            "a name has 1 to {LONGEST_NAME} bytes, none of them a control character"
        ));
    }
    Ok(text.to_owned())
}

fn life(text: &str) -> Result<Duration, String> {
    let life = humantime::parse_duration(text).ok();
    let life = life.filter(|life| (Duration::from_secs(1)..=LONGEST_LIFE).contains(life));
    life.ok_or_else(|| format!("`{text}` is no length from 1s to 3650d: write it as 30d or 12h"))
}

/// Does what is asked, and says what came of it.
pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let said = runtime.block_on(async {
        let store = open(settings).await?;
        let said = match &arguments.what {
            What::Create(new) => create(store.as_ref(), new).await,
            What::List { json } => list(store.as_ref(), *json).await,
            What::Revoke { name } => revoke(store.as_ref(), name).await,
        };
        store.close().await;
        said
    })?;
    print(&said)?;
    Ok(ExitCode::SUCCESS)
}

/// The store, which nodes may use meanwhile.
pub(super) async fn open(settings: &Settings) -> anyhow::Result<Arc<dyn Store>> {
    if settings.store.is_postgres() {
        let options = postgres::Options::default();
        return Ok(Arc::new(PostgresStore::open(&settings.store.url, options).await?));
    }
    let (path, clock) = (settings.store.sqlite_path(), Arc::new(SystemClock));
    let store = SqliteStore::open_beside(&path, clock, sqlite::Options::default()).await?;
    Ok(Arc::new(store))
}

/// The token alone is the answer, so that it can be led into a file.
async fn create(store: &dyn Store, new: &New) -> anyhow::Result<String> {
    if new.scope == Scope::Admin && new.owner.is_some() {
        bail!("a token of scope `admin` opens what is everybody's: leave --owner out, or use --scope write");
    }
    let secret = access::fresh().context("the system has no random numbers to give")?;
    let token = NewToken {
        hash: access::hash(secret.expose_secret()).context("a fresh token has our form")?,
        name: new.name.clone(),
        scope: new.scope,
        owner: new.owner.clone().map(OwnerId),
        lasts: new.expires,
    };
    match store.issue_token(&token).await? {
        Issued::Done => {}
        Issued::NameTaken => bail!(
            "there is a token `{0}`: use another name, or `carillon tokens revoke {0}` first",
            new.name
        ),
        Issued::TooMany => bail!(
            "there are {MOST_TOKENS} tokens, which is the most: see `carillon tokens list`, and revoke what is of no use"
        ),
    }
    eprintln!("keep it where only its holder can read it: it is not shown again");
    Ok(format!("{}\n", secret.expose_secret()))
}

async fn list(store: &dyn Store, json: bool) -> anyhow::Result<String> {
    let tokens = store.access_tokens().await?;
    let rows: Vec<Value> = tokens.iter().map(row).collect();
    if json {
        return Ok(serde_json::to_string_pretty(&rows)? + "\n");
    }
    let columns = [
        ("NAME", "name"),
        ("SCOPE", "scope"),
        ("OWNER", "owner"),
        ("CREATED", "created_at"),
        ("EXPIRES", "expires_at"),
        ("LAST USED", "last_used_at"),
        ("", "state"),
    ];
    Ok(table(&columns, &rows))
}

fn row(token: &AccessToken) -> Value {
    let state = if token.has_expired(SystemClock.now()) {
        "expired"
    } else {
        "good"
    };
    json!({
        "name": token.name,
        "scope": token.scope.as_str(),
        "owner": token.owner.as_ref().map(|owner| &owner.0),
        "created_at": rfc3339(token.created_at),
        "expires_at": token.expires_at.map(rfc3339),
        "last_used_at": token.last_used_at.map(rfc3339),
        "state": state,
    })
}

async fn revoke(store: &dyn Store, name: &str) -> anyhow::Result<String> {
    if !store.revoke_token(name).await? {
        bail!("there is no token `{name}`: see `carillon tokens list`");
    }
    Ok(format!("the token `{name}` opens nothing any more\n"))
}
