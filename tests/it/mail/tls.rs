//! STARTTLS and implicit TLS, and whom we do not talk to.

use carillon::channel::email::EmailChannel;
use carillon::channel::smtp::Config;
use carillon::channel::smtp::Tls;

use super::SHORT;
use super::certificates::Authority;
use super::channel;
use super::class;
use super::config;
use super::letterhead;
use super::scripted::Act;
use super::scripted::Encrypt;
use super::scripted::ScriptedRelay;
use super::send;

fn encrypted(port: u16, tls: Tls, authority: Option<&Authority>) -> EmailChannel {
    channel(Config {
        tls,
        ca_file: authority.map(Authority::ca_file),
        ..config(port)
    })
}

#[tokio::test]
async fn a_mail_goes_by_implicit_tls_and_by_starttls() {
    let authority = Authority::new();
    for (tls, encrypt) in [
        (Tls::Implicit, Encrypt::Implicit(authority.acceptor())),
        (Tls::Starttls, Encrypt::OnStarttls(authority.acceptor())),
    ] {
        let relay = ScriptedRelay::start_encrypted(encrypt, |_, _| None).await;
        let report = send(&encrypted(relay.port, tls, Some(&authority))).await;
        assert_eq!(class(&report).0, "accepted", "{tls:?}: {report:?}");
        assert_eq!(relay.seen().messages.len(), 1);
    }
}

#[tokio::test]
async fn a_relay_without_starttls_gets_nothing() {
    let authority = Authority::new();
    let relay = ScriptedRelay::start(|_, _| None).await;
    let report = send(&encrypted(relay.port, Tls::Starttls, Some(&authority))).await;
    assert_eq!(class(&report), ("target", "the relay does not offer STARTTLS"));
    assert_eq!(relay.seen().commands, ["EHLO carillon.test"]);
}

#[tokio::test]
async fn a_certificate_of_somebody_else_is_not_trusted() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let relay = ScriptedRelay::start_encrypted(Encrypt::Implicit(theirs.acceptor()), |_, _| None).await;
    let report = send(&encrypted(relay.port, Tls::Implicit, Some(&ours))).await;
    assert_eq!(class(&report).0, "target");
    assert!(class(&report).1.contains("TLS"), "{report:?}");
}

#[tokio::test]
async fn words_put_in_before_the_handshake_are_not_taken_for_the_relays() {
    let authority = Authority::new();
    let encrypt = Encrypt::OnStarttls(authority.acceptor());
    let injected = Act::Say("220 2.0.0 go ahead\r\n250-relay.test\r\n250 AUTH PLAIN");
    let relay =
        ScriptedRelay::start_encrypted(encrypt, move |_, at| (at == "STARTTLS").then_some(injected)).await;
    let report = send(&encrypted(relay.port, Tls::Starttls, Some(&authority))).await;
    assert_eq!(class(&report).0, "target");
    assert!(class(&report).1.contains("TLS"), "{report:?}");
    assert_eq!(relay.seen().messages.len(), 0);
}

#[tokio::test]
async fn a_relay_that_speaks_no_tls_does_not_hang_the_attempt() {
    let authority = Authority::new();
    let relay = ScriptedRelay::that("GREETING", Act::Stall).await;
    let mut config = Config {
        tls: Tls::Implicit,
        ca_file: Some(authority.ca_file()),
        ..config(relay.port)
    };
    config.timeouts.connect = SHORT;
    assert_eq!(
        class(&send(&channel(config)).await),
        ("target", "timed out at TLS")
    );
}

#[test]
fn a_file_of_authorities_that_holds_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for file in [empty, folder.path().join("missing.pem")] {
        let config = Config {
            tls: Tls::Implicit,
            ca_file: Some(file),
            ..config(465)
        };
        let clock = std::sync::Arc::new(carillon::clock::SystemClock);
        let error = EmailChannel::new(letterhead(), [config], clock)
            .unwrap_err()
            .to_string();
        assert!(error.contains("ca_file"), "{error}");
    }
}
