//! How PostgreSQL carries out our statements: planned as the store has them planned, once, for whatever parameters, on
//! tables of which nothing is known, and of which all is.

use carillon::store::postgres::SESSION;
use sqlx::Connection;
use sqlx::Executor;
use sqlx::PgConnection;
use sqlx::Row;

use crate::store::Base;
use crate::store::Stage;
use crate::store::plans::statements;

async fn run(conn: &mut PgConnection, statement: &str) {
    let done = sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(conn).await;
    done.unwrap_or_else(|error| panic!("{error}: {statement}"));
}

/// What PostgreSQL is going to do, step by step.
async fn plan(conn: &mut PgConnection, statement: &str) -> Vec<String> {
    run(conn, &format!("PREPARE planned AS {statement}")).await;
    let parameters: i32 = sqlx::query_scalar(
        "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'planned'",
    )
    .fetch_one(&mut *conn)
    .await
    .expect("it is prepared");
    let nulls = vec!["NULL"; usize::try_from(parameters).expect("a count")].join(", ");
    let arguments = if nulls.is_empty() {
        nulls
    } else {
        format!("({nulls})")
    };
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN EXECUTE planned{arguments}"));
    let steps = conn
        .fetch_all(sqlx::raw_sql(explain))
        .await
        .expect("it is explained");
    run(conn, "DEALLOCATE planned").await;
    steps.iter().map(|step| step.get(0)).collect()
}

/// So many rows owed, and at most 20,000 of everything else.
async fn fill(conn: &mut PgConnection, owed: u32) {
    let rows = owed.min(20_000);
    run(
        conn,
        &format!(
            "INSERT INTO owner (id, addresses, time_zone, locale, enabled, muted, changed_at)
                 SELECT 'o' || n, '[]', 'UTC', 'en', true, '[]', now() FROM generate_series(1, {rows}) AS n;
             INSERT INTO event (source, key, owner, uid, changed_at, ics)
                 SELECT 's', 'k' || n, 'o' || 1 + n % {rows}, 'u' || n, now(), 'BEGIN:VCALENDAR'
                 FROM generate_series(1, {rows}) AS n;
             INSERT INTO alarm SELECT 'o' || 1 + n % {rows}, 'u' || n, 'a', 'email', 'owner'
                 FROM generate_series(1, {rows}) AS n;
             INSERT INTO alarm_trigger (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at,
                     repeat, due_at, expires_at, has_more, state)
                 SELECT decode(md5('t' || n), 'hex'), 'o' || 1 + n % {rows}, 'u' || n, 'a', 'email', 'owner', now(),
                     now(), 0, now() + n * interval '1 second', now(), true, 'planned'
                 FROM generate_series(1, {owed}) AS n;
             INSERT INTO delivery (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at, repeat,
                     outcome, rank, reason, detail, attempts, count, handed_over_at, recorded_at)
                 SELECT decode(md5('d' || n), 'hex'), 'o' || 1 + n % {rows}, 'u' || n, 'a', 'email', 'owner', now(),
                     now(), 0, 'sent', 5, '', '', 1, 1, now(), now() - n * interval '1 second'
                 FROM generate_series(1, {rows}) AS n;
             INSERT INTO standalone_alarm (owner, id, kind, channel, status, paused, fire_at, request_hash, created_at,
                     updated_at, failure_count, terms)
                 SELECT 'o' || 1 + n % {rows}, md5('a' || n), 'once', 'webhook', 'active', false, now(), '',
                     now() - n * interval '1 second', now(), 0, '{{}}'
                 FROM generate_series(1, {rows}) AS n;
             INSERT INTO alarm_change (owner, number, at, alarm_id, what, channel, detail)
                 SELECT 'o1', 100 + n, now() - n * interval '1 second', md5('a' || n), 'changed', 'webhook', ''
                 FROM generate_series(1, {rows}) AS n;
             INSERT INTO outbox SELECT id, owner, handed_over_at, '', '', '', '' FROM delivery;
             INSERT INTO limit_slot SELECT id, owner, 'email', 'spent', NULL, recorded_at FROM delivery"
        ),
    )
    .await;
}

