//! The document of this API (OpenAPI 3.1), for programs and, as a page, for people. It is written by hand, and tests hold it
//! to what the routes take and answer. It says nothing of this installation, so it is open to everybody.

use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use minijinja::context;
use minijinja::value::Serde;
use serde_json::Value;

use super::page;

const DOCUMENT: &str = include_str!("openapi.json");
const PAGE: &str = include_str!("page/docs.html");

/// The document, as a value.
pub(super) fn read() -> Value {
    serde_json::from_str(DOCUMENT).expect("a test reads it")
}

/// `GET /openapi.json`.
pub(super) async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT).into_response()
}

/// `GET /docs`.
pub(super) async fn docs() -> Response {
    let document = Serde(read());
    page::render("docs.html", PAGE, &context! { document })
}
