//! `carillon check`: by the time it runs, the configuration has been found right.

use clap::Args;

use crate::config::Settings;

/// What `check` takes.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Print the configuration as it applies, with where each value comes from; secrets are not shown
    #[arg(long)]
    print: bool,
}

/// Says that all is well, or prints the configuration.
pub(super) fn run(arguments: &Arguments, settings: &Settings) {
    if arguments.print {
        print!("{}", settings.print_redacted());
        return;
    }
    println!("the configuration is fine");
    println!("  store   {}", settings.store.url);
    println!("  listen  http://{}", settings.http.listen);
    match &settings.smtp {
        Some(relay) => println!("  e-mail  through {} port {}", relay.host, relay.port),
        None => println!("  e-mail  stays in the outbox: channels.email.smtp.host is empty"),
    }
}
