//! Two versions at once: while nodes are replaced one by one, those of the old version work on the schema of the new one.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use carillon::store::AlarmQuery;
use carillon::store::AlarmStatus;
use carillon::store::AttemptEnd;
use carillon::store::HistoryQuery;
use carillon::store::KeptMessage;
use carillon::store::Noted;
use carillon::store::Notice;
use carillon::store::Report;
use carillon::store::Retention;
use carillon::store::Settled;
use carillon::store::Store;
use carillon::store::StoreError;
use carillon::store::Verdict;
use carillon::store::postgres::Options;
use carillon::store::postgres::PostgresStore;
use carillon::trigger::AlarmId;
use carillon::trigger::AttemptToken;
use carillon::trigger::OwnerId;
use carillon::trigger::SessionId;
use carillon::trigger::TriggerId;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reported;
use sqlx::Connection;
use sqlx::PgConnection;
use sqlx::Row;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteConnectOptions;

use crate::store::Base;
use crate::store::Prepared;
use crate::store::Stage;
use crate::store::going_on;
use crate::store::key;
use crate::store::minute;
use crate::store::new;
use crate::store::owner;
use crate::store::planning;
use crate::store::plans::statements;
use crate::store::put;
use crate::store::races::another_of;
use crate::store::retry;
use crate::store::rules;
use crate::store::sent;

/// The tables of the store on PostgreSQL.
async fn tables(url: &str) -> Vec<String> {
    let mut conn = PgConnection::connect(url).await.expect("it answers");
    let tables = sqlx::query_scalar(
        "SELECT tablename::text FROM pg_tables
         WHERE schemaname = 'public' AND tablename <> '_sqlx_migrations' ORDER BY 1",
    );
    tables.fetch_all(&mut conn).await.expect("a list")
}

/// A newer version adds a column to every table.
async fn widen(stage: &Stage, column: &str) {
    for table in tables(stage.url()).await {
        stage
            .damage(&format!("ALTER TABLE {table} ADD COLUMN {column} TEXT"))
            .await;
    }
}

/// Leads one event from its change into history, and asks for everything on the way.
async fn lead(store: &dyn Store, session: SessionId, uid: &str) {
    people(store, session).await;
    change(store, uid).await;
    fire(store, session).await;
    look_back(store, new(uid, 0).id()).await;
    ask_for_alarms(store).await;
    keep_house(store).await;
}

fn ada() -> OwnerId {
    OwnerId("ada".into())
}

async fn people(store: &dyn Store, session: SessionId) {
    store.put_owner(&owner("ada")).await.expect("it is stored");
    assert_eq!(store.owner(&ada()).await.expect("it is read"), Some(owner("ada")));
    assert!(store.owners_to_plan(10).await.expect("a list").is_empty());
    assert!(store.beat(session, Report::default()).await.expect("it lives"));
    let found = store.access_token(&[7; 32]).await;
    assert_eq!(found.expect("it is read"), None);
    assert!(store.access_tokens().await.expect("a list").is_empty());
    let living = store.living(Duration::from_secs(5)).await;
    assert!(!living.expect("a list").is_empty());
}

async fn change(store: &dyn Store, uid: &str) {
    let editor = Prepared::with(uid, planning(&[new(uid, 0)]));
    let changed = store.change(&[put(uid)], &editor, None).await;
    let changed = changed.expect("it is applied");
    assert_eq!(changed[0].as_ref().expect("it is taken").planned, 1);
    let again = Prepared::all([]);
    let changed = store.change(&[put(uid)], &again, None).await;
    changed.expect("it is applied");
    let edited = store.edit_groups(Some(&ada()), None, 10, &again, None).await;
    edited.expect("they are edited");
    assert!(store.copy(&key(uid)).await.expect("it is read").is_some());
    let holders = store.holders("work", uid, None, 9).await;
    assert_eq!(holders.expect("a list"), [ada()]);
    let group = store.group(&ada(), uid).await.expect("it is read");
    let group = group.expect("it is there");
    let found = (group.copies.len(), group.alarms.len(), group.triggers.len());
    assert_eq!(found, (1, 1, 1));
}

