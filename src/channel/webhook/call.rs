//! One HTTP call: what came back, or how far it got.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body::Frame;
use http_body::SizeHint;
use reqwest::Client;
use reqwest::header::CONTENT_TYPE;
use reqwest::header::HeaderMap;
use reqwest::header::HeaderValue;
use tokio_rustls::rustls::ClientConfig;
use url::Url;

use crate::channel::http;
use crate::channel::http::Answer;
use crate::channel::webhook::Guard;
use crate::channel::webhook::Scheme;
use crate::channel::webhook::resolver::Blocked;
use crate::channel::webhook::resolver::Lookup;
use crate::channel::webhook::resolver::Resolver;
use crate::clock::Clock;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It must not be called.
    Blocked,
    /// Nothing of the call was written.
    Unreached(String),
    /// The call was being written or was over, and may have arrived.
    Lost(String),
}

/// Makes calls, each as the guard lets it.
#[derive(Debug)]
pub struct Caller {
    https: Client,
    http: Client,
    clock: Arc<dyn Clock>,
}

impl Caller {
    /// A caller that resolves names by `lookup`.
    ///
    /// # Errors
    /// When the clients cannot be made.
    pub fn new(
        guard: &Guard,
        tls: &ClientConfig,
        lookup: &Lookup,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, reqwest::Error> {
        let client = |scheme| {
            let resolver = Resolver::new(Arc::clone(lookup), guard.clone(), scheme);
            Client::builder()
                // A proxy would resolve names by itself, and a redirect may lead to where the guard does not look.
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .dns_resolver(Arc::new(resolver))
                .http1_only()
                .tcp_nodelay(true)
                .pool_idle_timeout(http::KEPT)
                .referer(false)
                .user_agent(concat!("Carillon/", env!("CARGO_PKG_VERSION")))
                .tls_backend_preconfigured(tls.clone())
                .build()
        };
        Ok(Self {
            https: client(Scheme::Https)?,
            http: client(Scheme::Http)?,
            clock,
        })
    }

    /// Posts a JSON document. All of it ends within `limit`.
    pub async fn post(
        &self,
        (url, scheme): (Url, Scheme),
        headers: HeaderMap,
        document: String,
        limit: Duration,
    ) -> Result<Answer, Failure> {
        let until = self.clock.elapsed() + limit;
        let client = match scheme {
            Scheme::Https => &self.https,
            Scheme::Http => &self.http,
        };
        let begun = Arc::new(AtomicBool::new(false));
        let sending = client
            .post(url)
            .headers(headers)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(reqwest::Body::wrap(Document {
                bytes: Some(document.into()),
                begun: Arc::clone(&begun),
            }))
            .send();
        match tokio::time::timeout(limit, sending).await {
            Ok(Ok(response)) => {
                // What it says beside that it failed, nobody asks for.
                let left = if response.status().is_success() {
                    until.saturating_sub(self.clock.elapsed())
                } else {
                    Duration::ZERO
                };
                Ok(Answer::read(response, left, self.clock.now()).await)
            }
            Ok(Err(error)) => Err(failure(error, begun.load(Ordering::SeqCst))),
            Err(_) if begun.load(Ordering::SeqCst) => Err(Failure::Lost("no answer came in time".to_owned())),
            Err(_) => Err(Failure::Unreached("no connection came about in time".to_owned())),
        }
    }
}

/// How far a call got that has no answer.
fn failure(error: reqwest::Error, begun: bool) -> Failure {
    let mut causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    if causes.any(<dyn std::error::Error>::is::<Blocked>) {
        return Failure::Blocked;
    }
    let told = http::causes(error);
    if begun {
        Failure::Lost(told)
    } else {
        Failure::Unreached(told)
    }
}

/// The document on its way, which notes when it is asked for: before that, nothing of it can have arrived.
#[derive(Debug)]
struct Document {
    bytes: Option<Bytes>,
    begun: Arc<AtomicBool>,
}

impl Body for Document {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.begun.store(true, Ordering::SeqCst);
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
