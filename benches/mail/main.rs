//! How many mails a second: `cargo bench --bench mail`. Prints a table for ARCHITECTURE.md.
//!
//! Our pool of connections to a relay beside lettre's own transport as it comes, and beside a client that does no more than
//! SMTP asks for; the same mail by turns, one after the other over one connection, and ours over eight as well. To a sink of
//! ours in this process, near and 5 ms away; to Debian's `smtp-sink`; and to a private Postfix that throws everything away. What is
//! not installed is left out, and that is said.

mod distance;
#[path = "../../tests/it/harness/mod.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod harness;
mod raw;
mod way;

use std::path::Path;
use std::time::Duration;

use crate::distance::Distance;
use crate::harness::postfix::Postfix;
use crate::harness::sink::Sink;
use crate::harness::smtp_sink::SmtpSink;
use crate::way::Way;

/// Rounds, in each of which every way has its turn.
const ROUNDS: usize = 5;

/// How long a turn takes.
const TURN: Duration = Duration::from_secs(2);

/// There and back, for the relay that is away.
const AWAY: Duration = Duration::from_millis(5);

/// The ways, in the order of their turns.
const WAYS: [Way; 4] = [Way::Stock, Way::Pool(1), Way::Raw, Way::Pool(8)];

fn main() {
    // Test runners start every target; only `cargo bench` says `--bench`.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{cores} cores, the middle of {ROUNDS} rounds\n");
    println!("| relay | way | connections | mails/s | to lettre's transport |");
    println!("|---|---|---|---|---|");
    runtime.block_on(async {
        to_ours("a sink of ours", Duration::ZERO).await;
        to_ours("the same, 5 ms away", AWAY).await;
        if installed("smtp-sink") {
            let sink = SmtpSink::start(&[]).await;
            to("smtp-sink", sink.port).await;
        } else {
            println!("\nsmtp-sink is left out: apt-get install postfix");
        }
        if installed("postfix") && rustix::process::geteuid().is_root() {
            let postfix = Postfix::start("discard:").await;
            to("Postfix, discarding", postfix.port).await;
        } else {
            println!("\nPostfix is left out: it must be installed (apt-get install postfix), and needs root");
        }
    });
}

fn installed(program: &str) -> bool {
    Path::new("/usr/sbin").join(program).is_file()
}

/// A sink keeps all that it is sent, so each turn has one of its own.
async fn to_ours(relay: &str, away: Duration) {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut round = [0.0; WAYS.len()];
        for (pace, way) in round.iter_mut().zip(WAYS) {
            let sink = Sink::start().await;
            let distance = Distance::of(sink.port, away).await;
            let port = if away.is_zero() { sink.port } else { distance.port };
            *pace = way.pace(port, TURN).await;
        }
        rounds.push(round);
    }
    tell(relay, &rounds);
}

async fn to(relay: &str, port: u16) {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut round = [0.0; WAYS.len()];
        for (pace, way) in round.iter_mut().zip(WAYS) {
            *pace = way.pace(port, TURN).await;
        }
        rounds.push(round);
    }
    tell(relay, &rounds);
}

/// Ratios are those of one round: the machine is another a minute later.
fn tell(relay: &str, rounds: &[[f64; WAYS.len()]]) {
    for (place, way) in WAYS.iter().enumerate() {
        let pace = middle(rounds.iter().map(|round| round[place]));
        let ratio = middle(rounds.iter().map(|round| round[place] / round[0]));
        println!(
            "| {relay} | {} | {} | {pace:.0} | {ratio:.1} |",
            way.name(),
            way.connections()
        );
    }
}

fn middle(of: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = of.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