/// The first attempt is repeated.
async fn fire(store: &dyn Store, session: SessionId) {
    let claims = store.claim_due(session, minute(9), None, 10).await;
    let claims = claims.expect("a page");
    assert_eq!(claims.len(), 1);
    let held = store.held_by(session, minute(9), None, 10).await;
    assert_eq!(held.expect("a page"), claims);
    let mut last = sent(claims[0], 7);
    if let AttemptEnd::Done { kept, .. } = &mut last.end {
        *kept = Some(KeptMessage {
            to: "ada@example.org".into(),
            subject: "Tea".into(),
            text: "Tea".into(),
            raw: "Subject: Tea".into(),
        });
    }
    let judge = going_on(Verdict::Send, 100_000);
    for end in [retry(claims[0], 7, 0, true), last] {
        let retries = matches!(end.end, AttemptEnd::Retry { .. });
        let (token, near) = (AttemptToken(7), Duration::ZERO);
        let checked = store.fire_check(session, &claims, token, &judge, near).await;
        assert_eq!(checked.expect("an answer").granted.len(), 1);
        let settled = store.settle(&[end]).await.expect("it is settled");
        assert_eq!(matches!(settled[..], [Settled::Retrying(_)]), retries);
        assert_eq!(settled == [Settled::Recorded], !retries);
    }
    let next = store.next_free_due(minute(9)).await;
    assert!(next.expect("an answer").is_some(), "its series goes on");
}

async fn look_back(store: &dyn Store, id: TriggerId) {
    let delivery = store.delivery(id).await.expect("it is read");
    assert_eq!(delivery.expect("it is there").outcome, Outcome::Sent);
    for owner in [None, Some(ada())] {
        let outbox = store.outbox(owner.as_ref(), None, 10).await;
        assert!(outbox.expect("a list").iter().any(|entry| entry.id == id));
        let query = HistoryQuery {
            owner,
            limit: 10,
            ..HistoryQuery::default()
        };
        let history = store.history(&query).await.expect("a list");
        assert!(history.iter().any(|row| row.id == id));
    }
    let delivered = Notice {
        id,
        reported: Reported::Delivered,
        detail: String::new(),
    };
    for is_news in [true, false] {
        let noted = store.report(std::slice::from_ref(&delivered)).await;
        let noted = noted.expect("it is taken");
        assert_eq!(matches!(noted[..], [Noted::Recorded { .. }]), is_news);
    }
}

/// There is none, and that is read.
async fn ask_for_alarms(store: &dyn Store) {
    let id = AlarmId(format!("{:032x}", 1));
    assert_eq!(store.alarm(&ada(), &id).await.expect("it is read"), None);
    for status in [None, Some(AlarmStatus::Active)] {
        let query = AlarmQuery {
            owner: ada(),
            status,
            after: None,
            limit: 9,
        };
        assert!(store.alarms(&query).await.expect("a list").is_empty());
    }
    assert!(store.alarm_counts(&ada()).await.expect("a list").is_empty());
    assert!(store.firing_counts(&ada()).await.expect("a list").is_empty());
    let changes = store.alarm_changes(&ada(), 0, 9).await;
    assert!(changes.expect("a list").is_empty());
    assert!(store.last_changes(&[ada()]).await.expect("a list").is_empty());
}

async fn keep_house(store: &dyn Store) {
    store.rescue(&rules(), 10).await.expect("a rescue");
    store.backlog(minute(9), 10).await.expect("it is counted");
    let remembered = store.remember("zone data", "2026f").await;
    remembered.expect("it is remembered");
    assert!(store.remembered("zone data").await.expect("it is read").is_some());
    let first = store.remember_first("secret", "s").await;
    assert_eq!(first.expect("it is remembered"), "s");
    assert!(store.time_out(10).await.expect("a sweep").is_empty());
    let nothing = Retention {
        history_before: minute(-9),
        tombstones_before: minute(-9),
        limit: 10,
    };
    store.purge(&nothing).await.expect("nothing is old");
}

#[tokio::test]
async fn a_node_goes_on_while_a_newer_version_adds_columns_to_every_table() {
    let stage = Stage::on(&Base::postgres().await).await;
    // One connection, which remembers every statement.
    let store = another_of(&stage, 1).await;
    lead(store.as_ref(), stage.session, "before").await;
    widen(&stage, "of_tomorrow").await;
    lead(store.as_ref(), stage.session, "meanwhile").await;
    widen(&stage, "of_the_day_after").await;
    lead(store.as_ref(), stage.session, "after").await;
    assert_eq!(store.repeats(), 0, "nothing was interrupted by it");

    let anew = another_of(&stage, 1).await;
    let (session, _) = anew.begin_session("node-a", &rules()).await.expect("a session");
    lead(anew.as_ref(), session, "anew").await;
    let number = anew.register("a:1").await.expect("a number");
    anew.found_or_get(number).await.expect("a charter");
    assert_eq!(anew.peers().await.expect("a list").len(), 1);
    widen(&stage, "of_next_week").await;
    anew.found_or_get(number).await.expect("a charter");
    anew.seen(number, "a:2").await.expect("it is noted");
    assert_eq!(anew.peers().await.expect("a list"), [(number, "a:2".to_owned())]);
    lead(anew.as_ref(), session, "and on").await;
    assert_eq!(anew.repeats(), 0);
}

