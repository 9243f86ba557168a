//! Owners.

use axum::body::Body;
use serde_json::json;

use super::Edge;
use super::local;

#[tokio::test]
async fn an_owner_is_created_replaced_and_read() {
    let edge = Edge::open().await;
    let created = edge
        .put_json("/v1/owners/anna", &json!({ "email": "anna@example.org" }))
        .await;
    assert_eq!(created.status, 201);
    let expected = json!({
        "id": "anna", "email": "anna@example.org", "addresses": [], "phone": null, "time_zone": "UTC",
        "locale": "en", "enabled": true, "muted": [], "display": null, "routes": [], "defaults": {}, "sources": {},
        "verified": [], "has_webhook_secrets": false,
    });
    assert_eq!(created.json(), expected);
    let changed =
        json!({ "phone": "+4930123456", "time_zone": "Europe/Berlin", "locale": "de-AT", "muted": ["sms"] });
    assert_eq!(edge.put_json("/v1/owners/anna", &changed).await.status, 200);
    let read = edge.get("/v1/owners/anna").await.json();
    assert_eq!((&read["email"], &read["muted"]), (&json!(null), &json!(["sms"])));
}

#[tokio::test]
async fn a_number_as_people_write_it_needs_their_region_and_is_kept_as_e164() {
    let edge = Edge::open().await;
    let put = async |body| edge.put_json("/v1/owners/anna", &body).await;
    let created = put(json!({ "phone": "(030) 123456", "region": "DE" })).await;
    assert_eq!(created.status, 201);
    assert_eq!(created.json()["phone"], "+4930123456");
    assert_eq!(edge.get("/v1/owners/anna").await.json()["phone"], "+4930123456");
    // A language says nothing about where a telephone is.
    for wrong in [
        json!({ "phone": "030 123456", "locale": "de-DE" }),
        json!({ "phone": "030 123456", "region": "Germany" }),
        json!({ "phone": "+999123456789" }),
    ] {
        let problem = put(wrong).await.problem(422);
        assert_eq!(problem["errors"][0]["pointer"], "/phone");
    }
}

#[tokio::test]
async fn everything_wrong_with_an_owner_is_said_at_once_and_where() {
    let edge = Edge::open().await;
    let wrong = json!({
        "email": "anna", "addresses": ["a@example.org", "b@"], "phone": "030 123", "time_zone": "Mars/Olympus",
        "locale": "de_AT", "muted": ["pigeon"],
    });
    let problem = edge.put_json("/v1/owners/anna", &wrong).await.problem(422);
    let errors = problem["errors"].as_array().unwrap();
    let pointers: Vec<&str> = errors
        .iter()
        .map(|error| error["pointer"].as_str().unwrap())
        .collect();
    assert_eq!(
        pointers,
        [
            "/email",
            "/addresses/1",
            "/phone",
            "/time_zone",
            "/locale",
            "/muted/0"
        ]
    );
    edge.get("/v1/owners/anna").await.problem(404);
}

/// An API whose operator signs calls and lets them go to one network.
async fn calling() -> Edge {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").expect("the file is ours");
    let path = file.path().display().to_string();
    Edge::with(&[
        ("CARILLON__CHANNELS__WEBHOOK__SECRET_FILE", &path),
        (
            "CARILLON__CHANNELS__WEBHOOK__ALLOW_NETWORKS",
            "10.1.0.0/16, fd00::/8",
        ),
    ])
    .await
}

#[tokio::test]
async fn an_owner_has_a_webhook_and_what_was_read_can_be_put() {
    let edge = calling().await;
    for url in ["https://example.org/hook?key=1", "http://10.1.2.3:8080/"] {
        let anna = json!({ "webhook": { "url": url } });
        let answer = edge.put_json("/v1/owners/anna", &anna).await;
        assert!(answer.status.is_success(), "{}", answer.text);
        let mut read = edge.get("/v1/owners/anna").await.json();
        assert_eq!(read["webhook"], json!({ "url": url }));
        read.as_object_mut().unwrap().remove("id");
        assert_eq!(edge.put_json("/v1/owners/anna", &read).await.status, 200);
    }
}

