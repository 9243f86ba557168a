//! The job queues, driven by `peer.mjs` in a process of their own.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use crate::PACE;
use crate::SECONDS;
use crate::harness::postgres::Postgres;

/// A job queue.
#[derive(Debug, Clone, Copy)]
pub enum Queue {
    GraphileWorker,
    PgBoss,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Jobs a second, from the instant at which all are due until the last one is done.
    Drain,
    /// The 99th percentile of lateness in milliseconds, with [`PACE`] jobs due at each full second.
    Burst,
    /// The same, with the jobs spread over the second.
    Spread,
    /// Jobs inserted a second, in batches.
    Insert,
}

/// Milliseconds for the insertion before the first job is due.
const LEAD: &str = "12000";

/// Installs the job queues from npm; returns the folder of the driver.
pub fn install() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
    fs::create_dir_all(&folder).expect("the target folder is ours");
    fs::write(folder.join("peer.mjs"), include_str!("peer.mjs")).expect("the target folder is ours");
    fs::write(folder.join("package.json"), include_str!("package.json")).expect("the target folder is ours");
    let installed = Command::new("npm")
        .args(["install", "--silent", "--no-audit", "--no-fund"])
        .current_dir(&folder)
        .status();
    assert!(
        installed.expect("npm is missing: apt-get install npm").success(),
        "npm install failed"
    );
    folder
}

/// What `queue` reaches.
pub fn measure(folder: &Path, server: &Postgres, queue: Queue, work: Work, jobs: usize) -> f64 {
    let library = match queue {
        Queue::GraphileWorker => "graphile",
        Queue::PgBoss => "pgboss",
    };
    let (operation, jobs) = match work {
        Work::Drain => ("drain", jobs),
        Work::Burst | Work::Spread => ("late", PACE * SECONDS),
        Work::Insert => ("insert", jobs),
    };
    let mut command = Command::new("node");
    command
        .arg("peer.mjs")
        .args([library, operation])
        .args([jobs.to_string(), SECONDS.to_string()])
        .arg("tuned")
        .current_dir(folder)
        .env("PGPORT", server.port.to_string())
        .env("PGDATA", server.folder.path().join("data"))
        .env("LEAD_MS", LEAD);
    if work == Work::Burst {
        command.env("BURST", "1");
    }
    let output = command.output().expect("node is missing: apt-get install nodejs");
    let said = String::from_utf8_lossy(&output.stdout);
    let figure = match work {
        Work::Drain | Work::Insert => before(&said, " jobs/s"),
        Work::Burst | Work::Spread => after(&said, "p99 "),
    };
    figure.unwrap_or_else(|| panic!("{queue:?}: {said}{}", String::from_utf8_lossy(&output.stderr)))
}

fn before(text: &str, mark: &str) -> Option<f64> {
    text.split(mark).next()?.rsplit(' ').next()?.parse().ok()
}

fn after(text: &str, mark: &str) -> Option<f64> {
    text.split(mark).nth(1)?.split(' ').next()?.parse().ok()
}
