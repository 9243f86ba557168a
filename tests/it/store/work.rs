//! What our statements cost on PostgreSQL: buffers a row, counted by the server. The cost of a row must grow neither with the
//! batch nor with the table, whatever the planner knows. Plans are not looked at: one by index may read an index a thousand
//! times.

use std::collections::BTreeMap;

use carillon::store::postgres::SESSION;
use sqlx::Connection;
use sqlx::Executor;
use sqlx::PgConnection;
use sqlx::Row;

use crate::store::Base;
use crate::store::Stage;
use crate::store::plans::statements;

/// A statement, the state of the triggers that it is given, its arguments, and how many buffers it may touch for a row.
///
/// In arguments `{name}` is an array with an element for each row of the batch, and `{rows}` the number of rows.
type Hot = (&'static str, State, &'static str, u32);

/// The state of the triggers of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Planned,
    Claimed,
    Sending,
}

use State::Claimed;
use State::Planned;
use State::Sending;

/// What runs for each batch of changes, firings and reports, and in each round of the loops.
const HOT: [Hot; 60] = [
    ("claim_due", Planned, "now(), 1, now() + interval '9 days', NULL, '', {rows}", 13),
    ("held_by", Claimed, "now() + interval '9 days', NULL, '', 1, {rows}", 2),
    ("rescue", Claimed, "now() + interval '9 days', {rows}", 4),
    ("backlog", Planned, "now() + interval '9 days', now(), {rows}", 2),
    ("lock_owners", Planned, "{owners}", 1),
    ("change: stored copies", Planned, "{sources}, {keys}, {owners}", 10),
    ("change: write", Planned, "{sources}, {new_keys}, {owners}, {new_uids}, {nulls}, {nulls}, {texts}, now()", 19),
    ("triggers", Planned, "{owners}, {uids}", 15),
    ("triggers: to look at", Planned, "{owners}, {uids}", 8),
    ("owners", Planned, "{owners}", 1),
    ("copies", Planned, "{owners}, {uids}", 9),
    ("answers", Planned, "{owners}, {uids}", 4),
    ("alarms: of groups", Planned, "{owners}, {uids}", 10),
    ("handed_over", Planned, "{owners}, {uids}, {instants}", 4),
    ("answer: forget", Planned, "{owners}, {uids}", 4),
    ("forget_alarms", Planned, "{owners}, {uids}, {identities}, {channels}, {recipients}", 8),
    (
        "put_alarms",
        Planned,
        "{owners}, {new_uids}, {identities}, {channels}, {recipients}, {nulls}, {nulls}, {nulls}",
        12,
    ),
    ("withdraw", Planned, "{ids}", 10),
    ("withdraw: being sent", Sending, "{ids}", 9),
    ("adjust", Planned, "{ids}, {instants}, {truths}", 9),
    (
        "insert_triggers",
        Planned,
        "{new_ids}, {owners}, {uids}, {identities}, {channels}, {recipients}, {instants}, {instants}, {numbers}, {instants},
         {truths}, {truths}",
        25,
    ),
    ("take_back", Planned, "{ids}", 5),
    ("quarantine", Planned, "{sources}, {keys}, {owners}, {texts}", 26),
    ("claim_near", Planned, "now(), 1, now() + interval '9 days', {ids}", 9),
    ("fire_check: share owners", Claimed, "{ids}", 6),
    ("fire_check: lock owners", Claimed, "{ids}", 6),
    ("fire_check", Claimed, "{ids}, 1, 7", 6),
    ("fire_check: read", Claimed, "{ids}", 10),
    ("fire_check: leads", Sending, "{ids}, {ids}, 3", 10),
    ("fire_check: await settles", Claimed, "{ids}", 6),
    ("fire_check: send", Claimed, "{ids}, 7, now(), 1", 9),
    ("fire_check: gather", Sending, "{ids}, {ids}, 7", 25),
    ("fire_check: defer", Claimed, "{ids}, {instants}, 1", 21),
    ("fire_check: conclude", Claimed, "{ids}, 1", 8),
    (
        "fire_check: serve",
        Claimed,
        "{owners}, {uids}, {identities}, {channels}, {recipients}, {instants}, {instants}, {numbers}",
        15,
    ),
    ("fire_check: limits", Claimed, "{owners}, 'email', now(), now(), 5", 12),
    ("fire_check: slots", Claimed, "{ids}, now(), now()", 4),
    ("fire_check: take slots", Claimed, "{new_ids}, {owners}, {channels}, {states}, {numbers}, {instants}", 17),
    ("fire_check: release slots", Claimed, "{ids}", 4),
    ("settle", Sending, "{ids}", 8),
    ("settle: past", Sending, "{ids}", 8),
    (
        "record_endings",
        Sending,
        "{ids}, {states}, {numbers}, {texts}, {texts}, {numbers}, {instants}, now(), {texts}, {nulls}",
        24,
    ),
    (
        "improve",
        Sending,
        "{told}, {states}, {numbers}, {texts}, {texts}, {instants}, now(), {texts}, {nulls}",
        29,
    ),
    ("add_to_reports", Sending, "{ids}, {numbers}, {texts}, {numbers}, {instants}, {texts}", 9),
    ("delete_sending", Sending, "{ids}, {numbers}", 8),
    ("settle: overtaken", Claimed, "{ids}", 8),
    ("settle: retry", Sending, "{ids}, {numbers}, {instants}, {numbers}, {texts}, {nulls}", 20),
    ("settle: keep", Sending, "{told}, {instants}, {texts}, {texts}, {texts}, {texts}", 29),
    ("settle: spend slots", Sending, "{ids}, now()", 4),
    ("settle: give slots back", Sending, "{ids}, {numbers}", 5),
    ("hold_alarms: of triggers", Sending, "{ids}", 7),
    (
        "record_firings",
        Planned,
        "{new_ids}, {owners}, {uids}, {identities}, {channels}, {recipients}, {instants}, {instants}, {numbers}, {states},
         {numbers}, {texts}, {numbers}, now()",
        19,
    ),
    ("report: owed", Sending, "{ids}", 8),
    ("report: known", Sending, "{told}", 6),
    ("report: early", Sending, "{ids}, {states}, {numbers}, {texts}, {texts}, now()", 22),
    ("recall: triggers", Claimed, "{ids}, 'email', now(), 1", 11),
    ("recall", Claimed, "{ids}, now(), 1", 20),
    ("alter_alarms: lock", Planned, "{owners}, {alarms}", 9),
    ("alarms: by name", Planned, "{owners}, {alarms}", 5),
    ("rescue: lock", Claimed, "{ids}", 10),
];

