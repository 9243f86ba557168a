//! Where calls may go: no literal, name, redirect or change of mind leads inside.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use carillon::channel::webhook::Lookup;
use carillon::channel::webhook::WebhookChannel;
use carillon::clock::SystemClock;

use super::channel_that_finds;
use super::class;
use super::config;
use super::send;
use crate::harness::hook::Conduct;
use crate::harness::hook::Hook;

/// Spellings of this machine that get past those who look at text, or that no resolver is ever asked for.
fn spellings(port: u16) -> Vec<String> {
    let hosts = [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "017700000001",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
    ];
    let schemes = ["http", "https"];
    hosts
        .iter()
        .flat_map(|host| schemes.map(|scheme| format!("{scheme}://{host}:{port}/hook")))
        .collect()
}

#[tokio::test]
async fn no_spelling_of_this_machine_is_connected_to() {
    let hook = Hook::start([]).await;
    let channel = channel_that_finds(config(&[]), &["8.8.8.8"]);
    for url in spellings(hook.port) {
        let report = send(&channel, &url).await;
        assert_eq!(class(&report).0, "permanent", "{url}: {report:?}");
    }
    assert_eq!(hook.connections(), 0);
}

#[tokio::test]
async fn no_name_leads_inside() {
    let hook = Hook::start([]).await;
    for inside in [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "fd00:ec2::254",
    ] {
        let channel = channel_that_finds(config(&[]), &[inside]);
        let url = format!("https://hooks.example.org:{}/hook", hook.port);
        let report = send(&channel, &url).await;
        assert_eq!(class(&report).0, "permanent", "{inside}: {report:?}");
        assert!(class(&report).1.contains("allow_networks"), "{report:?}");
    }
    assert_eq!(hook.connections(), 0);
}

#[tokio::test]
async fn of_several_addresses_only_those_that_are_admitted_are_tried() {
    let hook = Hook::start([]).await;
    // 127.0.0.2 is this machine, too: the hook would be reached by it, were it not sorted out.
    let channel = channel_that_finds(config(&["127.0.0.1"]), &["127.0.0.2", "::1", "10.0.0.1"]);
    let url = format!("http://hooks.example.org:{}/hook", hook.port);
    assert_eq!(class(&send(&channel, &url).await).0, "permanent");
    assert_eq!(hook.connections(), 0);

    let mixed = channel_that_finds(config(&["127.0.0.1"]), &["10.0.0.1", "127.0.0.1"]);
    assert_eq!(class(&send(&mixed, &url).await).0, "accepted");
    assert_eq!(
        hook.calls()[0].headers["host"],
        format!("hooks.example.org:{}", hook.port)
    );
}

/// A name that is one thing when it is looked at and another when it is called.
#[tokio::test]
async fn a_name_that_changes_its_mind_leads_nowhere() {
    let hook = Hook::start([]).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let turncoat: Lookup = Arc::new(move |_| {
        let first = counted.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
        let address: IpAddr = if first { "127.0.0.1" } else { "127.0.0.2" }
            .parse()
            .expect("an address");
        Box::pin(async move { Ok(vec![address]) })
    });
    let channel = WebhookChannel::new(config(&["127.0.0.1"]), None, &turncoat, Arc::new(SystemClock))
        .expect("it can be set up");
    let url = |port: u16| format!("http://hooks.example.org:{port}/hook");

    assert_eq!(class(&send(&channel, &url(hook.port)).await).0, "accepted");
    assert_eq!(asked.load(Ordering::SeqCst), 1, "one connection, one question");
    // Another port of the same name: a connection of its own, and by now the name means another machine.
    let other = Hook::start([]).await;
    let report = send(&channel, &url(other.port)).await;
    assert_eq!(class(&report).0, "permanent", "{report:?}");
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let inside = Hook::start([]).await;
    for status in [301, 302, 303, 307, 308] {
        let location = vec![format!("location: {}", inside.url())];
        let outside = Hook::start([Conduct::Answer(status, location, String::new())]).await;
        let channel = channel_that_finds(config(&["127.0.0.1"]), &["127.0.0.1"]);
        let report = send(&channel, &outside.url()).await;
        assert_eq!(class(&report).0, "permanent", "{status}: {report:?}");
    }
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn what_is_public_is_not_called_in_the_clear() {
    let channel = channel_that_finds(config(&["10.0.0.0/8"]), &["93.184.215.14"]);
    let report = send(&channel, "http://hooks.example.org/hook").await;
    assert_eq!(class(&report).0, "permanent", "{report:?}");
}
