//! `carillon check`: by the time it runs, the configuration has been found right. It looks at what the configuration
//! names: the templates, the store and its schema, the relay. Nothing is changed and nothing is sent.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use crate::channel::Deadline;
use crate::channel::smtp;
use crate::channel::webhook;
use crate::channel::webhook::WebhookChannel;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::config::Settings;
use crate::delivery::ChannelConfig;
use crate::delivery::message::Renderer;
use crate::store::postgres;
use crate::store::sqlite::known_schema_version;
use crate::store::sqlite::schema_version;
use crate::trigger::ChannelKind;

/// What `check` takes.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Print the configuration as it applies, with where each value comes from; secrets are not shown
    #[arg(long)]
    print: bool,
}

/// Says of each part whether it is well, or prints the configuration. Fails if any part is not.
pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    if arguments.print {
        print!("{}", settings.print_redacted());
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let parts = [
        (
            "configuration",
            Ok(format!("fine; listens on http://{}", settings.http.listen)),
        ),
        ("templates", templates(settings)),
        ("store", runtime.block_on(store(settings))),
        ("e-mail", runtime.block_on(email(settings))),
        ("webhooks", webhooks(settings)),
        ("text messages", Ok(text_messages(settings))),
    ];
    let mut code = ExitCode::SUCCESS;
    for (name, found) in parts {
        match found {
            Ok(found) => println!("[+] {name}: {found}"),
            Err(complaint) => {
                println!("[-] {name}: {complaint}");
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

fn templates(settings: &Settings) -> Result<String, String> {
    let folder = settings.templates_dir.as_deref();
    let renderer = Renderer::new(folder).map_err(|error| error.to_string())?;
    let renderer = renderer.with_text_form(settings.text_form);
    let from = folder.map_or_else(|| "built in".to_owned(), |folder| format!("{}", folder.display()));
    let gaps = renderer.gaps().into_iter().map(|gap| format!("; {gap}"));
    Ok(from + &gaps.collect::<String>())
}

async fn store(settings: &Settings) -> Result<String, String> {
    if settings.store.is_postgres() {
        let known = postgres::known_schema_version();
        let found = postgres::schema_version(&settings.store.url).await;
        return told("the database", known, found.map_err(|error| error.to_string())?);
    }
    let path = settings.store.sqlite_path();
    let found = schema_version(&path).await.map_err(|error| error.to_string())?;
    told(&path.display().to_string(), known_schema_version(), found)
}

fn told(what: &str, known: i64, found: Option<i64>) -> Result<String, String> {
    match found {
        None => Ok(format!("{what} is created by the first start")),
        Some(found) if found == known => Ok(format!("{what} has schema version {found}")),
        Some(found) if found < known => Ok(format!(
            "{what} has schema version {found}; the next start brings it to {known}"
        )),
        Some(found) => Err(format!(
            "{what} has schema version {found}, this version knows up to {known}: use a newer version"
        )),
    }
}

/// Nothing is asked of a provider: each would have to be paid to say more.
fn text_messages(settings: &Settings) -> String {
    let is_on = |config: &ChannelConfig| config.enabled;
    if !settings.channels.get(&ChannelKind::Sms).is_some_and(is_on) {
        return "off".to_owned();
    }
    let callers_reach_us = settings.http.public_url.is_some();
    let route = settings.sms.route.iter().map(|provider| {
        let reports = match provider.receipts {
            Some(_) if callers_reach_us => "reports delivery",
            Some(_) => "could report delivery, if http.public_url said where",
            None => "does not report delivery",
        };
        format!("{} ({reports})", provider.name)
    });
    format!("through {}", route.collect::<Vec<_>>().join(", then "))
}

/// Each relay is asked, so that the last resort is not found to be wrong when it is needed.
async fn email(settings: &Settings) -> Result<String, String> {
    if settings.relays.is_empty() {
        return Ok("stays in the outbox: channels.email.smtp.host is empty".to_owned());
    }
    let mut found = Vec::with_capacity(settings.relays.len());
    for relay in &settings.relays {
        found.push(greeted(relay, settings.delivery.send_within).await);
    }
    let all_well = found.iter().all(Result::is_ok);
    let told = found
        .into_iter()
        .map(|of| of.unwrap_or_else(|complaint| complaint));
    let told = told.collect::<Vec<_>>().join("; then ");
    let told = match &settings.dkim {
        Some(signer) => format!("{told}; mails are signed by the key of {}", signer.record()),
        None => told,
    };
    if all_well { Ok(told) } else { Err(told) }
}

async fn greeted(relay: &smtp::Config, within: Duration) -> Result<String, String> {
    let place = format!("{} port {}", relay.host, relay.port);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let deadline = Deadline(clock.elapsed() + within);
    let relay = smtp::Relay::new(relay.clone(), clock).map_err(|error| format!("{place}: {error}"))?;
    match relay.greet(deadline).await {
        Ok(()) => Ok(format!("{place} takes our connection")),
        Err(complaint) => Err(format!("{place}: {complaint}")),
    }
}

/// Nobody is called: whose endpoints work is seen in the history of their owners.
fn webhooks(settings: &Settings) -> Result<String, String> {
    let config = settings.webhook.clone();
    let found = match config.targets() {
        None => "no call leaves: channels.webhook.secret_file is empty".to_owned(),
        Some(guard) => format!("calls are signed, and go to {guard}"),
    };
    let channel = WebhookChannel::new(config, None, &webhook::system(), Arc::new(SystemClock));
    channel.map(|_| found).map_err(|error| error.to_string())
}
