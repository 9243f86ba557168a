//! A reminder answered from its mail, with the real binary.

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use mail_parser::MessageParser;
use reqwest::StatusCode;

use crate::harness::api::items;
use crate::harness::calendar::Calendar;
use crate::harness::client::client;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::postgres::Postgres;
use crate::harness::whole_second_in;

async fn start(home: Home) -> Node {
    let public = format!("http://127.0.0.1:{}", home.port);
    home.with("HTTP__PUBLIC_URL", &public).start_with_owner().await
}

/// The newest mail in the outbox: its text, and its HTML.
async fn newest(node: &Node) -> (String, String) {
    let raw = items(&node.get("/v1/outbox").await.ok()).remove(0)["raw"].clone();
    let raw = raw.as_str().expect("text").to_owned();
    let mail = MessageParser::default().parse(raw.as_bytes()).expect("a mail");
    let part = |body: Option<std::borrow::Cow<'_, str>>| body.expect("a part").into_owned();
    let html = part(mail.body_html(0)).replace("&#x2f;", "/");
    (part(mail.body_text(0)), html)
}

/// The link of an act in the text of a mail.
fn link(text: &str, act: &str) -> String {
    let words = text
        .split_whitespace()
        .map(|word| word.trim_matches(|it: char| !it.is_ascii()));
    let mut links = words.filter(|word| word.contains("/answer/"));
    let found = links.find(|word| word.ends_with(&format!("?act={act}")));
    found
        .unwrap_or_else(|| panic!("no link to {act} in {text}"))
        .to_owned()
}

/// Follows the link and presses its button.
async fn press(link: &str, act: &str) -> String {
    let page = client().get(link).send().await.expect("the node answers");
    assert_eq!(page.status(), StatusCode::OK);
    let page = page.text().await.expect("a page");
    let (_, rest) = page.split_once("name=\"key\" value=\"").expect("a form");
    let key = rest.split('"').next().expect("its key");
    let posted = client()
        .post(link)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("key={key}&act={act}"))
        .send()
        .await
        .expect("the node answers");
    assert_eq!(posted.status(), StatusCode::OK);
    posted.text().await.expect("a page")
}

fn instants(rows: &[serde_json::Value]) -> Vec<DateTime<Utc>> {
    let mut instants: Vec<_> = rows
        .iter()
        .map(|row| {
            row["trigger_at"]
                .as_str()
                .expect("an instant")
                .parse()
                .expect("RFC 3339")
        })
        .collect();
    instants.sort();
    instants
}

/// From the mail to the page, and through a crash to the next mail.
async fn put_off_until_the_start(home: Home) {
    let mut node = start(home).await;
    let due = whole_second_in(2);
    let start = due + TimeDelta::seconds(8);
    let event = Calendar::starting("budget@example.org", start).alarm("TRIGGER:-PT8S");
    node.put_event("budget", &event).await.ok();
    node.certain_history_of(1).await;
    let (text, html) = newest(&node).await;
    for act in [
        "acknowledge",
        "snooze-10m",
        "snooze-1h",
        "snooze-until-start",
        "mute",
    ] {
        assert!(html.contains(&link(&text, act)), "{act} in {html}");
    }

    let until = link(&text, "snooze-until-start");
    let said = press(&until, "snooze-until-start").await;
    assert!(said.contains("You will be reminded again"), "{said}");
    node.kill();
    node.start_again().await;
    press(&until, "snooze-until-start").await;
    let history = node.certain_history_of(2).await;

    assert_eq!(instants(&history), [due, start]);
    let (text, _) = newest(&node).await;
    assert!(
        text.contains("Starts now: Budget round") || text.contains("Started"),
        "{text}"
    );
    let said = press(&link(&text, "acknowledge"), "acknowledge").await;
    assert!(
        said.contains("marked as done") && said.contains("No further reminder"),
        "{said}"
    );
    assert_eq!(node.history().await.len(), 2);
    assert!(node.triggers("budget").await.is_empty());
}

#[tokio::test]
async fn a_reminder_is_put_off_until_the_start_on_sqlite() {
    put_off_until_the_start(Home::new()).await;
}

#[tokio::test]
async fn a_reminder_is_put_off_until_the_start_on_postgres() {
    let server = Postgres::start().await;
    let database = server.database().await;
    put_off_until_the_start(Home::new().in_cluster(&database)).await;
}

#[tokio::test]
async fn without_an_address_or_by_choice_mails_have_no_links() {
    for home in [
        Home::new(),
        Home::new()
            .with("HTTP__PUBLIC_URL", "https://reminders.example.org")
            .with("CHANNELS__EMAIL__ANSWER_LINKS", "false"),
    ] {
        let node = home.start_with_owner().await;
        let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(1));
        node.put_event("budget", &event).await.ok();
        node.certain_history_of(1).await;
        let (text, html) = newest(&node).await;
        assert!(text.contains("Budget round"));
        assert!(!text.contains("/answer/") && !html.contains("/answer/"));
    }
}

