//! How SQLite carries out our statements. They are taken from the source, so that none is forgotten, and asked for on
//! an empty store: nothing here ever runs ANALYZE, so the plan of a statement is the same however much there is.

use sqlx::Connection;
use sqlx::Row;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteConnectOptions;

use crate::store::Stage;

/// The source as the compiler puts its literals together with the columns of tables.
fn put_together(source: &str, tables: &str) -> String {
    let mut text = String::new();
    let mut rest = source;
    while let Some((before, after)) = rest.split_once("columns!(") {
        let (table, after) = after.split_once(')').expect("a table is named");
        let list = tables.split_once(&format!("({table}) => {{"));
        let list = list.and_then(|(_, list)| list.split('"').nth(1));
        text += before
            .trim_end()
            .strip_suffix("\",")
            .expect("a literal comes before");
        text += list.expect("its columns are listed");
        let after = after.strip_prefix(',').expect("a literal comes after");
        rest = after
            .trim_start()
            .strip_prefix('"')
            .expect("a literal comes after");
    }
    text + rest
}

/// Everything between quotes that opens with a comment that names its verb.
pub fn statements(dialect: &str) -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/store")
        .join(dialect);
    let tables = std::fs::read_to_string(folder.join("tables.rs")).unwrap_or_default();
    let mut statements = Vec::new();
    for file in std::fs::read_dir(folder).expect("the folder is there") {
        let path = file.expect("an entry").path();
        if path.is_dir() {
            // What is only decided there is written by the file of the same name.
            continue;
        }
        let source = std::fs::read_to_string(path).expect("it can be read");
        let source = put_together(&source, &tables);
        // A quote inside of a literal does not end it.
        let source = source.replace("\\\"", "\u{1}");
        let openings = source.match_indices("\"-- ");
        statements.extend(openings.map(|(at, _)| {
            let text = &source[at + 1..];
            text[..text.find('"').expect("a literal ends")].replace('\u{1}', "\"")
        }));
    }
    statements
}

/// What SQLite is going to do, step by step.
async fn plan(conn: &mut SqliteConnection, statement: &str) -> Vec<String> {
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
    let steps = sqlx::query(explain).fetch_all(conn).await;
    let steps = steps.unwrap_or_else(|error| panic!("{error}: {statement}"));
    steps.iter().map(|step| step.get("detail")).collect()
}

async fn all_plans() -> Vec<(String, Vec<String>)> {
    let stage = Stage::new().await;
    let options = SqliteConnectOptions::new().filename(stage.path());
    let mut conn = SqliteConnection::connect_with(&options)
        .await
        .expect("the file opens");
    let mut plans = Vec::new();
    for statement in statements("sqlite") {
        let steps = plan(&mut conn, &statement).await;
        plans.push((statement, steps));
    }
    plans
}

#[tokio::test]
async fn no_statement_reads_a_whole_table() {
    let plans = all_plans().await;
    assert!(plans.len() > 40, "the statements are found: {}", plans.len());

    for (statement, steps) in plans {
        for step in steps {
            let harmless = [
                // A list we passed ourselves, and what was read from an index just before.
                "SCAN j VIRTUAL TABLE",
                "SCAN json_each VIRTUAL TABLE",
                "SCAN head",
                // One row.
                "SCAN store_epoch",
                // One row for each node, and one for each migration.
                "SCAN session",
                "SCAN dead",
                // A thousand tokens at the most, for whoever makes or lists them.
                "SCAN access_token",
                "SCAN _sqlx_migrations",
                "SCAN sqlite_schema",
                // Those that are marked, and no others: the index is partial.
                "SCAN owner USING INDEX owner_to_plan",
                // The head of an index, up to a limit.
                "SCAN alarm_trigger USING COVERING INDEX alarm_trigger_due",
                "SCAN CONSTANT ROW",
            ];
            let reads_all = step.starts_with("SCAN") && !harmless.iter().any(|known| step.starts_with(known));
            assert!(!reads_all, "{step}: {statement}");
        }
    }
}

#[tokio::test]
async fn what_awaits_too_long_is_found_by_its_deadline() {
    let plans = all_plans().await;
    let named = |(statement, _): &&(String, _)| statement.starts_with("-- time_out\n");
    let (_, steps) = plans.iter().find(named).expect("there is one");
    let walks = "SEARCH delivery USING COVERING INDEX delivery_awaiting (await_until<?)";
    assert!(steps.iter().any(|step| step == walks), "{steps:?}");
    assert!(
        !steps.iter().any(|step| step.contains("TEMP B-TREE")),
        "{steps:?}"
    );
}

#[tokio::test]
async fn repeated_scans_walk_the_head_of_the_due_index_and_sort_nothing() {
    let plans = all_plans().await;
    for verb in [
        "claim_due",
        "next_free_due",
        "held_by",
        "rescue",
        "backlog",
        "take_over",
        "give_back",
    ] {
        let (_, steps) = plans
            .iter()
            .find(|(statement, _)| statement.starts_with(&format!("-- {verb}\n")))
            .unwrap_or_else(|| panic!("there is a statement {verb}"));
        let walks = |step: &String| step.contains("alarm_trigger_due (") && step.starts_with("SEARCH");
        assert!(steps.iter().any(walks), "{verb}: {steps:?}");
        let sorts = steps.iter().any(|step| step.contains("TEMP B-TREE FOR ORDER BY"));
        assert!(!sorts, "{verb}: {steps:?}");
    }
}