#[test]
fn no_statement_asks_for_all_columns() {
    let statements = statements("postgres");
    assert!(statements.len() > 80, "they are found: {}", statements.len());
    for statement in statements {
        // What we pass ourselves is what we know; and what is multiplied is followed by a number.
        let asked = statement.replace("SELECT * FROM unnest(", "") + " FROM";
        let words: Vec<&str> = asked.split_whitespace().collect();
        for pair in words.windows(2) {
            let all = pair[0].trim_end_matches(',');
            let is_all = all.ends_with(".*") || (all == "*" && (pair[1] == "FROM" || all != pair[0]));
            assert!(!is_all, "{statement}");
        }
    }
}

#[tokio::test]
async fn a_plan_that_is_no_longer_good_is_made_anew() {
    let stage = Stage::on(&Base::postgres().await).await;
    let store = another_of(&stage, 1).await;
    store.remember("a", "b").await.expect("it is remembered");
    store.remembered("a").await.expect("it is read");
    stage
        .damage("ALTER TABLE memory ALTER COLUMN value TYPE varchar")
        .await;

    let read = store.remembered("a").await;

    assert_eq!(read.expect("it is read").as_deref(), Some("b"));
    assert_eq!(store.repeats(), 1);
}

#[tokio::test]
async fn a_newer_schema_is_refused_on_postgresql_and_left_alone() {
    let stage = Stage::on(&Base::postgres().await).await;
    stage
        .damage("INSERT INTO _sqlx_migrations VALUES (99, 'from tomorrow', now(), true, '\\x00', 0)")
        .await;

    let refused = PostgresStore::open(stage.url(), Options::default()).await;

    let refused = refused.expect_err("the schema is newer");
    assert!(
        matches!(refused, StoreError::NewerSchema { found: 99, .. }),
        "{refused:?}"
    );
    stage.plan("e", &[new("e", 1)]).await;
}

/// The migrations of a dialect, by name.
fn migrations(dialect: &str) -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("migrations")
        .join(dialect);
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let read = |path: &Path| std::fs::read_to_string(path).expect("it can be read");
    files
        .map(|file| file.expect("an entry"))
        .map(|file| {
            (
                file.file_name().into_string().expect("a plain name"),
                read(&file.path()),
            )
        })
        .collect()
}

#[test]
fn both_databases_have_the_same_migrations_numbered_without_a_gap() {
    let names: Vec<String> = migrations("postgres").into_keys().collect();

    assert_eq!(names, migrations("sqlite").into_keys().collect::<Vec<_>>());
    for (at, name) in names.iter().enumerate() {
        assert!(name.starts_with(&format!("{:04}_", at + 1)), "{name}");
    }
}

/// Why a statement of a migration cannot be carried out while nodes of the version before it are at work.
fn breaks(statement: &str) -> Option<&'static str> {
    let words: Vec<String> = statement
        .to_uppercase()
        .split(|it: char| !it.is_alphanumeric() && it != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    let has = |phrase: &[&str]| words.windows(phrase.len()).any(|window| window == phrase);
    let alters = words.starts_with(&["ALTER".to_owned()]);
    // No node names a trigger of the database: one that is replaced goes on at once for nodes of either version.
    let replaces = words.starts_with(&["DROP".to_owned(), "TRIGGER".to_owned()]);
    match () {
        () if replaces => None,
        () if has(&["DROP"]) => Some("takes away what the old version may use"),
        () if has(&["RENAME"]) => Some("takes away the name that the old version uses"),
        () if alters && (has(&["TYPE"]) || has(&["ALTER", "COLUMN"])) => {
            Some("changes what the old version reads")
        }
        () if alters && has(&["CONSTRAINT"]) || has(&["UNIQUE", "INDEX"]) => {
            Some("refuses what the old version writes")
        }
        () if alters && has(&["NOT", "NULL"]) && !has(&["DEFAULT"]) => {
            Some("wants what the old version does not write")
        }
        () => None,
    }
}

