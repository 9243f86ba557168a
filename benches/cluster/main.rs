//! What a cluster costs and how fast it heals: `cargo bench --bench cluster`, or one part of it:
//! `cargo bench --bench cluster -- failover`. Each part prints what it measured, beside something measured in the same run.
//!
//! - `claim`: the two statements of the leader's look, at 10,000,000 owed triggers of which 1,000 are due, beside the same at
//!   10,000.
//! - `failover`: three real nodes with the default pace; kill -9 of the leader, twenty times, until another leads; SIGTERM
//!   likewise; and how soon a node that is alone leads after its start.
//! - `idle`: what three nodes with nothing to do take of the processor and the network in a minute. Run nothing else on
//!   loopback meanwhile.

#[path = "../../tests/it/harness/mod.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod harness;

mod claim;
mod failover;
mod idle;
mod nodes;

fn main() {
    // Test runners start every target; only `cargo bench` says `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let parts = ["claim", "failover", "idle"];
    let named: Vec<&str> = parts
        .into_iter()
        .filter(|part| arguments.iter().any(|argument| argument == part))
        .collect();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    for part in if named.is_empty() { parts.to_vec() } else { named } {
        println!("\n## {part}\n");
        runtime.block_on(async {
            match part {
                "claim" => claim::measure().await,
                "failover" => failover::measure().await,
                _ => idle::measure().await,
            }
        });
    }
}
