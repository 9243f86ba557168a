//! DKIM through the real binary, checked by others: openssl, over canonical forms that the test makes by itself.

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::harness::calendar::Calendar;
use crate::harness::node::Home;
use crate::harness::sink::Mail;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

/// Runs openssl in `folder`. Returns whether it succeeded, and what it wrote.
fn openssl(folder: &Path, arguments: &str) -> (bool, Vec<u8>) {
    let output = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(folder)
        .output()
        .expect("openssl is installed");
    (output.status.success(), output.stdout)
}

fn make_key(folder: &Path, kind: &str) {
    let made = openssl(folder, &format!("genpkey -algorithm {kind} -out dkim.key")).0;
    assert!(made && openssl(folder, "pkey -in dkim.key -pubout -out dkim.pub").0);
}

/// A mail that a node sent with this key.
async fn signed_mail(home: Home) -> Mail {
    let sink = Sink::start().await;
    let home = home.with_relay(sink.port).with_file(
        "[channels.email.dkim]\ndomain = \"carillon.test\"\nselector = \"s1\"\nkey_file = \"dkim.key\"\n",
    );
    let node = home.start_with_owner().await;
    let event = Calendar::far_away("budget@example.org")
        .named(
            "Größe  with   spaces, and so long that the subject is folded into several lines of the header",
        )
        .alarm_at(whole_second_in(3));
    node.put_event("budget", &event).await.ok();
    sink.mails(1).await.remove(0)
}

/// The fields of a header, unfolded, by their names in small letters.
fn fields(head: &str) -> Vec<(String, String)> {
    let unfolded = head.replace("\n ", " ").replace("\n\t", " ");
    let fields = unfolded.lines().map(|line| {
        let (name, value) = line.split_once(':').expect("a field has a name");
        let words: Vec<&str> = value.split_ascii_whitespace().collect();
        (name.to_ascii_lowercase(), words.join(" "))
    });
    fields.collect()
}

/// What a receiver hashes and checks: the body's relaxed form, the signed text, and the tags of the signature.
struct Read {
    body: String,
    text: String,
    tags: Vec<(String, String)>,
}

impl Read {
    fn of(raw: &str) -> Self {
        let (head, body) = raw.split_once("\n\n").expect("the header ends");
        let fields = fields(head);
        let (name, signature) = &fields[0];
        assert_eq!(name, "dkim-signature");
        let tags: Vec<(String, String)> = signature
            .split(';')
            .map(|tag| tag.split_once('=').expect("a tag has a value"))
            .map(|(name, value)| (name.trim().to_owned(), value.replace(' ', "")))
            .collect();
        let mut read = Self {
            body: String::new(),
            text: String::new(),
            tags,
        };
        let mut left = fields.clone();
        for wanted in read.tag("h").split(':') {
            // From below; one that is not there (any more) counts as nothing.
            if let Some(place) = left.iter().rposition(|(name, _)| name == wanted) {
                let (name, value) = left.remove(place);
                read.text.extend([&*name, ":", &*value, "\r\n"]);
            }
        }
        let without = &signature[..signature.rfind("b=").expect("it has one") + 2];
        read.text.extend(["dkim-signature:", without]);
        let lines = body.trim_end_matches('\n').lines();
        read.body = lines.map(|line| relaxed(line) + "\r\n").collect();
        read
    }

    fn tag(&self, name: &str) -> String {
        let tag = self.tags.iter().find(|(tag, _)| tag == name);
        tag.expect("it is there").1.clone()
    }
}

fn relaxed(line: &str) -> String {
    let mut parts: Vec<&str> = line.split([' ', '\t']).collect();
    while parts.len() > 1 && parts.last() == Some(&"") {
        parts.pop();
    }
    let (first, rest) = parts.split_first().expect("split gives one");
    let rest = rest.iter().filter(|part| !part.is_empty());
    let rest = rest.fold(String::new(), |rest, part| rest + " " + part);
    format!("{first}{rest}")
}

/// Whether openssl finds that the mail's signature is one by the key.
fn is_signed(folder: &Path, raw: &str, check: &str) -> bool {
    let read = Read::of(raw);
    fs::write(folder.join("body"), &read.body).unwrap();
    let hash = openssl(folder, "dgst -sha256 -binary body").1;
    fs::write(folder.join("text"), &read.text).unwrap();
    fs::write(
        folder.join("hash"),
        openssl(folder, "dgst -sha256 -binary text").1,
    )
    .unwrap();
    fs::write(folder.join("signature"), STANDARD.decode(read.tag("b")).unwrap()).unwrap();
    STANDARD.encode(hash) == read.tag("bh") && openssl(folder, check).0
}

#[tokio::test]
async fn a_mail_carries_a_signature_that_openssl_finds_right_and_no_other_mail_does() {
    for (kind, algorithm, check) in [
        (
            "RSA",
            "rsa-sha256",
            "dgst -sha256 -verify dkim.pub -signature signature text",
        ),
        (
            "ED25519",
            "ed25519-sha256",
            "pkeyutl -verify -pubin -inkey dkim.pub -rawin -in hash -sigfile signature",
        ),
    ] {
        let home = Home::new();
        let keys = tempfile::tempdir().unwrap();
        let folder = keys.path();
        make_key(folder, kind);
        fs::copy(folder.join("dkim.key"), home.folder().join("dkim.key")).unwrap();

        let mail = signed_mail(home).await;

        assert!(is_signed(folder, &mail.raw, check), "{}", mail.raw);
        let tags = Read::of(&mail.raw);
        assert_eq!(
            (&*tags.tag("a"), &*tags.tag("d"), &*tags.tag("s")),
            (algorithm, "carillon.test", "s1")
        );
        let signed = tags.tag("h");
        for field in ["from", "to", "subject", "date", "message-id", "content-type"] {
            assert!(signed.split(':').any(|name| name == field), "{signed}");
        }
        for forged in [
            mail.raw.replace("Subject: ", "Subject: x"),
            mail.raw
                .replacen("From: ", "From: Eve <eve@example.net>\nFrom: ", 1),
            mail.raw.trim_end().to_owned() + "x\n",
        ] {
            assert!(!is_signed(folder, &forged, check), "{forged}");
        }
    }
}

#[tokio::test]
async fn a_key_that_cannot_sign_is_refused_before_anything_is_sent() {
    let home = Home::new().with_file(
        "[channels.email]\nfrom = \"c@mail.example.org\"\n\
         [channels.email.dkim]\ndomain = \"example.com\"\nselector = \"s 1\"\nkey_file = \"dkim.key\"\n",
    );
    let check = || {
        let output = home.command(&["check"]).output().expect("the binary runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, told) = check();
    assert_eq!(code, Some(78), "{told}");
    for part in [
        "channels.email.dkim.key_file",
        "the file holds no private key as PEM",
        "channels.email.dkim.selector = `s 1`",
        "channels.email.dkim.domain = `example.com`",
        "mail.example.org",
    ] {
        assert!(told.contains(part), "{part}:\n{told}");
    }
    assert!(openssl(home.folder(), "genrsa -out dkim.key 1024").0);
    let (code, told) = check();
    assert_eq!(code, Some(78), "{told}");
    assert!(told.contains("use RSA with 2048 to 4096 bits"), "{told}");
}
