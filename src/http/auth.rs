//! Who may call.
//!
//! With a token configured, every caller presents it. Without one the configuration has made sure that we listen on
//! loopback only, and what remains is the browser of somebody on this machine: a page of another site must not reach
//! us through it, neither directly (`Origin`, `Sec-Fetch-Site`) nor under a name of its own that it points at loopback
//! (DNS rebinding: the `Host` header tells).

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::Method;
use axum::http::StatusCode;
use axum::http::header;
use axum::middleware::Next;
use axum::response::IntoResponse;
use axum::response::Response;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use subtle::ConstantTimeEq;

use super::problem::Problem;

/// Lets requests through, or not.
#[derive(Clone)]
pub(super) struct Guard {
    token: Option<Arc<SecretString>>,
}

impl Guard {
    /// A guard that asks for `token`, or without one for a caller on this machine.
    pub(super) fn new(token: Option<SecretString>) -> Self {
        Self {
            token: token.map(Arc::new),
        }
    }

    /// Whether a request may be answered; else what it lacks.
    pub(super) fn admit(&self, request: &Request) -> Result<(), Problem> {
        match &self.token {
            Some(token) => bearer(request.headers(), token),
            None => local(request),
        }
    }
}

/// The middleware.
pub(super) async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match guard.admit(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn bearer(headers: &HeaderMap, token: &SecretString) -> Result<(), Problem> {
    let presented = text(headers, header::AUTHORIZATION.as_str())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, presented)| presented.trim());
    let detail = match presented {
        Some(presented) if is_same(presented, token.expose_secret()) => return Ok(()),
        Some(_) => "the token is not the one in http.token_file",
        None => "send the token of http.token_file: `Authorization: Bearer …`",
    };
    Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail))
}

/// Compares in a time that depends on the lengths alone.
fn is_same(presented: &str, token: &str) -> bool {
    presented.as_bytes().ct_eq(token.as_bytes()).into()
}

fn local(request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    let authority = request.uri().authority().map(axum::http::uri::Authority::as_str);
    let host = authority
        .or_else(|| text(headers, header::HOST.as_str()))
        .unwrap_or_default();
    if !is_loopback(host) {
        return Err(forbidden(format!(
            "without a token only callers on this machine are served, not `{host}`: set http.token_file"
        )));
    }
    let is_foreign_page = text(headers, header::ORIGIN.as_str())
        .is_some_and(|origin| origin.split_once("://").is_none_or(|(_, origin)| origin != host));
    if is_foreign_page || is_cross_site(request) {
        return Err(forbidden(
            "without a token, pages of other sites are not served".to_owned(),
        ));
    }
    Ok(())
}

/// Whether a page of another site asks. Following a link to us is fine: it changes nothing and shows that page nothing.
fn is_cross_site(request: &Request) -> bool {
    let site = text(request.headers(), "sec-fetch-site").unwrap_or("none");
    let is_link = matches!(*request.method(), Method::GET | Method::HEAD)
        && text(request.headers(), "sec-fetch-mode") == Some("navigate");
    !matches!(site, "none" | "same-origin") && !is_link
}

/// Whether an authority (`host` or `host:port`) is this machine.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
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
    use axum::body::Body;

    use super::*;

    fn request(method: &str, headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().method(method).uri("/v1/history");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    fn status(guard: &Guard, method: &str, headers: &[(&str, &str)]) -> u16 {
        let admitted = guard.admit(&request(method, headers));
        admitted.map_or_else(|problem| problem.status.as_u16(), |()| 200)
    }

    #[test]
    fn only_the_token_opens() {
        let guard = Guard::new(Some("s3cret".into()));
        assert_eq!(status(&guard, "GET", &[]), 401);
        assert_eq!(status(&guard, "GET", &[("authorization", "Bearer s3cre")]), 401);
        assert_eq!(status(&guard, "GET", &[("authorization", "Bearer s3crets")]), 401);
        assert_eq!(status(&guard, "GET", &[("authorization", "Basic s3cret")]), 401);
        assert_eq!(status(&guard, "GET", &[("authorization", "bearer s3cret")]), 200);
    }

    #[test]
    fn a_name_that_points_at_loopback_is_refused_without_a_token() {
        let guard = Guard::new(None);
        for host in [
            "127.0.0.1:8085",
            "localhost:8085",
            "[::1]:8085",
            "localhost",
            "[::1]",
        ] {
            assert_eq!(status(&guard, "GET", &[("host", host)]), 200, "{host}");
        }
        for host in ["evil.example:8085", "127.0.0.1.evil.example", "10.0.0.1:8085", ""] {
            assert_eq!(status(&guard, "GET", &[("host", host)]), 403, "{host}");
        }
        assert_eq!(status(&guard, "GET", &[]), 403);
    }

    #[test]
    fn a_page_of_another_site_is_refused_without_a_token() {
        let guard = Guard::new(None);
        let host = ("host", "127.0.0.1:8085");
        let own = ("origin", "http://127.0.0.1:8085");
        assert_eq!(status(&guard, "POST", &[host, own]), 200);
        for origin in ["http://evil.example", "null", "http://127.0.0.1:3000"] {
            assert_eq!(
                status(&guard, "POST", &[host, ("origin", origin)]),
                403,
                "{origin}"
            );
        }
        let cross = ("sec-fetch-site", "cross-site");
        assert_eq!(status(&guard, "POST", &[host, cross]), 403);
        assert_eq!(
            status(&guard, "GET", &[host, cross, ("sec-fetch-mode", "no-cors")]),
            403
        );
    }

    #[test]
    fn following_a_link_from_another_site_is_fine() {
        let headers = [
            ("host", "localhost:8085"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
        ];
        assert_eq!(status(&Guard::new(None), "GET", &headers), 200);
        assert_eq!(status(&Guard::new(None), "POST", &headers), 403);
    }
}