/// How a batch was measured.
#[derive(Debug, Clone, Copy)]
struct Setting {
    rows: u32,
    owners: u32,
    #[expect(dead_code, reason = "a complaint shows it")]
    is_analyzed: bool,
    batch: u32,
    /// Whether the plan is made for these very arguments, as at first, or for any, as later.
    #[expect(dead_code, reason = "a complaint shows it")]
    is_custom: bool,
}

async fn run(conn: &mut PgConnection, statement: &str) {
    let done = sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(conn).await;
    done.unwrap_or_else(|error| panic!("{error}: {}", statement.get(..500).unwrap_or(statement)));
}

/// Inserts the same number of events, alarms, triggers, slots and history rows, spread over the owners.
async fn fill(conn: &mut PgConnection, rows: u32, owners: u32) {
    run(
        conn,
        &format!(
            "SET session_replication_role = replica; SET statement_timeout = 0;
             ALTER TABLE alarm_trigger SET (autovacuum_enabled = off);
             ALTER TABLE delivery SET (autovacuum_enabled = off);
             ALTER TABLE event SET (autovacuum_enabled = off);
             ALTER TABLE alarm SET (autovacuum_enabled = off);
             ALTER TABLE owner SET (autovacuum_enabled = off);
             ALTER TABLE limit_slot SET (autovacuum_enabled = off);
             ALTER TABLE answer SET (autovacuum_enabled = off);
             ALTER TABLE standalone_alarm SET (autovacuum_enabled = off);
             ALTER TABLE outbox SET (autovacuum_enabled = off);
             INSERT INTO owner (id, addresses, time_zone, locale, enabled, muted, changed_at)
                 SELECT 'o' || n, '[]', 'UTC', 'en', true, '[]', now() FROM generate_series(0, {owners} - 1) AS n;
             INSERT INTO event (source, key, owner, uid, changed_at, ics)
                 SELECT 's', 'k' || n, 'o' || n / 7 % {owners}, 'u' || n, now(), repeat('BEGIN:VEVENT', 30)
                 FROM generate_series(1, {rows}) AS n;
             INSERT INTO answer SELECT 'o' || n / 7 % {owners}, 'u' || n, '{{}}', now() FROM generate_series(1, {rows}, 9) AS n;
             INSERT INTO alarm SELECT 'o' || n / 7 % {owners}, 'u' || n, 'a', 'email', 'owner'
                 FROM generate_series(1, {rows}) AS n;
             INSERT INTO alarm_trigger (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at,
                     repeat, due_at, expires_at, has_more, state, session, attempt_token)
                 SELECT decode(md5('t' || n), 'hex'), 'o' || n / 7 % {owners}, 'u' || n, 'a', 'email', 'owner', now(), now(),
                     0, now() + n * interval '10 milliseconds', now(), true, 'planned', 1, 7
                 FROM generate_series(1, {rows}) AS n;
             INSERT INTO delivery (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at, repeat,
                     outcome, rank, reason, detail, attempts, count, handed_over_at, recorded_at)
                 SELECT decode(md5('d' || n), 'hex'), 'o' || n / 7 % {owners}, 'u' || n, 'a', 'email', 'owner', now(), now(),
                     0, 'sent', 5, '', '', 1, 1, now(), now() - n * interval '1 second'
                 FROM generate_series(1, {rows}) AS n;
             INSERT INTO standalone_alarm (owner, id, kind, channel, status, paused, fire_at, request_hash, created_at,
                     updated_at, failure_count, terms)
                 SELECT 'o' || n / 7 % {owners}, md5('a' || n), 'once', 'webhook', 'active', false, now(), '',
                     now() - n * interval '1 second', now(), 0, '{{}}'
                 FROM generate_series(1, {rows}) AS n;
             INSERT INTO outbox SELECT id, owner, handed_over_at, '', '', '', '' FROM delivery;
             INSERT INTO limit_slot SELECT id, owner, 'email', 'waiting', NULL, recorded_at FROM delivery;
             INSERT INTO session (node, started_at, beat_at, held_until) VALUES ('n', now(), now(), now());
             SET session_replication_role = origin"
        ),
    )
    .await;
}

