//! `carillon after-restore`: lets nodes fire again after the database went back in time, where `store.on_rewind = "hold"`.

use std::io::IsTerminal;
use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use chrono::DateTime;
use chrono::Utc;
use clap::Args;

use crate::cli::instants::print;
use crate::cli::tokens;
use crate::config::Settings;
use crate::store::Doubtful;
use crate::store::Epoch;
use crate::store::Store;

/// What is asked for.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Record what was due before this instant as missed instead of sending it, as `2026-12-01T08:00:00Z`
    #[arg(long, value_name = "INSTANT")]
    since: Option<DateTime<Utc>>,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Shows what would be sent, asks, and lets it go on.
pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let store = tokens::open(settings).await?;
        let done = release(store.as_ref(), arguments).await;
        store.close().await;
        done
    })
}

async fn release(store: &dyn Store, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let epoch = store.epoch().await?;
    if !epoch.held {
        bail!(
            "nothing is held in epoch {}: a node with store.on_rewind = \"hold\" holds when it starts on an older database, or \
             finds that it went back in time",
            epoch.id
        );
    }
    print(&told(&epoch, store.doubtful().await?, arguments.since));
    if !arguments.yes && !confirmed()? {
        eprintln!("nothing was changed");
        return Ok(ExitCode::FAILURE);
    }
    if !store.release(epoch.id, arguments.since).await? {
        bail!("the database changed meanwhile: run the command again");
    }
    print("nodes fire again within two seconds\n");
    Ok(ExitCode::SUCCESS)
}

fn told(epoch: &Epoch, due: Doubtful, since: Option<DateTime<Utc>>) -> String {
    let lost = epoch.lost.map_or_else(String::new, |lost| {
        format!(
            "the database went back in time: it was seen as of {}, and holds what was committed up to {}\n",
            lost.until.to_rfc3339(),
            lost.after.to_rfc3339()
        )
    });
    let missed = since.map_or_else(String::new, |since| {
        format!(
            "what was due before {} is recorded as missed instead\n",
            since.to_rfc3339()
        )
    });
    format!(
        "{lost}of what is due by now:\n  {:>7} may be sent again: due before, and not known to be sent\n  {:>7} would be sent \
         late\n  {:>7} never: too late by now\n{missed}",
        due.again, due.late, due.never
    )
}

fn confirmed() -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("nobody can be asked: add --yes");
    }
    eprint!("Let nodes fire again? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
