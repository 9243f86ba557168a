//! `carillon secrets`: has a running node rotate the secret under which the links in messages are made.

use std::process::ExitCode;

use clap::Args;
use clap::Subcommand;
use reqwest::Method;
use serde_json::json;

use crate::cli::asking::Node;
use crate::cli::asking::Which;
use crate::cli::asking::print;
use crate::config::Settings;

/// What `secrets` takes.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    node: Which,

    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make a new secret for the links in messages; all nodes use it within seconds, without a restart
    ///
    /// Links that were sent before stay good for as long as --keep says, and then none of them is. A second rotation
    /// ends those of two secrets ago at once.
    Rotate {
        /// How long links that were sent before stay good; `0s`: no longer
        #[arg(long, value_name = "LENGTH", default_value = "24h")]
        keep: String,
    },
}

/// Asks, and says what was answered.
pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let What::Rotate { keep } = &arguments.what;
    let node = Node::new(&arguments.node, settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let body = json!({ "keep": keep }).to_string();
    let answer = runtime.block_on(node.ask(Method::POST, "/v1/secrets/rotate", Some(body)))?;
    let until = answer["previous_until"].as_str().unwrap_or("?");
    print(&format!("links that were sent before are good until {until}\n"))?;
    Ok(ExitCode::SUCCESS)
}
