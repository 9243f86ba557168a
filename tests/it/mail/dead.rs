//! Addresses to which no mail can go, with the real binary.

use serde_json::Value;

use crate::harness::api::OWNER;
use crate::harness::calendar::Calendar;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::sink::Manners;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

/// Lets an event fire and returns what became of it, the newest of so many rows.
async fn fired(node: &Node, key: &str, rows: usize) -> Value {
    let event = Calendar::far_away(key).alarm_at(whole_second_in(2));
    node.put_event(key, &event).await.ok();
    node.history_of(rows).await.remove(0)
}

async fn owner(node: &Node) -> Value {
    node.get(&format!("/v1/owners/{OWNER}")).await.ok()
}

/// A relay that says once that there is no such mailbox.
async fn forgetful() -> Sink {
    let sink = Sink::start().await;
    sink.be(Manners::Refuse {
        times: 1,
        reply: "550 5.1.1 no such user",
    });
    sink
}

#[tokio::test]
async fn nothing_is_sent_to_a_dead_address_until_its_owner_is_put_again() {
    let sink = forgetful().await;
    let node = Home::new().with_relay(sink.port).start_with_owner().await;
    let refused = fired(&node, "one@example.org", 1).await;
    assert_eq!(
        (&refused["outcome"], &refused["reason"]),
        (&"failed".into(), &"refused".into())
    );
    let known = owner(&node).await;
    assert_eq!(
        known["email_dead"]["says"], "refused at RCPT TO: 550 5.1.1 no such user",
        "{known}"
    );

    let suppressed = fired(&node, "two@example.org", 2).await;

    assert_eq!(suppressed["outcome"], "suppressed", "{suppressed}");
    assert_eq!(suppressed["reason"], "dead address", "{suppressed}");
    assert_eq!(suppressed["attempts"], 0, "{suppressed}");
    // What is told of the owner may be put back as it is, without its id.
    let mut again = owner(&node).await;
    again.as_object_mut().expect("it is an object").remove("id");
    let path = format!("/v1/owners/{OWNER}");
    let put = node.put(&path, "application/json", again.to_string()).await.ok();
    assert_eq!(put["email_dead"], Value::Null, "{put}");
    assert_eq!(fired(&node, "three@example.org", 3).await["outcome"], "sent");
    assert_eq!(sink.log().mails.len(), 1);
}

#[tokio::test]
async fn a_dead_address_is_tried_again_after_a_while() {
    let sink = forgetful().await;
    let home = Home::new().with_relay(sink.port);
    let home = home.with("CHANNELS__EMAIL__SUPPRESS_FOR", "100ms");
    let node = home.start_with_owner().await;
    assert_eq!(fired(&node, "one@example.org", 1).await["outcome"], "failed");

    assert_eq!(fired(&node, "two@example.org", 2).await["outcome"], "sent");
}
