use super::*;

const TARGET: &str = "target";
const MESSAGE: &str = "message";
const PERMANENT: &str = "permanent";
const GONE: &str = "gone";
const DOUBT: &str = "in doubt";
const ABANDONED: &str = "abandoned";
const BUSY: &str = "busy";

fn jo() -> Address {
    "jo.doe@example.org".parse().unwrap()
}

fn class(report: &Report) -> &'static str {
    match report {
        Report::Transient {
            of: Blame::Target, ..
        } => TARGET,
        Report::Transient {
            of: Blame::Message, ..
        } => MESSAGE,
        Report::Permanent { .. } => PERMANENT,
        Report::InDoubt { .. } => DOUBT,
        Report::Abandoned => ABANDONED,
        Report::Accepted { .. } => "accepted",
        Report::Gone { .. } => GONE,
        Report::Busy { .. } => BUSY,
        Report::Again { .. } => "a webhook's",
    }
}

fn class_of(stage: Stage, cause: Cause) -> &'static str {
    class(&failed(&Failure { stage, cause }, &jo()))
}

fn reply(line: &str) -> Response {
    format!("{line}\r\n").parse().expect("the table holds replies")
}

#[test]
fn every_reply_class_has_its_verdict() {
    let table = [
        (Stage::Greeting, "554 5.7.1 no service for you", TARGET),
        (Stage::Greeting, "421 busy", TARGET),
        (Stage::Hello, "451 try later", TARGET),
        (Stage::Hello, "550 bad name", TARGET),
        (Stage::Tls, "454 4.7.0 TLS not available", TARGET),
        (Stage::Auth, "535 5.7.8 bad credentials", TARGET),
        (Stage::Auth, "534 5.7.9 too weak", TARGET),
        (Stage::Auth, "454 4.7.0 temporary failure", TARGET),
        (Stage::Auth, "504 5.5.4 no such mechanism", TARGET),
        (Stage::Mail, "530 5.7.0 authenticate first", TARGET),
        (Stage::Mail, "451 4.3.0 local error", TARGET),
        (Stage::Mail, "553 5.1.8 sender refused", PERMANENT),
        (Stage::Recipient, "421 4.7.0 too many", TARGET),
        (Stage::Recipient, "450 4.2.0 greylisted", MESSAGE),
        (Stage::Recipient, "451 4.7.1 try again", MESSAGE),
        (Stage::Recipient, "452 4.2.2 full", MESSAGE),
        (Stage::Recipient, "450 4.4.1 unreachable", MESSAGE),
        (Stage::Recipient, "550 5.1.1 no such user", GONE),
        (Stage::Recipient, "550 5.2.1 disabled", GONE),
        (Stage::Recipient, "553 5.1.3 bad address", GONE),
        (Stage::Recipient, "553 no such mailbox", GONE),
        (Stage::Recipient, "550 no", PERMANENT),
        (Stage::Recipient, "553 5.7.1 not in my list of hosts", PERMANENT),
        (Stage::Recipient, "550 5.1.8 sender's domain not found", PERMANENT),
        (Stage::Accept, "550 5.1.1 no such user", PERMANENT),
        (Stage::Recipient, "552 5.2.2 mailbox full", MESSAGE),
        (Stage::Recipient, "550 5.2.2 mailbox full", MESSAGE),
        (Stage::Recipient, "552 mailbox full", MESSAGE),
        (Stage::Recipient, "554 5.7.1 relaying denied", PERMANENT),
        (Stage::Data, "452 4.3.1 disk full", TARGET),
        (Stage::Data, "554 no valid recipients", PERMANENT),
        (Stage::Accept, "451 4.7.1 greylisted", MESSAGE),
        (Stage::Accept, "421 closing", TARGET),
        (Stage::Accept, "552 5.3.4 too large", PERMANENT),
        (Stage::Accept, "552 too large", PERMANENT),
        (Stage::Accept, "552 5.2.2 mailbox full", MESSAGE),
        (Stage::Accept, "554 5.7.1 spam", PERMANENT),
    ];
    for (stage, line, expected) in table {
        assert_eq!(
            class_of(stage, Cause::Refused(reply(line))),
            expected,
            "{stage:?} {line}"
        );
    }
}