/// The plans of all statements at so many rows, before anything is known of them and after.
async fn all_plans(rows: u32) -> Vec<(String, Vec<String>)> {
    let base = Base::postgres().await;
    let stage = Stage::on(&base).await;
    let mut conn = PgConnection::connect(stage.url()).await.expect("it answers");
    for (name, value) in SESSION {
        run(&mut conn, &format!("SET {name} = '{value}'")).await;
    }
    run(&mut conn, "SET statement_timeout = 0").await;
    fill(&mut conn, rows).await;
    let mut plans = Vec::new();
    for analyze in [false, true] {
        if analyze {
            run(&mut conn, "ANALYZE").await;
        }
        // What only locks has no plan.
        let planned = statements("postgres")
            .into_iter()
            .filter(|it| !it.contains("LOCK TABLE"));
        for statement in planned {
            let steps = plan(&mut conn, &statement).await;
            plans.push((statement, steps));
        }
    }
    plans
}

/// Whether a step reads a table from one end to the other, or an index without knowing where to begin.
fn reads_whole_table(statement: &str, steps: &[String]) -> bool {
    // The head of an index, of which one row is taken; an index that holds nothing but what is asked for.
    if statement.starts_with("-- backlog: oldest\n") || statement.starts_with("-- owners_to_plan\n") {
        return false;
    }
    let tables = [
        "owner",
        "event",
        "alarm",
        "alarm_trigger",
        "delivery",
        "outbox",
        "limit_slot",
        "standalone_alarm",
        "alarm_count",
        "alarm_change",
        "alarm_feed",
        "firing_count",
    ];
    let of = |step: &str, kind: &str| {
        let (_, rest) = step.split_once(kind)?;
        let (_, table) = rest.split_once(" on ")?;
        let table = table.split_whitespace().next()?;
        tables.contains(&table).then_some(())
    };
    steps.iter().enumerate().any(|(at, step)| {
        let sought = steps.get(at + 1).is_some_and(|next| next.contains("Index Cond:"));
        of(step, "Seq Scan").is_some() || (!sought && of(step, "Scan using").is_some())
    })
}

fn assert_no_whole_table(plans: &[(String, Vec<String>)]) {
    assert!(plans.len() > 80, "the statements are found: {}", plans.len());
    let whole: Vec<String> = plans
        .iter()
        .filter(|(statement, steps)| reads_whole_table(statement, steps))
        .map(|(statement, steps)| format!("{statement}\n{}", steps.join("\n")))
        .collect();
    assert!(whole.is_empty(), "{}", whole.join("\n\n"));
}

fn assert_the_due_index_is_walked(plans: &[(String, Vec<String>)]) {
    for verb in ["claim_due", "next_free_due", "held_by", "rescue", "backlog"] {
        let named = plans
            .iter()
            .filter(|(statement, _)| statement.starts_with(&format!("-- {verb}\n")));
        let mut found = 0;
        for (_, steps) in named {
            found += 1;
            let walks = |step: &String| step.contains("using alarm_trigger_due on");
            assert!(steps.iter().any(walks), "{verb}: {}", steps.join("\n"));
            let sorts = steps.iter().any(|step| step.contains("Sort"));
            assert!(!sorts, "{verb}: {}", steps.join("\n"));
            // Joined back to itself, the head is read once for each of its rows while statistics lag behind.
            let reads = steps
                .iter()
                .filter(|step| step.contains(" on alarm_trigger"))
                .count();
            let most = if verb == "claim_due" { 3 } else { 1 };
            assert!(reads <= most, "{verb}: {}", steps.join("\n"));
        }
        assert_eq!(found, 2, "{verb} is planned with and without statistics");
    }
}

#[tokio::test]
async fn no_statement_reads_a_whole_table_however_large() {
    for rows in [2_000, 20_000, 200_000] {
        let plans = all_plans(rows).await;
        assert_no_whole_table(&plans);
        assert_the_due_index_is_walked(&plans);
    }
}
