//! The thin binary: everything is in the library.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    carillon::cli::run(&carillon::cli::Cli::parse())
}