#[tokio::test]
async fn a_webhook_that_must_not_be_called_is_refused_with_the_cure_and_unquoted() {
    let edge = calling().await;
    for (url, told) in [
        (
            "https://169.254.169.254/latest/secret",
            "not on the public Internet",
        ),
        ("https://[::ffff:10.1.2.3]/secret", "not on the public Internet"),
        ("http://10.2.0.1/secret", "not on the public Internet"),
        ("http://8.8.8.8/secret", "is not encrypted"),
        ("https://anna:secret@example.org/", "user name or password"),
        ("ftp://example.org/secret", "must begin with https://"),
        ("example.org/secret", "is no URL"),
    ] {
        let anna = json!({ "webhook": { "url": url } });
        let problem = edge.put_json("/v1/owners/anna", &anna).await.problem(422);
        assert_eq!(problem["errors"][0]["pointer"], "/webhook/url");
        let detail = problem["errors"][0]["detail"].as_str().unwrap();
        assert!(detail.contains(told) && !detail.contains("secret"), "{detail}");
    }
    for (channel, pointer) in [("webhook", "/webhook"), ("sms", "/phone"), ("email", "/email")] {
        let routed = json!({ "routes": [{ "action": "EMAIL", "channel": channel }] });
        let problem = edge.put_json("/v1/owners/anna", &routed).await.problem(422);
        assert_eq!(problem["errors"][0]["pointer"], pointer);
    }
    let silent = Edge::open().await;
    let anna = json!({ "webhook": { "url": "https://example.org/" } });
    let problem = silent.put_json("/v1/owners/anna", &anna).await.problem(422);
    let detail = problem["errors"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("channels.webhook.secret_file"), "{detail}");
}

#[tokio::test]
async fn a_field_of_the_wrong_type_or_name_is_pointed_at() {
    let edge = Edge::open().await;
    let problem = edge
        .put_json("/v1/owners/anna", &json!({ "addresses": ["a@example.org", 5] }))
        .await
        .problem(422);
    assert_eq!(problem["errors"][0]["pointer"], "/addresses/1");
    let problem = edge
        .put_json("/v1/owners/anna", &json!({ "mail": "a@example.org" }))
        .await
        .problem(422);
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("unknown field `mail`"),
        "{problem}"
    );
}

#[tokio::test]
async fn a_body_that_is_not_json_says_how_to_send_json() {
    let edge = Edge::open().await;
    let form = local("PUT", "/v1/owners/anna").header("content-type", "text/calendar");
    let problem = edge.send(form.body("{}".into()).unwrap()).await.problem(415);
    assert!(
        problem["detail"].as_str().unwrap().contains("--json"),
        "{problem}"
    );
    let broken = local("PUT", "/v1/owners/anna").header("content-type", "application/json");
    edge.send(broken.body("{ no".into()).unwrap()).await.problem(400);
    let large = local("PUT", "/v1/owners/anna").header("content-type", "application/json");
    edge.send(large.body(" ".repeat(100_000).into()).unwrap())
        .await
        .problem(413);
}

#[tokio::test]
async fn an_id_that_cannot_be_one_is_refused() {
    let edge = Edge::open().await;
    for path in [
        "/v1/owners/a%0Ab",
        "/v1/owners/a%00",
        "/v1/owners/%ff",
        &format!("/v1/owners/{}", "x".repeat(513)),
    ] {
        let request = local("PUT", path).header("content-type", "application/json");
        edge.send(request.body(Body::from("{}")).unwrap())
            .await
            .problem(400);
    }
}

#[tokio::test]
async fn an_address_that_no_relay_takes_is_refused_at_once() {
    let edge = Edge::open().await;
    for address in [
        "ännä@example.org",
        "\"a b\"@example.org",
        "\"a>b\"@example.org",
        "a@[127.0.0.1]",
    ] {
        let request = local("PUT", "/v1/owners/anna").header("content-type", "application/json");
        let body = serde_json::json!({ "email": address }).to_string();
        let problem = edge.send(request.body(body.into()).unwrap()).await.problem(422);
        assert_eq!(problem["errors"][0]["pointer"], "/email", "{problem}");
    }
}

#[tokio::test]
async fn a_list_is_no_owner_and_an_encoded_body_is_not_guessed_at() {
    let edge = Edge::open().await;
    for list in ["[]", " [\"anna@example.org\"]"] {
        let request = local("PUT", "/v1/owners/anna").header("content-type", "application/json");
        let problem = edge.send(request.body(list.into()).unwrap()).await.problem(422);
        assert!(
            problem["detail"].as_str().unwrap().contains("expected an object"),
            "{problem}"
        );
    }
    let encoded = local("PUT", "/v1/owners/anna").header("content-encoding", "gzip");
    edge.send(encoded.body("{}".into()).unwrap()).await.problem(415);
    edge.get("/v1/owners/anna").await.problem(404);
}
