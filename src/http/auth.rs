//! Who may call.
//!
//! A caller presents a token: the one of `http.token_file`, which opens everything, or one that `carillon tokens create`
//! made, which opens what its scope and its owner say. These are looked up for each request, so that a token that is revoked
//! or expires opens nothing from then on, on every node. Where no `http.token_file` is configured, a caller without a token
//! may do everything: the configuration has made sure that we listen on loopback only, and what remains is the browser of
//! somebody on this machine: a page of another site must not reach us through it, neither directly (`Origin`,
//! `Sec-Fetch-Site`) nor under a name of its own that it points at loopback (DNS rebinding: the `Host` header tells).

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::Method;
use axum::http::StatusCode;
use axum::http::header;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::IntoResponse;
use axum::response::Response;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use subtle::ConstantTimeEq;

use super::caller::Caller;
use super::problem::Problem;
use crate::clock::Clock;
use crate::listen::Known;
use crate::listen::Peer;
use crate::metrics::AccessRefusal;
use crate::metrics::Metrics;
use crate::store::Store;
use crate::store::token::Scope;
use crate::token::access;

/// Knows who calls, or lets nobody in.
#[derive(Clone)]
pub(super) struct Guard {
    /// What opens everything.
    pub(super) token: Option<Arc<SecretString>>,
    /// Where the other tokens are.
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
}

/// The scope that routes need.
#[derive(Debug, Clone, Copy)]
pub(super) enum Needs {
    /// To read where nothing is changed, else to write.
    ByMethod,
    /// This one.
    Always(Scope),
}

/// Lets requests through to routes that need a scope.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) guard: Guard,
    pub(super) needs: Needs,
}

/// The middleware: tells handlers who calls.
pub(super) async fn check(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let needed = match gate.needs {
        Needs::ByMethod if parts.method.is_safe() => Scope::Read,
        Needs::ByMethod => Scope::Write,
        Needs::Always(scope) => scope,
    };
    match gate.guard.admit(&parts, needed).await {
        Ok(caller) => {
            parts.extensions.insert(caller);
            let is_known = presented(&parts.headers).is_some();
            let mut response = next.run(Request::from_parts(parts, body)).await;
            if is_known {
                response.extensions_mut().insert(Known);
            }
            response
        }
        Err(problem) => problem.into_response(),
    }
}

impl Guard {
    /// Who calls, if they may do what is `needed`.
    pub(super) async fn admit(&self, parts: &Parts, needed: Scope) -> Result<Caller, Problem> {
        let caller = match (presented(&parts.headers), &self.token) {
            (Some(presented), _) => self.known(presented).await?,
            (None, Some(_)) => {
                let cure = "send a token: `Authorization: Bearer …`, that of http.token_file or one that \
                            `carillon tokens create` made";
                return Err(self.refused(AccessRefusal::Missing, unauthorized(cure)));
            }
            (None, None) => {
                let is_local = local(parts);
                is_local.map_err(|problem| self.refused(AccessRefusal::Foreign, problem))?;
                Caller::ADMIN
            }
        };
        let may = caller.may(needed);
        may.map_err(|problem| self.refused(AccessRefusal::Scope, problem))?;
        Ok(caller)
    }

    /// Whether `/metrics` and `/readyz?verbose` answer that caller, where `hosts` are the names under which they do.
    pub(super) async fn admit_to_probes(&self, parts: &Parts, hosts: &[String]) -> Result<(), Problem> {
        let authority = authority(parts);
        let name = host_name(authority).to_ascii_lowercase();
        // The header alone may say anything.
        let is_local = || {
            let peer = parts.extensions.get::<Peer>();
            is_loopback(authority) && peer.is_some_and(|peer| peer.0.to_canonical().is_loopback())
        };
        if hosts.is_empty() || hosts.contains(&name) || is_local() {
            return Ok(());
        }
        if presented(&parts.headers).is_some() {
            return self.admit(parts, Scope::Read).await.map(drop);
        }
        let detail = format!(
            "this answers under the names in http.probe_hosts, not as `{name}`: add it there, or send a token"
        );
        Err(self.refused(AccessRefusal::Foreign, forbidden(detail)))
    }

    /// Whose token that is.
    async fn known(&self, presented: &str) -> Result<Caller, Problem> {
        let token = self.token.as_ref();
        if token.is_some_and(|token| is_same(presented, token.expose_secret())) {
            return Ok(Caller::ADMIN);
        }
        let unknown = || {
            let detail = "the token is not known here: it was never made, or was revoked";
            self.refused(AccessRefusal::Unknown, unauthorized(detail))
        };
        let hash = access::hash(presented).ok_or_else(unknown)?;
        let token = self.store.access_token(&hash).await?.ok_or_else(unknown)?;
        let now = self.clock.now();
        if token.has_expired(now) {
            let detail = "the token has expired: ask for a new one";
            return Err(self.refused(AccessRefusal::Expired, unauthorized(detail)));
        }
        if token.is_use_news(now)
            && let Err(error) = self.store.token_used(&hash, now).await
        {
            // Whoever may read is not kept from it because nothing can be written.
            tracing::warn!(%error, "it was not noted that an access token was used");
        }
        Ok(token.into())
    }

