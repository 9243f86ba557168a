//! Is it alive, may it be sent to, what does it count.

use std::collections::BTreeMap;
use std::fmt::Write;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use axum::response::Response;
use serde::Serialize;

use super::Shared;
use super::problem::Problem;

/// `GET /livez`: the loops turn. Does not ask the store: a database that is down is no reason to be restarted.
pub(super) async fn live(State(shared): State<Shared>) -> (StatusCode, String) {
    let stuck = shared.ready.stuck(shared.clock.elapsed());
    if stuck.is_empty() {
        return (StatusCode::OK, "alive\n".to_owned());
    }
    (
        StatusCode::SERVICE_UNAVAILABLE,
        format!("stuck: {}\n", stuck.join(", ")),
    )
}

/// `GET /readyz`: everything holds that a caller relies on; `?verbose` lists each.
pub(super) async fn ready(
    State(shared): State<Shared>,
    parts: Parts,
) -> Result<(StatusCode, String), Problem> {
    let query = parts.uri.query().unwrap_or_default();
    let is_verbose = query.split('&').any(|part| part.starts_with("verbose"));
    if is_verbose {
        shared.guard.admit_to_probes(&parts, &shared.probe_hosts).await?;
    }
    let conditions = conditions(&shared);
    let mut text = String::new();
    for (name, holds) in &conditions {
        match holds {
            Ok(()) if is_verbose => writeln!(text, "[+] {name}: ok"),
            Ok(()) => Ok(()),
            Err(reason) => writeln!(text, "[-] {name}: {reason}"),
        }
        .expect("a string takes every text");
    }
    if conditions.values().all(Result::is_ok) {
        Ok((StatusCode::OK, text + "ready\n"))
    } else {
        Ok((StatusCode::SERVICE_UNAVAILABLE, text + "not ready\n"))
    }
}

type Conditions = BTreeMap<&'static str, Result<(), String>>;

fn conditions(shared: &Shared) -> Conditions {
    shared.ready.conditions(shared.clock.elapsed())
}

/// `GET /metrics`, in the text format of Prometheus.
pub(super) async fn metrics(State(shared): State<Shared>, parts: Parts) -> Result<Response, Problem> {
    shared.guard.admit_to_probes(&parts, &shared.probe_hosts).await?;
    let conditions = conditions(&shared);
    shared.metrics.ready(conditions.values().all(Result::is_ok));
    let content_type = [(header::CONTENT_TYPE, crate::metrics::CONTENT_TYPE)];
    Ok((content_type, shared.metrics.render()).into_response())
}

/// The answer to a reload that worked.
#[derive(Debug, Serialize)]
pub(super) struct Reloaded {
    /// Keys that changed and still need a restart.
    needs_restart: Vec<&'static str>,
}

/// `POST /-/reload`: the same as SIGHUP.
pub(super) async fn reload(State(shared): State<Shared>) -> Result<Json<Reloaded>, Problem> {
    let reloaded = (shared.reload)();
    reloaded
        .map(|needs_restart| Json(Reloaded { needs_restart }))
        .map_err(|complaints| Problem::refused_configuration(&complaints))
}
