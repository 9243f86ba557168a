//! Two plain pages for people: what this is, and the messages that stayed in the outbox.
//!
//! Everything that came from outside is escaped by the template engine. The HTML part of a message is shown in a frame
//! without any rights; the policy of the page forbids scripts and every connection, in the frame too.

use std::net::SocketAddr;

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::Html;
use axum::response::IntoResponse;
use axum::response::Response;
use mail_parser::MessageParser;
use minijinja::AutoEscape;
use minijinja::Environment;
use minijinja::Value;
use minijinja::context;

use super::Shared;
use super::caller::Caller;
use super::history;
use super::history::Kept;
use super::problem::Asked;
use super::problem::Problem;
use crate::store::OutboxEntry;

const STATUS: &str = include_str!("page/status.html");
const OUTBOX: &str = include_str!("page/outbox.html");

/// Nothing is loaded, run or sent, and nobody frames us; styles stand in the page and in the messages.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// The line by which a start tells a newcomer where reminders can be seen.
pub fn where_to_look(listen: SocketAddr, has_relay: bool) -> String {
    let here = if listen.ip().is_unspecified() {
        SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), listen.port())
    } else {
        listen
    };
    if has_relay {
        format!("reminders leave through the relay; what became of them: http://{here}/v1/history")
    } else {
        format!(
            "no mail relay is configured, so reminders stay here: read them at http://{here}/outbox \
             (set channels.email.smtp.host to send them)"
        )
    }
}

/// `GET /`.
pub(super) async fn status(State(shared): State<Shared>) -> Response {
    let is_stuck = !shared.ready.stuck(shared.clock.elapsed()).is_empty();
    let here = shared.listen.to_string();
    let values = context! { version => env!("CARGO_PKG_VERSION"), here, is_stuck };
    render("status.html", STATUS, &values)
}

/// `GET /outbox`.
pub(super) async fn outbox(
    State(shared): State<Shared>,
    caller: Caller,
    Asked(kept): Asked<Kept>,
) -> Result<Response, Problem> {
    let (entries, next_cursor) = history::kept_messages(&shared, &caller, kept).await?;
    Ok(outbox_page(entries, next_cursor))
}

/// The page of these messages.
pub(super) fn outbox_page(entries: Vec<OutboxEntry>, next_cursor: Option<String>) -> Response {
    let entries: Vec<Value> = entries.into_iter().map(shown).collect();
    render("outbox.html", OUTBOX, &context! { entries, next_cursor })
}

fn shown(entry: OutboxEntry) -> Value {
    let parsed = MessageParser::default().parse(entry.message.raw.as_bytes());
    let html = parsed.and_then(|message| {
        let has_html = message.html_body.first().and_then(|part| message.part(*part));
        has_html.filter(|part| part.is_text_html())?;
        message.body_html(0).map(std::borrow::Cow::into_owned)
    });
    context! {
        id => entry.id.to_string(),
        owner => entry.owner.0,
        handed_over_at => entry.handed_over_at.format("%Y-%m-%d %H:%M:%S UTC").to_string(),
        to => entry.message.to,
        subject => entry.message.subject,
        text => entry.message.text,
        raw => entry.message.raw,
        html,
    }
}

pub(super) fn render(name: &'static str, source: &'static str, values: &Value) -> Response {
    let mut templates = Environment::new();
    templates.set_auto_escape_callback(|_| AutoEscape::Html);
    let rendered = templates
        .add_template(name, source)
        .and_then(|()| templates.get_template(name)?.render(values));
    match rendered {
        Ok(page) => Html(page).into_response(),
        Err(error) => {
            tracing::error!(%error, page = name, "a page cannot be rendered");
            let detail = "the page cannot be rendered; the log of this node says why";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response()
        }
    }
}

/// Adds what keeps browsers from guessing, keeping and leaking.
pub(super) async fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    // A page with a form has a policy of its own.
    let policy = headers.entry(header::CONTENT_SECURITY_POLICY);
    policy.or_insert(HeaderValue::from_static(POLICY));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newcomer_is_told_where_reminders_are() {
        let local = where_to_look("127.0.0.1:8085".parse().unwrap(), false);
        assert!(local.contains("http://127.0.0.1:8085/outbox"), "{local}");
        let everywhere = where_to_look("0.0.0.0:80".parse().unwrap(), true);
        assert!(
            everywhere.contains("http://127.0.0.1:80/v1/history"),
            "{everywhere}"
        );
    }
}