/// The arguments of a batch that is spread over the whole table.
async fn arguments(conn: &mut PgConnection, setting: Setting) -> BTreeMap<&'static str, String> {
    let Setting {
        rows, owners, batch, ..
    } = setting;
    let of_rows = [
        ("ids", "bytea", "decode(md5('t' || n), 'hex')"),
        ("told", "bytea", "decode(md5('d' || n), 'hex')"),
        ("new_ids", "bytea", "decode(md5('x' || n), 'hex')"),
        ("owners", "text", "'o' || n / 7 % {owners}"),
        ("uids", "text", "'u' || n"),
        ("new_uids", "text", "'v' || n"),
        ("keys", "text", "'k' || n"),
        ("new_keys", "text", "'l' || n"),
        ("alarms", "text", "md5('a' || n)"),
    ];
    let mut arguments = BTreeMap::new();
    for (name, kind, value) in of_rows {
        let value = value.replace("{owners}", &owners.to_string());
        let list = format!(
            "SELECT quote_literal((SELECT array_agg({value} ORDER BY n) FROM generate_series(1, {rows}, {rows} / {batch})
                 AS n)::text) || '::{kind}[]'"
        );
        let list: String = sqlx::query_scalar(sqlx::AssertSqlSafe(list))
            .fetch_one(&mut *conn)
            .await
            .expect("it is made");
        arguments.insert(name, list);
    }
    let same = [
        ("sources", "'s'::text"),
        ("texts", "''::text"),
        ("states", "'spent'::text"),
        ("identities", "'a'::text"),
        ("channels", "'email'::text"),
        ("recipients", "'owner'::text"),
        ("instants", "date_trunc('second', now())"),
        ("numbers", "7::bigint"),
        ("truths", "true"),
    ];
    for (name, value) in same {
        arguments.insert(name, format!("array_fill({value}, ARRAY[{batch}])"));
    }
    let nulls = vec!["NULL"; usize::try_from(batch).expect("a small number")].join(",");
    arguments.insert("nulls", format!("'{{{nulls}}}'"));
    arguments.insert("rows", batch.to_string());
    arguments
}