#[test]
fn what_is_refused_for_our_sender_or_by_policy_may_be_about_us() {
    let table = [
        (Stage::Mail, "550 no such sender", Some(About::Sender)),
        (Stage::Mail, "450 4.7.1 later", None),
        (
            Stage::Recipient,
            "554 5.7.1 client host blocked",
            Some(About::Policy),
        ),
        (
            Stage::Recipient,
            "550 5.1.8 sender's domain not found",
            Some(About::Policy),
        ),
        (Stage::Recipient, "550 5.1.1 no such user", None),
        (Stage::Recipient, "553 no such mailbox", None),
        (Stage::Data, "554 no valid recipients", Some(About::Policy)),
        (Stage::Accept, "554 5.7.1 blocked", Some(About::Policy)),
        (Stage::Accept, "552 5.3.4 too large", None),
    ];
    for (stage, line, expected) in table {
        let cause = Cause::Refused(reply(line));
        assert_eq!(
            may_be_about_us(&Failure { stage, cause }),
            expected,
            "{stage:?} {line}"
        );
    }
    let cause = Cause::TimedOut;
    let stage = Stage::Mail;
    assert_eq!(may_be_about_us(&Failure { stage, cause }), None);
}

#[test]
fn a_loss_is_in_doubt_only_after_the_final_dot() {
    let stages = [
        Stage::Connect,
        Stage::Tls,
        Stage::Greeting,
        Stage::Mail,
        Stage::Data,
        Stage::Body,
    ];
    for stage in stages {
        assert_eq!(
            class_of(stage, Cause::Lost(std::io::ErrorKind::BrokenPipe.into())),
            TARGET
        );
        assert_eq!(class_of(stage, Cause::TimedOut), TARGET);
        assert_eq!(class_of(stage, Cause::Unexpected(reply("250 what"))), TARGET);
    }
    assert_eq!(
        class_of(Stage::Accept, Cause::Lost(std::io::ErrorKind::BrokenPipe.into())),
        DOUBT
    );
    assert_eq!(class_of(Stage::Accept, Cause::TimedOut), DOUBT);
    assert_eq!(
        class_of(Stage::Accept, Cause::Unexpected(reply("354 what"))),
        DOUBT
    );
    assert_eq!(class_of(Stage::Accept, Cause::OutOfTime), ABANDONED);
    assert_eq!(class_of(Stage::Permit, Cause::OutOfTime), ABANDONED);
    assert_eq!(class_of(Stage::Permit, Cause::TimedOut), BUSY);
}

#[test]
fn replies_are_kept_without_addresses() {
    for (said, kept) in [
        ("2.0.0 Ok: queued as 4XyZ", "250 2.0.0 Ok: queued as 4XyZ"),
        ("<jo.doe@example.org>: unknown", "250 [address] unknown"),
        ("user <Jo.Doe> unknown", "250 user [address] unknown"),
        ("bounce+jo.doe=example.org went", "250 [address] went"),
        ("jo.doe=example.org went", "250 [address] went"),
        (
            "see https://example.org/?r=jo%40example.org now",
            "250 see [address] now",
        ),
    ] {
        assert_eq!(words(&reply(&format!("250 {said}")), Some(&jo())), kept);
    }
    let long = words(&reply(&format!("250 {}", "x".repeat(1_000))), Some(&jo()));
    assert_eq!(long.len(), "250 ".len() + MAX_TEXT);
}

/// All that can fail, in their order; [`Stage::Permit`] is no talk with the relay.
const STAGES: [Stage; 11] = [
    Stage::Connect,
    Stage::Tls,
    Stage::Greeting,
    Stage::Hello,
    Stage::Auth,
    Stage::Probe,
    Stage::Mail,
    Stage::Recipient,
    Stage::Data,
    Stage::Body,
    Stage::Accept,
];

/// Each of these stages with each of these replies.
fn refusals(stages: &[Stage], lines: &[&str]) -> Vec<Failure> {
    let each = |stage: &Stage| {
        let stage = *stage;
        lines.iter().map(move |line| Failure {
            stage,
            cause: Cause::Refused(reply(line)),
        })
    };
    stages.iter().flat_map(each).collect()
}

/// Each of these stages, lost and timed out.
fn losses(stages: &[Stage]) -> Vec<Failure> {
    let lost = || Cause::Lost(std::io::ErrorKind::ConnectionReset.into());
    let both = |stage: &Stage| {
        let stage = *stage;
        [lost(), Cause::TimedOut].map(|cause| Failure { stage, cause })
    };
    stages.iter().flat_map(both).collect()
}

/// A row: its words, everything that they mean, and the class.
type Row = (&'static str, Vec<Failure>, &'static str);

