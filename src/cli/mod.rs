//! The command line. Answers go to standard output, complaints to standard error; the exit code says which kind of
//! failure it was, as `sysexits.h` numbers them: 78 for the configuration, 65 for the data, 1 for everything else; and 2, as
//! clap does, for the arguments.

mod after_restore;
mod alarms;
mod arguments;
mod asking;
mod check;
mod cluster;
mod cron;
mod instants;
mod mcp;
mod parse_time;
mod preview;
mod secrets;
mod tokens;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::CommandFactory;
use clap::Parser;
use clap::Subcommand;

use crate::clock::SystemClock;
use crate::config::Complaints;
use crate::config::Settings;
use crate::logging;
use crate::private;
use crate::service;
use crate::store::Store;
use crate::store::postgres;
use crate::store::postgres::PostgresStore;
use crate::store::sqlite;
use crate::store::sqlite::SqliteStore;

/// The data given are wrong (`EX_DATAERR`).
const WRONG_DATA: u8 = 65;

/// The configuration is wrong (`EX_CONFIG`).
const WRONG_CONFIGURATION: u8 = 78;

/// Delivers the message alarms of calendars: on time, once, through crashes.
#[derive(Debug, Parser)]
#[command(name = "carillon", version, after_help = AFTER_HELP, propagate_version = true)]
pub struct Cli {
    /// Configuration file (TOML). Needs only what differs from the defaults; none is fine
    #[arg(long, global = true, value_name = "PATH", env = "CARILLON_CONFIG")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Start without any configuration, and see reminders at http://127.0.0.1:8085/outbox:
  carillon serve

What would a calendar remind me of?
  carillon preview calendar.ics --tz Europe/Berlin

Every key can also be set in the environment, its path spelt with double underscores:
  CARILLON__HTTP__LISTEN=127.0.0.1:8080 CARILLON__CHANNELS__EMAIL__SMTP__HOST=relay.example.org carillon serve";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a node: take changes, plan, and deliver
    ///
    /// Ends after SIGTERM or SIGINT once what is under way is finished; a second signal ends it at once. SIGHUP reads
    /// the configuration again.
    Serve,

    /// Bring the store up to date and exit; `serve` does the same when it starts
    Migrate,

    /// Check the configuration and say everything that is wrong, with the cure
    Check(check::Arguments),

    /// Ask a running node about its cluster
    Cluster(cluster::Arguments),

    /// Ask a running node for alarms, and see what became of them
    Alarms(alarms::Arguments),

    /// Let an agent use alarms as tools: relays the Model Context Protocol from standard input and output to a running node
    Mcp(mcp::Arguments),

    /// Make, list and revoke the tokens by which programs are let in; works on the store, also while nodes run
    Tokens(tokens::Arguments),

    /// After the database went back in time: show what would be sent, and let the nodes fire again
    AfterRestore(after_restore::Arguments),
    /// Ask a running node to rotate the secret of the links in messages
    Secrets(secrets::Arguments),

    /// Print the script by which a shell completes these commands, as in `source <(carillon completions bash)`
    Completions {
        /// For bash, zsh, fish …
        shell: clap_complete::Shell,
    },

    /// Show what fires, when and for whom, and what does not and why; needs neither a server nor a configuration
    Preview(preview::Arguments),

    /// Say which instant a phrase such as `tomorrow at 5pm` means; needs neither a server nor a configuration
    ParseTime(parse_time::Arguments),

    /// List when a cron expression fires; needs neither a server nor a configuration
    Cron(cron::Arguments),
}

/// Runs a command.
pub fn run(cli: &Cli) -> ExitCode {
    private::set_umask();
    match &cli.command {
        Command::Serve => with_settings(cli, serve),
        Command::Migrate => with_settings(cli, |_, settings| migrate(&settings)),
        Command::Check(arguments) => with_settings(cli, |_, settings| check::run(arguments, &settings)),
        Command::Cluster(arguments) => with_settings(cli, |_, settings| cluster::run(arguments, &settings)),
        Command::Alarms(arguments) => with_settings(cli, |_, settings| alarms::run(arguments, &settings)),
        Command::Mcp(arguments) => with_settings(cli, |_, settings| mcp::run(arguments, &settings)),
        Command::Tokens(arguments) => with_settings(cli, |_, settings| tokens::run(arguments, &settings)),
        Command::AfterRestore(arguments) => {
            with_settings(cli, |_, settings| after_restore::run(arguments, &settings))
        }
        Command::Secrets(arguments) => with_settings(cli, |_, settings| secrets::run(arguments, &settings)),
        Command::Completions { shell } => completions(*shell),
        Command::Preview(arguments) => match &cli.config {
            Some(_) => with_settings(cli, |_, settings| Ok(preview::run(arguments, Some(&settings)))),
            None => preview::run(arguments, None),
        },
        Command::ParseTime(arguments) => parse_time::run(arguments),
        Command::Cron(arguments) => cron::run(arguments),
    }
}

fn completions(shell: clap_complete::Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "carillon", &mut script);
    instants::print(&String::from_utf8_lossy(&script))
}

fn load(cli: &Cli) -> Result<Settings, Complaints> {
    // A name that is no text cannot be one of ours; a value that is none stands as it can be read and is refused.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
    Settings::load(cli.config.as_deref(), environment)
}

fn with_settings(cli: &Cli, run: impl FnOnce(&Cli, Settings) -> anyhow::Result<ExitCode>) -> ExitCode {
    let settings = match load(cli) {
        Ok(settings) => settings,
        Err(complaints) => {
            eprintln!("{complaints}");
            return WRONG_CONFIGURATION.into();
        }
    };
    match run(cli, settings) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("carillon: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(cli: &Cli, settings: Settings) -> anyhow::Result<ExitCode> {
    let cli = Cli {
        config: cli.config.clone(),
        command: Command::Serve,
    };
    let levels = logging::start(&settings.log)?;
    service::serve(settings, Arc::new(move || load(&cli)), levels)?;
    Ok(ExitCode::SUCCESS)
}

fn migrate(settings: &Settings) -> anyhow::Result<ExitCode> {
    logging::start(&settings.log)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(bring_up_to_date(settings))?;
    Ok(ExitCode::SUCCESS)
}

async fn bring_up_to_date(settings: &Settings) -> anyhow::Result<()> {
    if settings.store.is_postgres() {
        let options = postgres::Options::default();
        let store = PostgresStore::open(&settings.store.url, options).await?;
        store.close().await;
        println!("the database is up to date");
        return Ok(());
    }
    let path = settings.store.sqlite_path();
    let store = SqliteStore::open(&path, Arc::new(SystemClock), sqlite::Options::default()).await?;
    store.close().await;
    println!("{} is up to date", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