/// The buffers that a statement touches for each row.
async fn cost(conn: &mut PgConnection, hot: Hot, arguments: &BTreeMap<&str, String>, batch: u32) -> f64 {
    let (name, state, given, _) = hot;
    let mut given = given.to_owned();
    for (argument, value) in arguments {
        given = given.replace(&format!("{{{argument}}}"), value);
    }
    run(conn, "BEGIN").await;
    if state != Planned {
        let ids = &arguments["ids"];
        // A scan meets all triggers.
        let moved = if given.contains(ids) {
            format!("id = ANY({ids})")
        } else {
            "true".to_owned()
        };
        let to_state = format!("UPDATE alarm_trigger SET state = lower('{state:?}') WHERE {moved}");
        run(conn, &to_state).await;
    }
    let explain = format!(
        "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) EXECUTE {}({given})",
        prepared(name)
    );
    let steps = conn.fetch_all(sqlx::raw_sql(sqlx::AssertSqlSafe(explain))).await;
    let steps = steps.unwrap_or_else(|error| panic!("{name}: {error}"));
    run(conn, "ROLLBACK").await;
    let steps = steps.iter().map(|step| step.get::<String, _>(0));
    // The first step counts what the others touch as well.
    let mut steps = steps.take_while(|step| !step.starts_with("Planning"));
    let buffers = steps.find(|step| step.contains("Buffers: shared"));
    let touched = buffers
        .iter()
        .flat_map(|step| step.split([' ', '=']).filter_map(|it| it.parse::<u32>().ok()));
    f64::from(touched.sum::<u32>()) / f64::from(batch)
}

/// The name under which a statement is prepared.
fn prepared(name: &str) -> String {
    name.replace(|it: char| !it.is_ascii_alphanumeric(), "_")
}

/// What each statement costs for a row, in each setting.
async fn costs(rows: u32, owners: u32) -> Vec<(Hot, Setting, f64)> {
    let base = Base::postgres().await;
    let stage = Stage::on(&base).await;
    let mut conn = PgConnection::connect(stage.url()).await.expect("it answers");
    fill(&mut conn, rows, owners).await;
    for (name, value) in SESSION {
        run(&mut conn, &format!("SET {name} = '{value}'")).await;
    }
    run(&mut conn, "SET statement_timeout = 0").await;
    let known = statements("postgres");
    for (name, ..) in HOT {
        let opening = format!("-- {name}\n");
        let statement = known.iter().find(|it| it.starts_with(&opening));
        let statement = statement.unwrap_or_else(|| panic!("there is no statement `{name}`"));
        run(&mut conn, &format!("PREPARE {} AS {statement}", prepared(name))).await;
    }
    let mut costs = Vec::new();
    for is_analyzed in [false, true] {
        if is_analyzed {
            run(&mut conn, "ANALYZE").await;
        }
        for (batch, is_custom) in [(50, false), (500, false), (50, true), (500, true)] {
            let mode = if is_custom {
                "force_custom_plan"
            } else {
                "force_generic_plan"
            };
            run(&mut conn, &format!("SET plan_cache_mode = {mode}")).await;
            let setting = Setting {
                rows,
                owners,
                is_analyzed,
                batch,
                is_custom,
            };
            let arguments = arguments(&mut conn, setting).await;
            for hot in HOT {
                costs.push((hot, setting, cost(&mut conn, hot, &arguments, batch).await));
            }
            // What was rolled back lies in the way of the next batch.
            run(&mut conn, "VACUUM").await;
        }
    }
    costs
}

/// Measures tables of this number of rows, with many owners and with one.
async fn assert_the_cost_is_even(rows: u32) {
    let mut all = costs(rows, 200).await;
    all.extend(costs(rows, 1).await);
    let mut complaints = Vec::new();
    for (hot, setting, cost) in &all {
        let (name, .., most) = *hot;
        let first = all
            .iter()
            .find(|(it, ..)| it.0 == name)
            .expect("it is one of them")
            .2;
        // Two pages more: an index may be one level deeper, and a row may have moved.
        if *cost > f64::from(most) || *cost > first * 1.2 + 2.0 {
            complaints.push(format!(
                "{name}: {cost:.1} buffers a row, {first:.1} at first, {most} at most, {setting:?}"
            ));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[tokio::test]
async fn the_cost_of_a_row_grows_neither_with_the_batch_nor_with_what_the_planner_knows() {
    assert_the_cost_is_even(20_000).await;
}

/// The bounds are the same: an index of a larger table is one level deeper at most.
#[tokio::test]
#[ignore = "takes minutes: cargo nextest run --run-ignored all -E 'test(of_a_large_table)'"]
async fn the_cost_of_a_row_of_a_large_table_is_the_same() {
    assert_the_cost_is_even(200_000).await;
}
