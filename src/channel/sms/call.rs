//! One HTTP call to a provider: what it answered, or how far the call got.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use reqwest::Response;
use reqwest::header::RETRY_AFTER;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use tokio_rustls::rustls::ClientConfig;

use crate::channel::sms::request::Request;
use crate::channel::sms::rules::Answer;
use crate::clock::Clock;

/// Bytes of an answer that are read.
const ANSWER: usize = 64 * 1024;

/// How long a connection is kept for the next call: many servers part after five seconds, and a call into the parting is
/// in doubt.
const KEPT: Duration = Duration::from_secs(4);

/// How long a connection may take to be made, at the most half of what the call may take: so that a call that runs out of
/// time while there is no connection yet is known to have sent nothing.
const CONNECT: Duration = Duration::from_secs(5);

/// How the caller shows who it is.
#[derive(Debug, Clone, Default)]
pub enum Auth {
    /// It does not, or the templates do.
    #[default]
    None,
    /// By user name and password.
    Basic(String, SecretString),
    /// By a token.
    Bearer(SecretString),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Nothing of the call was written.
    Unreached(String),
    /// There was no time left to begin.
    TooLate,
    /// The call was being written or was over, and may have arrived.
    Lost(String),
}

/// Calls one provider.
#[derive(Debug)]
pub struct Caller {
    client: Client,
    auth: Auth,
    connect: Duration,
    timeout: Duration,
    clock: Arc<dyn Clock>,
}

impl Caller {
    /// A caller whose calls take at most `timeout`.
    ///
    /// # Errors
    /// When the client cannot be made.
    pub fn new(
        auth: Auth,
        timeout: Duration,
        tls: ClientConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, reqwest::Error> {
        let connect = CONNECT.min(timeout / 2);
        let client = Client::builder()
            .no_proxy()
            // A redirect would carry number, text and password to wherever it leads.
            .redirect(reqwest::redirect::Policy::none())
            .http1_only()
            .tcp_nodelay(true)
            .connect_timeout(connect)
            .pool_idle_timeout(KEPT)
            .referer(false)
            .user_agent(concat!("Carillon/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(tls)
            .build()?;
        Ok(Self {
            client,
            auth,
            connect,
            timeout,
            clock,
        })
    }

    /// Makes the call; all of it ends `within`.
    pub async fn call(&self, request: Request, within: Duration) -> Result<Answer, Failure> {
        let limit = self.timeout.min(within);
        if limit <= self.connect {
            return Err(Failure::TooLate);
        }
        let until = self.clock.elapsed() + limit;
        let mut call = self
            .client
            .request(request.method, request.url)
            .headers(request.headers)
            .timeout(limit);
        call = match &self.auth {
            Auth::None => call,
            Auth::Basic(user, password) => call.basic_auth(user, Some(password.expose_secret())),
            Auth::Bearer(token) => call.bearer_auth(token.expose_secret()),
        };
        if let Some(body) = request.body {
            call = call.body(body);
        }
        let response = call.send().await.map_err(failure)?;
        Ok(self.answer(response, until).await)
    }

    async fn answer(&self, mut response: Response, until: Duration) -> Answer {
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok().map(str::to_owned));
        let left = until.saturating_sub(self.clock.elapsed());
        let body = tokio::time::timeout(left, whole(&mut response)).await;
        Answer {
            status: response.status().as_u16(),
            retry_after,
            body: body.unwrap_or_default(),
        }
    }
}

async fn whole(response: &mut Response) -> Option<String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        if body.len() + chunk.len() > ANSWER {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    Some(String::from_utf8_lossy(&body).into_owned())
}

/// The URL is left out of what is told: it may hold number, text and password.
fn failure(error: reqwest::Error) -> Failure {
    let is_unreached = error.is_connect() || error.is_builder();
    let error = error.without_url();
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let told: Vec<String> = causes.map(ToString::to_string).collect();
    let told = told.join(": ");
    if is_unreached {
        Failure::Unreached(told)
    } else {
        Failure::Lost(told)
    }
}