#[test]
fn migrations_after_the_first_only_add() {
    for dialect in ["postgres", "sqlite"] {
        for (name, text) in migrations(dialect).into_iter().skip(1) {
            let lines = text
                .lines()
                .map(|line| line.split("--").next().unwrap_or_default());
            let text = lines.collect::<Vec<_>>().join("\n");
            for statement in text.split(';') {
                assert_eq!(breaks(statement), None, "{dialect}/{name}: {statement}");
            }
        }
    }
}

#[test]
fn what_only_adds_is_told_from_what_breaks() {
    for harmless in [
        "ALTER TABLE owner ADD COLUMN a TEXT",
        "ALTER TABLE owner ADD COLUMN a BIGINT NOT NULL DEFAULT 0",
        "CREATE TABLE a (b TEXT NOT NULL)",
        "CREATE INDEX a ON owner (id)",
        "DROP TRIGGER a ON owner",
    ] {
        assert_eq!(breaks(harmless), None, "{harmless}");
    }
    for breaking in [
        "DROP TABLE owner",
        "alter table owner drop column id",
        "ALTER TABLE owner RENAME COLUMN id TO name",
        "ALTER TABLE owner ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE owner ALTER id TYPE BIGINT",
        "ALTER TABLE owner ADD COLUMN a TEXT NOT NULL",
        "ALTER TABLE owner ADD CONSTRAINT a CHECK (id <> '')",
        "CREATE UNIQUE INDEX a ON owner (email)",
    ] {
        assert!(breaks(breaking).is_some(), "{breaking}");
    }
}

/// A column: its table, its name, its type in the words of SQLite, and whether it may be empty.
type Column = (String, String, String, bool);

/// How SQLite, which knows four types, writes those of PostgreSQL: an instant is milliseconds since 1970, yes is 1.
const TYPES: [(&str, &str); 6] = [
    ("text", "TEXT"),
    ("bytea", "BLOB"),
    ("bigint", "INTEGER"),
    ("boolean", "INTEGER"),
    ("timestamp with time zone", "INTEGER"),
    ("uuid", "TEXT"),
];

/// Tables of a cluster, which SQLite has none of.
const OF_A_CLUSTER: [&str; 4] = ["raft_cluster", "raft_node", "leader_epoch", "alarm_owner"];

async fn on_postgresql() -> BTreeSet<Column> {
    let stage = Stage::on(&Base::postgres().await).await;
    let mut conn = PgConnection::connect(stage.url()).await.expect("it answers");
    let rows = sqlx::query(
        "SELECT table_name::text, column_name::text, data_type::text, is_nullable = 'YES' AS empty
         FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> '_sqlx_migrations'",
    )
    .fetch_all(&mut conn)
    .await
    .expect("a list");
    let types = BTreeMap::from(TYPES);
    let column = |row: &sqlx::postgres::PgRow| {
        let kind: String = row.get("data_type");
        let kind = types
            .get(kind.as_str())
            .unwrap_or_else(|| panic!("{kind} has a twin in SQLite"));
        (
            row.get("table_name"),
            row.get("column_name"),
            (*kind).to_owned(),
            row.get("empty"),
        )
    };
    rows.iter().map(column).collect()
}

async fn on_sqlite() -> BTreeSet<Column> {
    let stage = Stage::new().await;
    let options = SqliteConnectOptions::new().filename(stage.path());
    let mut conn = SqliteConnection::connect_with(&options)
        .await
        .expect("the file opens");
    let rows = sqlx::query(
        "SELECT s.name AS of, c.name, c.type, c.\"notnull\" = 0 AND c.pk = 0 AS empty
         FROM sqlite_schema AS s JOIN pragma_table_info(s.name) AS c
         WHERE s.type = 'table' AND s.name NOT LIKE 'sqlite_%' AND s.name <> '_sqlx_migrations'",
    )
    .fetch_all(&mut conn)
    .await
    .expect("a list");
    rows.iter()
        .map(|row| (row.get("of"), row.get("name"), row.get("type"), row.get("empty")))
        .collect()
}

#[tokio::test]
async fn both_databases_have_the_same_tables_and_columns_but_for_those_of_a_cluster() {
    let mut postgresql = on_postgresql().await;
    postgresql.retain(|(table, ..)| !OF_A_CLUSTER.contains(&table.as_str()));
    let sqlite = on_sqlite().await;

    assert!(sqlite.len() > 60, "they are found: {}", sqlite.len());
    let differences: Vec<_> = postgresql.symmetric_difference(&sqlite).collect();
    assert!(differences.is_empty(), "{differences:#?}");
}
