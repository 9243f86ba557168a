//! The two statements of the leader's look at a large table: claim what is due, and see when the next is. The look itself asks
//! who lives besides, and shares what is due among them in smaller pages.

use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use carillon::store::RescueRules;
use carillon::store::Store;
use carillon::store::postgres::Options;
use carillon::store::postgres::PostgresStore;
use chrono::TimeDelta;
use sqlx::Connection;
use sqlx::PgConnection;

use crate::harness::postgres::Postgres;

/// Owed triggers; 1,000 of them are due at each look.
const SIZES: [u32; 2] = [10_000, 10_000_000];

const DUE: u32 = 1_000;

const LOOKS: u32 = 9;

/// Prints a table.
pub async fn measure() {
    let server = Postgres::start_with(&["shared_buffers=512MB", "max_wal_size=8GB", "fsync=off"]).await;
    println!("| owed | look: claim {DUE} due, next due | nothing due: the same look |\n|---|---|---|");
    let mut medians = Vec::new();
    for size in SIZES {
        let (full, empty) = at(&server, size).await;
        println!("| {size} | {} µs | {} µs |", full.as_micros(), empty.as_micros());
        medians.push(full.as_secs_f64());
    }
    println!(
        "\nThe look at the larger table takes {:.2} times the look at the smaller.",
        medians[1] / medians[0]
    );
}

/// The median look with something due, and with nothing.
async fn at(server: &Postgres, size: u32) -> (Duration, Duration) {
    let url = server.database().await;
    let store = PostgresStore::open(&url, Options::default())
        .await
        .expect("a new database can be made");
    fill(&url, size).await;
    let (session, _) = store
        .begin_session("bench", &rules())
        .await
        .expect("a session begins");
    let first = store
        .next_free_due(chrono::DateTime::UNIX_EPOCH)
        .await
        .expect("it answers");
    let mut due = first.expect("there are triggers");
    let (mut full, mut empty) = (Vec::new(), Vec::new());
    for _ in 0..LOOKS {
        let until = due + TimeDelta::milliseconds(i64::from(DUE) - 1);
        full.push(look(&store, session, until, DUE as usize).await);
        empty.push(look(&store, session, until, 0).await);
        due = until + TimeDelta::milliseconds(1);
    }
    full.sort_unstable();
    empty.sort_unstable();
    (full[full.len() / 2], empty[empty.len() / 2])
}

async fn look(
    store: &PostgresStore,
    session: carillon::trigger::SessionId,
    until: chrono::DateTime<chrono::Utc>,
    expected: usize,
) -> Duration {
    let began = SystemClock.elapsed();
    let mut claimed = 0;
    let mut after = None;
    loop {
        let page = store
            .claim_due(session, until, after, 500)
            .await
            .expect("it answers");
        claimed += page.len();
        let Some(last) = page.last().filter(|_| page.len() == 500) else {
            break;
        };
        after = Some((last.due_at, last.id));
    }
    store.next_free_due(until).await.expect("it answers");
    let took = SystemClock.elapsed().saturating_sub(began);
    assert_eq!(claimed, expected);
    took
}

/// One trigger for each millisecond from an hour from now on, in no order of their ids.
async fn fill(url: &str, size: u32) {
    let mut conn = PgConnection::connect(url).await.expect("it answers");
    let statement = format!(
        "INSERT INTO owner (id, addresses, time_zone, locale, enabled, muted, changed_at)
             SELECT 'o' || n, '[]', 'UTC', 'en', true, '[]', now() FROM generate_series(0, 9999) AS n;
         INSERT INTO alarm_trigger (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at,
                 repeat, due_at, expires_at, has_more, state)
             SELECT decode(md5('t' || n), 'hex'), 'o' || n % 10000, 'u' || n, 'a', 'email', 'owner', at, at, 0, at,
                 at + interval '1 hour', false, 'planned'
             FROM (SELECT n, date_trunc('second', now()) + interval '1 hour' + n * interval '1 ms' AS at
                 FROM generate_series(1, {size}) AS n) AS j;
         ANALYZE"
    );
    let done = sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
        .execute(&mut conn)
        .await;
    done.expect("the statement is right");
    conn.close().await.expect("it closes");
}

fn rules() -> RescueRules {
    RescueRules {
        dead_after: Duration::from_secs(5),
        overdue_wait: Duration::from_mins(5),
        send_within: Duration::from_mins(2),
        retry_in_doubt: Vec::new(),
    }
}
