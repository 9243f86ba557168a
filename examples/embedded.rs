//! A program with alarms of its own: it has a handler called in a moment, which asks to be called once more with another
//! message, and is done then.
//!
//! ```sh
//! cargo run --example embedded               # in a folder that is gone afterwards
//! cargo run --example embedded -- tea.db     # in a file; started again, it goes on where it was
//! ```

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use carillon::embedded::Answer;
use carillon::embedded::Builder;
use carillon::embedded::Call;
use carillon::embedded::When;
use serde::Deserialize;
use serde::Serialize;
use tokio::sync::mpsc;

/// What is said to the handler. It is stored as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Tea {
    kind: String,
    milk: bool,
}

/// Public for a test, which runs this very program.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let given = std::env::args().nth(1).map(PathBuf::from);
    let path = given.unwrap_or_else(|| folder.path().join("tea.db"));

    let (done, mut finished) = mpsc::unbounded_channel();
    let node = Builder::on_sqlite(&path)?
        .handler("tea", move |call: Call<Tea>| {
            let done = done.clone();
            async move {
                let Tea { kind, milk } = &call.message;
                println!("attempt {}: {kind} tea, milk: {milk}", call.attempt);
                if *milk {
                    // Whoever waits is told.
                    let _ = done.send(call.alarm_id);
                    return Answer::Ok;
                }
                let message = Tea {
                    kind: kind.clone(),
                    milk: true,
                };
                Answer::Retry {
                    after: Duration::from_millis(500),
                    message: Some(message),
                }
            }
        })
        .start()
        .await?;

    let tea = Tea {
        kind: "black".to_owned(),
        milk: false,
    };
    let asked = node
        .dispatch("tea", &tea, "today", When::In(Duration::from_secs(2)))
        .await?;
    let alarm = asked.alarm;
    let which = if asked.existed {
        "the same as before"
    } else {
        "a new one"
    };
    println!(
        "alarm {} is {which}, {} at {}",
        alarm.id.0, alarm.status, alarm.fire_at
    );

    if alarm.is_live() {
        finished.recv().await;
    }
    // Ends the handler's call before everything is let go.
    node.stop().await?;
    println!("stopped");
    Ok(())
}