fn assert_rows<const N: usize>(rows: [Row; N]) {
    for (words, failures, expected) in rows {
        assert!(!failures.is_empty(), "{words}");
        for failure in failures {
            assert_eq!(class(&failed(&failure, &jo())), expected, "{words}: {failure:?}");
        }
    }
}

/// What relays do is a table of the design: the rows here have its words. The first, a success, is a test of its own.
#[test]
fn every_row_about_the_relay_has_its_class() {
    let before_mail = [Stage::Tls, Stage::Greeting, Stage::Hello, Stage::Auth];
    let anything = ["450 later", "454 4.7.0 later", "554 no"];
    let closing = ["421 closing", "421 4.7.0 closing"];
    let log_in = [
        "530 5.7.0 log in first",
        "534 5.7.9 too weak",
        "535 5.7.8 who are you",
    ];
    let no = ["500 what", "501 what", "503 not now", "550 no", "554 5.7.1 no"];
    let not_understood = [
        "500 what",
        "501 what",
        "503 not now",
        "503 5.5.0 improper pipelining",
        "554 5.5.0 synchronization error",
    ];
    let after_dot = [Stage::Accept];
    assert_rows([
        (
            "connect, TLS, greeting fail",
            refusals(&before_mail, &anything),
            TARGET,
        ),
        ("421 anywhere", refusals(&STAGES[1..], &closing), TARGET),
        (
            "lost or timed out before the final dot",
            losses(&STAGES[..10]),
            TARGET,
        ),
        ("530, 534, 535", refusals(&STAGES[4..], &log_in), TARGET),
        // Other than the table says: nobody has been named, so an operator can mend it before anything is lost.
        ("5xx to EHLO", refusals(&[Stage::Hello], &no), TARGET),
        // Nor does it say anything of a message that the relay does not understand how it is told of one.
        (
            "5xx to MAIL FROM that is about the dialogue",
            refusals(&[Stage::Mail], &not_understood),
            TARGET,
        ),
        ("lost or timed out after the final dot", losses(&after_dot), DOUBT),
    ]);
}

#[test]
fn every_row_about_a_message_has_its_class() {
    let of_a_message = [Stage::Recipient, Stage::Accept];
    let put_off = [
        "450 busy",
        "451 local error",
        "452 too many",
        "450 4.2.0 greylisted",
        "451 4.2.0 greylisted",
        "450 4.4.1 no answer from host",
        "451 4.4.3 the directory is away",
        "451 4.7.0 too fast",
        "450 4.7.1 greylisted",
        "451 4.7.1 try again",
    ];
    let no_mailbox = [
        "550 5.1.0 address rejected",
        "550 5.1.1 no such user",
        "550 5.1.2 no such host",
        "550 5.1.3 bad syntax",
        "550 5.1.6 it has moved",
        "550 5.1.10 null MX",
        "550 5.2.1 disabled",
        "553 no such mailbox",
        "553 5.1.3 bad syntax",
    ];
    let full = ["552 5.2.2 full", "550 5.2.2 full"];
    let policy = [
        "554 5.7.0 no",
        "554 5.7.1 relaying denied",
        "554 5.7.26 not authenticated",
    ];
    let by_policy = [Stage::Recipient, Stage::Data, Stage::Accept];
    let no = ["550 no", "553 no", "552 5.3.4 too large", "554 5.7.1 no"];
    assert_rows([
        (
            "450, 451, 452, 4.2.0 (greylist), 4.4.x, 4.7.x",
            refusals(&of_a_message, &put_off),
            MESSAGE,
        ),
        (
            "550 5.1.x, 5.2.1, 553",
            refusals(&[Stage::Recipient], &no_mailbox),
            GONE,
        ),
        (
            "552 5.2.2 (mailbox full)",
            refusals(&of_a_message, &full),
            MESSAGE,
        ),
        ("554 5.7.x", refusals(&by_policy, &policy), PERMANENT),
        ("5xx to MAIL FROM", refusals(&[Stage::Mail], &no), PERMANENT),
    ]);
}

#[test]
fn any_success_after_the_final_dot_is_one_and_keeps_the_queue_id() {
    for line in [
        "250 2.0.0 Ok: queued as 4XyZ",
        "251 queued as 4XyZ",
        "200 queued as 4XyZ",
    ] {
        let Report::Accepted { reply: kept, .. } = accepted(&reply(line), &jo()) else {
            panic!("{line}");
        };
        assert!(kept.ends_with("queued as 4XyZ"), "{kept}");
    }
}
