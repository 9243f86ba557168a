//! Providers as they are configured, against what they answer and report: every code of the first-class ones.

use std::collections::BTreeMap;

use crate::channel::Blame;
use crate::channel::Report;
use crate::channel::http::Answer;
use crate::channel::receipt::Slip;
use crate::channel::receipt::Status;
use crate::channel::sms::receipt;
use crate::channel::sms::receipt::ReceiptRules;
use crate::channel::sms::request::Facts;
use crate::channel::sms::request::Form;
use crate::channel::sms::request::Request;
use crate::channel::sms::request::Writer;
use crate::channel::sms::rules::Rules;

/// A provider's file in `config/providers/`, read without the layers of the configuration.
struct File {
    table: BTreeMap<String, config::Value>,
}

impl File {
    fn of(kind: &str) -> Self {
        let path = format!("{}/config/providers/{kind}.toml", env!("CARGO_MANIFEST_DIR"));
        let source = config::File::new(&path, config::FileFormat::Toml);
        let read = config::Config::builder().add_source(source).build().unwrap();
        Self {
            table: read.try_deserialize().unwrap(),
        }
    }

    fn text(&self, key: &str) -> String {
        let value = self.table.get(key).cloned();
        value
            .map(|value| value.into_string().unwrap())
            .unwrap_or_default()
    }

    fn rules(&self) -> Rules {
        let list = |key: &str| {
            let value = self.table.get(key).cloned();
            let items = value.map(|value| value.into_array().unwrap()).unwrap_or_default();
            let rules = items
                .into_iter()
                .map(|item| item.into_string().unwrap().parse().unwrap());
            rules.collect()
        };
        Rules {
            success: list("success"),
            transient: list("transient"),
            permanent: list("permanent"),
            message_id: self.text("message_id"),
            code: self.text("code"),
            retry_after: self.text("retry_after"),
        }
    }

    fn section(&self, key: &str) -> BTreeMap<String, String> {
        let section = self.table.get(key).cloned();
        let section = section
            .map(|value| value.into_table().unwrap())
            .unwrap_or_default();
        let texts = section.into_iter();
        texts
            .map(|(name, value)| (name, value.into_string().unwrap()))
            .collect()
    }

    fn receipts(&self) -> ReceiptRules {
        let section = self.table.get("receipts").cloned().unwrap().into_table().unwrap();
        let list = |key: &str| -> Vec<String> {
            let items = section[key].clone().into_array().unwrap().into_iter();
            items.map(|item| item.into_string().unwrap()).collect()
        };
        let text = |key: &str| section.get(key).map(|it| it.clone().into_string().unwrap());
        ReceiptRules {
            status: text("status").unwrap(),
            delivered: list("delivered"),
            undelivered: list("undelivered"),
            code: text("code").unwrap_or_default(),
        }
    }

    fn request(&self, facts: &Facts<'_>) -> Request {
        let form = Form {
            url: self.text("url"),
            is_get: self.text("method") == "GET",
            query: self.section("query"),
            headers: self.section("headers"),
            form: self.section("form"),
            json: self.text("json"),
        };
        Writer::new(form).unwrap().write(facts).unwrap()
    }
}

const FACTS: Facts<'_> = Facts {
    to: "+4930123456",
    digits: "4930123456",
    text: "Tea & more",
    unicode: false,
    from: "+15005550006",
    id: "0123456789abcdef0123456789abcdef",
    callback: "https://example.org/v1/receipts/main/01/ff",
    username: "AC1",
    secret: "hush",
};

fn class(report: &Report) -> &'static str {
    match report {
        Report::Accepted { .. } => "accepted",
        Report::Transient {
            of: Blame::Target, ..
        } => "transient",
        Report::Permanent { .. } => "permanent",
        Report::InDoubt { .. } => "in doubt",
        other => panic!("{other:?}"),
    }
}

fn classes(kind: &str, answers: &[(u16, &str, &str)]) {
    let rules = File::of(kind).rules();
    for (status, body, expected) in answers {
        let answer = Answer {
            status: *status,
            retry_after: None,
            body: Some(body.as_bytes().to_vec()),
        };
        assert_eq!(
            class(&rules.read(&answer, 1)),
            *expected,
            "{kind}: {status} {body}"
        );
    }
}

fn fields(encoded: &str) -> BTreeMap<String, String> {
    let mut url = reqwest::Url::parse("form:").unwrap();
    url.set_query(Some(encoded));
    url.query_pairs().into_owned().collect()
}

