//! `carillon preview`.

use std::process::ExitCode;

use clap::Args;

/// What `preview` takes.
#[derive(Debug, Args)]
pub(super) struct Arguments {}

pub(super) fn run(_arguments: &Arguments) -> ExitCode {
    todo!()
}