async fn opens(link: &str) -> StatusCode {
    client()
        .get(link)
        .send()
        .await
        .expect("the node answers")
        .status()
}

/// A link of a new reminder, whose event has this key.
async fn fresh_link(node: &Node, key: &str, number: usize) -> String {
    let event = Calendar::far_away(key).alarm_at(whole_second_in(2));
    node.put_event(key, &event).await.ok();
    node.history_of(number).await;
    link(&newest(node).await.0, "mute")
}

async fn put_anna(node: &Node, email: &str, enabled: bool) {
    let owner = serde_json::json!({ "email": email, "time_zone": "Europe/Berlin", "enabled": enabled });
    node.put("/v1/owners/anna", "application/json", owner.to_string())
        .await
        .ok();
}

async fn links_die_with_the_address_and_when_the_owner_is_disabled(home: Home) {
    let node = start(home).await;
    put_anna(&node, "anna@example.org", true).await;
    let first = fresh_link(&node, "first", 1).await;
    put_anna(&node, "anna@example.org", true).await;
    assert_eq!(
        opens(&first).await,
        StatusCode::OK,
        "nothing that matters changed"
    );

    put_anna(&node, "anna.new@example.org", true).await;
    assert_eq!(opens(&first).await, StatusCode::NOT_FOUND);
    put_anna(&node, "anna@example.org", true).await;
    assert_eq!(
        opens(&first).await,
        StatusCode::NOT_FOUND,
        "a dead link stays dead"
    );

    let second = fresh_link(&node, "second", 2).await;
    assert_eq!(opens(&second).await, StatusCode::OK);
    for enabled in [false, true] {
        put_anna(&node, "anna@example.org", enabled).await;
        assert_eq!(opens(&second).await, StatusCode::NOT_FOUND, "enabled: {enabled}");
    }
}

#[tokio::test]
async fn links_die_with_the_address_and_when_the_owner_is_disabled_on_sqlite() {
    links_die_with_the_address_and_when_the_owner_is_disabled(Home::new()).await;
}

#[tokio::test]
async fn links_die_with_the_address_and_when_the_owner_is_disabled_on_postgres() {
    let server = Postgres::start().await;
    let database = server.database().await;
    links_die_with_the_address_and_when_the_owner_is_disabled(Home::new().in_cluster(&database)).await;
}

fn rotate(node: &Node, keep: &str) -> String {
    let done = node.home.command(&["secrets", "rotate", "--keep", keep]).output();
    let done = done.expect("it runs");
    assert!(done.status.success(), "{done:?}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[tokio::test]
async fn rotated_secret_keeps_links_for_a_while_and_then_kills_them() {
    let node = start(Home::new()).await;
    let first = fresh_link(&node, "first", 1).await;

    let said = rotate(&node, "24h");
    assert!(said.contains("are good until"), "{said}");
    assert_eq!(opens(&first).await, StatusCode::OK);
    let second = fresh_link(&node, "second", 2).await;
    assert_eq!(opens(&second).await, StatusCode::OK);

    rotate(&node, "0s");
    assert_eq!(opens(&first).await, StatusCode::NOT_FOUND);
    assert_eq!(opens(&second).await, StatusCode::NOT_FOUND);
    let third = fresh_link(&node, "third", 3).await;
    assert_eq!(opens(&third).await, StatusCode::OK);
    let refused = node
        .home
        .command(&["secrets", "rotate", "--keep", "soon"])
        .output();
    let refused = String::from_utf8_lossy(&refused.expect("it runs").stderr).into_owned();
    assert!(refused.contains("`soon`"), "{refused}");
}

#[tokio::test]
async fn other_nodes_follow_a_rotation_without_restart() {
    let server = Postgres::start().await;
    let database = server.database().await;
    let sender = start(Home::new().in_cluster(&database)).await;
    let other = Home::new().with("WORKER__ENABLED", "false").in_cluster(&database);
    let other = other.start().await;
    let here = |link: &str| {
        let (_, path) = link.split_once("/answer/").expect("a link");
        other.url(&format!("/answer/{path}"))
    };
    let first = fresh_link(&sender, "first", 1).await;
    assert_eq!(opens(&here(&first)).await, StatusCode::OK);

    rotate(&other, "0s");

    assert_eq!(opens(&first).await, StatusCode::NOT_FOUND);
    // The sender makes links under the new secret within seconds.
    crate::harness::eventually("a good link", async || {
        let number = sender.history().await.len() + 1;
        let link = fresh_link(&sender, &format!("e{number}"), number).await;
        let status = opens(&here(&link)).await;
        (status == StatusCode::OK).then_some(())
    })
    .await;
}