fn map(fields: &[(&str, &str)]) -> BTreeMap<String, String> {
    let fields = fields.iter();
    fields
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn every_code_of_twilio_has_its_class() {
    classes(
        "twilio",
        &[
            (201, r#"{"sid": "SM1", "status": "queued"}"#, "accepted"),
            (
                400,
                r#"{"code": 21211, "message": "Invalid 'To'", "status": 400}"#,
                "permanent",
            ),
            (400, r#"{"code": 21408}"#, "permanent"),
            (400, r#"{"code": 21610}"#, "permanent"),
            (400, r#"{"code": 21612}"#, "permanent"),
            (400, r#"{"code": 21614}"#, "permanent"),
            (400, r#"{"code": 20429}"#, "transient"),
            (400, r#"{"code": 1}"#, "permanent"),
            (401, r#"{"code": 20003}"#, "permanent"),
            (404, "", "permanent"),
            (429, r#"{"code": 20429}"#, "transient"),
            (500, "", "transient"),
            (503, "<html>", "transient"),
            (200, "{}", "in doubt"),
        ],
    );
    let answer = Answer {
        status: 201,
        retry_after: None,
        body: Some(
            r#"{"sid": "SM0123456789abcdef0123456789abcdef", "code": null}"#
                .as_bytes()
                .to_vec(),
        ),
    };
    let Report::Accepted { reference, reply, .. } = File::of("twilio").rules().read(&answer, 2) else {
        panic!("it was accepted");
    };
    assert_eq!(reference.as_deref(), Some("SM0123456789abcdef0123456789abcdef"));
    assert_eq!(reply, "answered 201, in parts: 2");
}

#[test]
fn every_status_of_vonage_has_its_class() {
    let body = |status: &str| format!(r#"{{"message-count": "1", "messages": [{{"status": "{status}"}}]}}"#);
    let answers: Vec<(String, &str)> = [
        ("accepted", &["0"][..]),
        ("transient", &["1", "5", "10"]),
        (
            "permanent",
            &[
                "2", "3", "4", "6", "7", "8", "9", "11", "12", "14", "15", "22", "23", "29", "32", "33",
            ],
        ),
        ("in doubt", &["13", "99"]),
    ]
    .iter()
    .flat_map(|(expected, statuses)| statuses.iter().map(|status| (body(status), *expected)))
    .collect();
    let answers: Vec<(u16, &str, &str)> = answers
        .iter()
        .map(|(body, expected)| (200, body.as_str(), *expected))
        .collect();
    classes("vonage", &answers);
    let two = |first: &str, second: &str| {
        format!(r#"{{"messages": [{{"status": "{first}", "message-id": "0A"}}, {{"status": "{second}"}}]}}"#)
    };
    classes(
        "vonage",
        &[
            (200, &two("0", "0"), "accepted"),
            // One part was taken and the other not: to send again would send the first twice.
            (200, &two("0", "1"), "in doubt"),
            (200, "", "in doubt"),
            (429, "", "transient"),
            (502, "", "transient"),
            (401, "", "permanent"),
        ],
    );
}

#[test]
fn every_answer_of_kannel_has_its_class() {
    classes(
        "kannel",
        &[
            (202, "0: Accepted for delivery", "accepted"),
            (202, "3: Queued for later delivery", "accepted"),
            (202, "something else", "in doubt"),
            (503, "Temporal failure, try again later.", "transient"),
            (400, "Missing receiver number, rejected", "permanent"),
            (403, "Authorization failed for sendsms", "permanent"),
            (404, "Unknown request", "permanent"),
        ],
    );
}

#[test]
fn twilio_is_asked_as_it_documents() {
    let request = File::of("twilio").request(&FACTS);
    assert_eq!(
        (request.method.as_str(), request.url.as_str()),
        (
            "POST",
            "https://api.twilio.com/2010-04-01/Accounts/AC1/Messages.json"
        )
    );
    let expected = map(&[
        ("To", "+4930123456"),
        ("From", "+15005550006"),
        ("Body", "Tea & more"),
        ("StatusCallback", FACTS.callback),
    ]);
    assert_eq!(fields(&request.body.unwrap()), expected);
    let by_service = Facts {
        from: "MG0123",
        callback: "",
        ..FACTS
    };
    let expected = map(&[
        ("To", "+4930123456"),
        ("MessagingServiceSid", "MG0123"),
        ("Body", "Tea & more"),
    ]);
    assert_eq!(
        fields(&File::of("twilio").request(&by_service).body.unwrap()),
        expected
    );
}

#[test]
fn vonage_is_asked_as_it_documents() {
    let unicode = Facts {
        text: "会議",
        unicode: true,
        from: "Carillon",
        ..FACTS
    };
    let request = File::of("vonage").request(&unicode);
    assert_eq!(request.url.as_str(), "https://rest.nexmo.com/sms/json");
    let expected = map(&[
        ("api_key", "AC1"),
        ("api_secret", "hush"),
        ("from", "Carillon"),
        ("to", "4930123456"),
        ("text", "会議"),
        ("type", "unicode"),
        ("client-ref", FACTS.id),
        ("callback", FACTS.callback),
    ]);
    assert_eq!(fields(&request.body.unwrap()), expected);
    let plain = fields(&File::of("vonage").request(&FACTS).body.unwrap());
    assert_eq!(plain["type"], "text");
}

#[test]
fn kannel_is_asked_as_it_documents() {
    let request = File::of("kannel").request(&FACTS);
    assert_eq!(
        (request.method.as_str(), request.url.path()),
        ("GET", "/cgi-bin/sendsms")
    );
    let expected = map(&[
        ("username", "AC1"),
        ("password", "hush"),
        ("from", "+15005550006"),
        ("to", "+4930123456"),
        ("text", "Tea & more"),
        ("coding", "0"),
        ("charset", "UTF-8"),
        ("dlr-mask", "31"),
        ("dlr-url", "https://example.org/v1/receipts/main/01/ff?status=%d"),
    ]);
    assert_eq!(fields(request.url.query().unwrap()), expected);
    let silent = Facts {
        callback: "",
        unicode: true,
        ..FACTS
    };
    let request = File::of("kannel").request(&silent);
    let fields = fields(request.url.query().unwrap());
    assert_eq!(fields["coding"], "2");
    assert!(!fields.contains_key("dlr-mask") && !fields.contains_key("dlr-url"));
}

/// What `kind` makes of a report: query, type of the body, body.
fn reported(kind: &str, query: &str, content_type: &str, body: &str) -> Result<(Status, String), String> {
    let read = receipt::reader(File::of(kind).receipts());
    let slip = Slip {
        query,
        content_type,
        body: body.as_bytes(),
    };
    read(&slip).map(|receipt| (receipt.status, receipt.detail))
}

#[test]
fn every_status_that_a_provider_reports_is_understood() {
    const FORM: &str = "application/x-www-form-urlencoded";
    for (status, expected) in [
        ("accepted", Status::Pending),
        ("queued", Status::Pending),
        ("sending", Status::Pending),
        ("sent", Status::Pending),
        ("delivered", Status::Delivered),
        ("read", Status::Delivered),
        ("undelivered", Status::Undelivered),
        ("failed", Status::Undelivered),
        ("canceled", Status::Undelivered),
    ] {
        let body = format!("MessageSid=SM1&MessageStatus={status}&To=%2B4930123456");
        assert_eq!(
            reported("twilio", "", FORM, &body).unwrap().0,
            expected,
            "twilio: {status}"
        );
    }
    for (status, expected) in [
        ("accepted", Status::Pending),
        ("buffered", Status::Pending),
        ("unknown", Status::Pending),
        ("delivered", Status::Delivered),
        ("expired", Status::Undelivered),
        ("failed", Status::Undelivered),
        ("rejected", Status::Undelivered),
    ] {
        let query = format!("msisdn=4930123456&status={status}&err-code=0");
        assert_eq!(
            reported("vonage", &query, "", "").unwrap().0,
            expected,
            "vonage: {status}"
        );
        let body = format!(r#"{{"msisdn": "4930123456", "status": "{status}"}}"#);
        let json = reported("vonage", "", "application/json", &body).unwrap();
        assert_eq!(json.0, expected, "vonage: {status}");
        let form = reported("vonage", "", FORM, &query).unwrap();
        assert_eq!(form.0, expected, "vonage: {status}");
    }
    for (status, expected) in [
        ("1", Status::Delivered),
        ("2", Status::Undelivered),
        ("4", Status::Pending),
        ("8", Status::Pending),
        ("16", Status::Undelivered),
    ] {
        let read = reported("kannel", &format!("status={status}"), "", "").unwrap();
        assert_eq!(read.0, expected, "kannel: {status}");
    }
}

#[test]
fn a_report_is_repeated_without_what_is_personal() {
    let body = "MessageStatus=undelivered&ErrorCode=30005&To=%2B4930123456";
    let (_, detail) = reported(
        "twilio",
        "",
        "application/x-www-form-urlencoded; charset=utf-8",
        body,
    )
    .unwrap();
    assert_eq!(detail, "the provider reported undelivered, code 30005");
    let (status, detail) = reported("vonage", "status=4930123456&err-code=%3Cb%3E", "", "").unwrap();
    assert_eq!(
        (status, detail.as_str()),
        (Status::Pending, "the provider reported a status")
    );
    let wrong = reported("kannel", "state=1", "", "").unwrap_err();
    assert!(wrong.contains("`status`"), "{wrong}");
    reported("kannel", "", "application/json", "{").unwrap_err();
}
