//! The document of the API says what the routes are, no more and no less, and all that a caller wants to know of them.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use axum::body::Body;
use serde_json::Value;

use super::Edge;
use super::local;
use crate::openapi::Document;
use crate::openapi::Values;

async fn document(edge: &Edge) -> Document {
    let reply = edge.get("/openapi.json").await;
    assert_eq!(
        (reply.status.as_u16(), &reply.headers["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
    Document::read(&reply.text)
}

/// The paths of the router itself, as it shows them to developers.
fn routes(edge: &Edge) -> BTreeSet<String> {
    let shown = format!("{:?}", edge.router);
    let quoted = shown.split('"').skip(1).step_by(2);
    let routes: BTreeSet<String> = quoted
        .filter(|it| it.starts_with('/') && !it.contains("axum_fallback"))
        .map(str::to_owned)
        .collect();
    assert!(
        routes.contains("/v1/alarms/{id}/{verb}"),
        "the routes are found: {shown}"
    );
    routes
}

#[tokio::test]
async fn every_route_is_documented_with_its_methods_and_nothing_else_is() {
    let edge = Edge::open().await;
    let document = document(&edge).await;
    let mut told: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for operation in document.operations() {
        told.entry(operation.path).or_default().insert(operation.method);
    }
    let documented: BTreeSet<String> = told.keys().map(|path| (*path).to_owned()).collect();
    assert_eq!(routes(&edge), documented);
    for (path, methods) in told {
        let concrete = path.replace(['{', '}'], "");
        // No route takes it, so that each names those it takes.
        let asked = local("TRACE", &concrete).body(Body::empty()).unwrap();
        let reply = edge.send(asked).await;
        assert_eq!(reply.status, 405, "{path}: {}", reply.text);
        let allowed = reply.headers["allow"].to_str().unwrap().split(',');
        let allowed: BTreeSet<String> = allowed.filter(|it| *it != "HEAD").map(str::to_owned).collect();
        assert_eq!(allowed, methods, "{path}");
    }
}

#[tokio::test]
async fn every_operation_says_what_it_needs_and_answers() {
    let edge = Edge::open().await;
    let document = document(&edge).await;
    assert_eq!(document.0["openapi"], "3.1.0");
    assert_eq!(document.0["info"]["version"], env!("CARGO_PKG_VERSION"));
    let tags: Vec<&Value> = document.0["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| &tag["name"])
        .collect();
    let mut ids = BTreeSet::new();
    let operations = document.operations();
    assert!(operations.len() > 35);
    for operation in operations {
        let (name, told) = (operation.name(), operation.told);
        assert!(told["summary"].is_string(), "{name}");
        assert!(tags.contains(&&told["tags"][0]), "{name}");
        assert!(ids.insert(told["operationId"].as_str().unwrap()), "{name}");
        assert!(told["security"].is_array(), "{name}");
        assert!(
            told.get("requestBody").is_none() || operation.body().is_some(),
            "{name} has no example"
        );
        let problem = document.resolved(&told["responses"]["default"]);
        let schema = &problem["content"]["application/problem+json"]["schema"];
        assert_eq!(schema["$ref"], "#/components/schemas/Problem", "{name}");
        let success = told["responses"]
            .as_object()
            .unwrap()
            .keys()
            .any(|status| status.starts_with('2') || status == "101");
        assert!(success, "{name}");
        let placeholders = operation.path.matches('{').count();
        let mut known = 0;
        for parameter in operation.parameters() {
            let is_in_path = parameter["in"] == "path";
            known += usize::from(is_in_path);
            let has_example = parameter.get("example").is_some();
            assert!(parameter["description"].is_string(), "{name}: {parameter}");
            assert!(
                has_example || parameter["required"] != true,
                "{name}: {parameter}"
            );
            // What it takes as an example it lets pass.
            if has_example {
                let example = &parameter["example"];
                assert_eq!(
                    document.complaints(&parameter["schema"], example),
                    [""; 0],
                    "{name}: {parameter}"
                );
            }
        }
        assert_eq!(placeholders, known, "{name}");
        if let Some((kind, example)) = operation.body() {
            let schema = &told["requestBody"]["content"][kind]["schema"];
            assert_eq!(document.complaints(schema, example), [""; 0], "{name}");
        }
    }
}

#[tokio::test]
async fn every_reference_leads_somewhere_and_nothing_is_described_in_vain() {
    let edge = Edge::open().await;
    let document = document(&edge).await;
    let text = document.0.to_string();
    for kind in ["schemas", "responses", "parameters"] {
        for (name, _) in document.0["components"][kind].as_object().unwrap() {
            // Those of the lines of many changes are named in words.
            let reference = format!("\"#/components/{kind}/{name}\"");
            assert!(
                text.contains(&reference) || name.starts_with("Change"),
                "{reference}"
            );
        }
    }
    let mut references = text
        .split("\"$ref\":")
        .skip(1)
        .map(|rest| rest.split('"').nth(1).unwrap());
    assert!(references.clone().count() > 100);
    assert!(references.all(|reference| document.0.pointer(&reference[1..]).is_some()));
}

/// What the relay of a call is told is documented, too: [`crate::access`] sees real ones.
#[tokio::test]
async fn the_calls_to_targets_are_as_their_examples_say() {
    let edge = Edge::open().await;
    let document = document(&edge).await;
    for name in ["reminder", "alarm"] {
        let media = &document.0["webhooks"][name]["post"]["requestBody"]["content"]["application/json"];
        assert_eq!(
            document.complaints(&media["schema"], &media["example"]),
            [""; 0],
            "{name}"
        );
    }
}

#[tokio::test]
async fn the_page_shows_every_operation_and_runs_nothing() {
    let edge = Edge::open().await;
    let document = document(&edge).await;
    let page = edge.get("/docs").await;
    assert_eq!(page.status, 200, "{}", page.text);
    for operation in document.operations() {
        let id = operation.told["operationId"].as_str().unwrap();
        assert!(page.text.contains(&format!("<article id=\"{id}\">")), "{id}");
        let call = format!("<code>{}</code>", operation.name().replace('/', "&#x2f;"));
        assert!(page.text.contains(&call), "{call}");
    }
    for (name, _) in document.0["components"]["schemas"].as_object().unwrap() {
        assert!(page.text.contains(&format!("<h3 id=\"{name}\">")), "{name}");
    }
    for anchor in page.text.split("href=\"#").skip(1) {
        let anchor = anchor.split('"').next().unwrap();
        assert!(
            page.text.contains(&format!("id=\"{anchor}\"")),
            "`#{anchor}` leads nowhere"
        );
    }
    assert!(!page.text.contains("<script") && !page.text.contains("undefined"));
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'unsafe-inline'"),
        "{policy}"
    );
}

/// The helper of these tests puts values where they belong.
#[tokio::test]
async fn a_call_is_put_together_from_examples() {
    let edge = Edge::open().await;
    let document = document(&edge).await;
    let operations = document.operations();
    let find = |name: &str| operations.iter().find(|it| it.name() == name).unwrap();
    let values = Values::from([("id", "ff".to_owned()), ("owner", String::new())]);
    let patch = find("PATCH /v1/alarms/{id}").call(&values);
    assert_eq!(patch.path, "/v1/alarms/ff");
    assert!(patch.headers.contains(&("If-Match".to_owned(), "*".to_owned())));
    assert!(patch.body.contains("Later tea"));
    assert!(!find("POST /v1/alarms").call(&values).body.contains("anna"));
}
