//! Carillon delivers the message alarms of calendars: on time, once, through crashes.
//!
//! `ARCHITECTURE.md` draws the way of a reminder through these modules.
//!
//! # In a program
//!
//! [`embedded`] makes a node a part of a program: it names handlers, and dispatches messages to them that are due at an
//! instant. What was asked for is done once, also if the program dies and is started again meanwhile.
//!
//! ```no_run
//! use std::path::Path;
//! use std::time::Duration;
//!
//! use carillon::embedded::{Answer, Builder, Call, When};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let node = Builder::on_sqlite(Path::new("tea.db"))?
//!     .handler("tea", async |call: Call<String>| {
//!         println!("attempt {}: {} tea", call.attempt, call.message);
//!         match call.attempt {
//!             1 => Answer::Retry { after: Duration::from_secs(30), message: Some("green".to_owned()) },
//!             _ => Answer::Ok,
//!         }
//!     })
//!     .start()
//!     .await?;
//! let asked = node.dispatch("tea", &"black", "today", When::In(Duration::from_secs(90))).await?;
//! println!("due at {}", asked.alarm.fire_at);
//! node.stop().await?;
//! # Ok(())
//! # }
//! ```

pub mod arbiter;
pub mod calendar;
pub mod change;
pub mod channel;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod condition;
pub mod config;
pub mod delivery;
pub mod embedded;
pub mod epoch;
pub mod feed;
pub mod http;
pub mod janitor;
pub mod listen;
pub mod logging;
pub mod metrics;
pub mod node;
pub mod planner;
pub mod post;
pub mod preview;
mod private;
pub mod ready;
pub mod service;
pub mod shutdown;
pub mod store;
pub mod token;
pub mod trigger;
pub mod worker;