    fn refused(&self, why: AccessRefusal, problem: Problem) -> Problem {
        self.metrics.access_refused(why);
        problem
    }
}

/// The token of a request.
fn presented(headers: &HeaderMap) -> Option<&str> {
    let (scheme, presented) = text(headers, header::AUTHORIZATION.as_str())?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| presented.trim())
}

fn unauthorized(detail: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

/// Compares in a time that depends on the lengths alone.
fn is_same(presented: &str, token: &str) -> bool {
    presented.as_bytes().ct_eq(token.as_bytes()).into()
}

fn local(parts: &Parts) -> Result<(), Problem> {
    let headers = &parts.headers;
    let host = authority(parts);
    if !is_loopback(host) {
        return Err(forbidden(format!(
            "without a token only callers on this machine are served, not `{host}`: set http.token_file"
        )));
    }
    let is_foreign_page = text(headers, header::ORIGIN.as_str())
        .is_some_and(|origin| origin.split_once("://").is_none_or(|(_, origin)| origin != host));
    if is_foreign_page || is_cross_site(parts) {
        return Err(forbidden(
            "without a token, pages of other sites are not served".to_owned(),
        ));
    }
    Ok(())
}

/// Whether a page of another site asks. Following a link to us is fine: it changes nothing and shows that page nothing.
fn is_cross_site(parts: &Parts) -> bool {
    let site = text(&parts.headers, "sec-fetch-site").unwrap_or("none");
    let is_link = matches!(parts.method, Method::GET | Method::HEAD)
        && text(&parts.headers, "sec-fetch-mode") == Some("navigate");
    !matches!(site, "none" | "same-origin") && !is_link
}

/// The `host` or `host:port` that the caller means.
fn authority(parts: &Parts) -> &str {
    let authority = parts.uri.authority().map(axum::http::uri::Authority::as_str);
    authority
        .or_else(|| text(&parts.headers, header::HOST.as_str()))
        .unwrap_or_default()
}

/// An authority without its port.
fn host_name(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// Whether an authority is this machine.
fn is_loopback(authority: &str) -> bool {
    let host = host_name(authority);
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

fn forbidden(detail: String) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(method: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri("/v1/history");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(axum::body::Body::empty()).unwrap().into_parts().0
    }

    fn status(method: &str, headers: &[(&str, &str)]) -> u16 {
        let admitted = local(&parts(method, headers));
        admitted.map_or_else(|problem| problem.status.as_u16(), |()| 200)
    }

    #[test]
    fn a_token_is_a_bearer_and_nothing_is_cut_off_it() {
        let shown =
            |value: &str| presented(&parts("GET", &[("authorization", value)]).headers).map(str::to_owned);
        assert_eq!(shown("bearer s3cret").as_deref(), Some("s3cret"));
        assert_eq!(shown("Basic s3cret"), None);
        assert_eq!(shown("s3cret"), None);
        assert!(is_same("s3cret", "s3cret"));
        for wrong in ["s3cre", "s3crets", "", "S3cret"] {
            assert!(!is_same(wrong, "s3cret"), "{wrong}");
        }
    }

    #[test]
    fn a_name_that_points_at_loopback_is_refused_without_a_token() {
        for host in [
            "127.0.0.1:8085",
            "localhost:8085",
            "[::1]:8085",
            "localhost",
            "[::1]",
        ] {
            assert_eq!(status("GET", &[("host", host)]), 200, "{host}");
        }
        for host in ["evil.example:8085", "127.0.0.1.evil.example", "10.0.0.1:8085", ""] {
            assert_eq!(status("GET", &[("host", host)]), 403, "{host}");
        }
        assert_eq!(status("GET", &[]), 403);
    }

    #[test]
    fn a_page_of_another_site_is_refused_without_a_token() {
        let host = ("host", "127.0.0.1:8085");
        let own = ("origin", "http://127.0.0.1:8085");
        assert_eq!(status("POST", &[host, own]), 200);
        for origin in ["http://evil.example", "null", "http://127.0.0.1:3000"] {
            assert_eq!(status("POST", &[host, ("origin", origin)]), 403, "{origin}");
        }
        let cross = ("sec-fetch-site", "cross-site");
        assert_eq!(status("POST", &[host, cross]), 403);
        assert_eq!(status("GET", &[host, cross, ("sec-fetch-mode", "no-cors")]), 403);
    }

    #[test]
    fn following_a_link_from_another_site_is_fine() {
        let headers = [
            ("host", "localhost:8085"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
        ];
        assert_eq!(status("GET", &headers), 200);
        assert_eq!(status("POST", &headers), 403);
    }
}
