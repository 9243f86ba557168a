//! One HTTP call to a provider: what it answered, or how far the call got.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use tokio_rustls::rustls::ClientConfig;

use crate::channel::http;
use crate::channel::http::Answer;
use crate::channel::sms::request::Request;
use crate::clock::Clock;

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
        let client = Client::builder()
            .no_proxy()
            // A redirect would carry number, text and password to wherever it leads.
            .redirect(reqwest::redirect::Policy::none())
            .http1_only()
            .tcp_nodelay(true)
            .connect_timeout(CONNECT.min(timeout / 2))
            .pool_idle_timeout(http::KEPT)
            .referer(false)
            .user_agent(concat!("Carillon/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(tls)
            .build()?;
        Ok(Self {
            client,
            auth,
            timeout,
            clock,
        })
    }

    /// Makes the call, all of which ends `within`. It is not begun where it would be cut short, since nobody could tell then
    /// whether it arrived.
    pub async fn call(&self, request: Request, within: Duration) -> Result<Answer, Failure> {
        if within < self.timeout {
            return Err(Failure::TooLate);
        }
        let until = self.clock.elapsed() + self.timeout;
        let mut call = self
            .client
            .request(request.method, request.url)
            .headers(request.headers)
            .timeout(self.timeout);
        call = match &self.auth {
            Auth::None => call,
            Auth::Basic(user, password) => call.basic_auth(user, Some(password.expose_secret())),
            Auth::Bearer(token) => call.bearer_auth(token.expose_secret()),
        };
        if let Some(body) = request.body {
            call = call.body(body);
        }
        let response = call.send().await.map_err(failure)?;
        let left = until.saturating_sub(self.clock.elapsed());
        Ok(Answer::read(response, left, self.clock.now()).await)
    }
}

/// How far a call got that has no answer.
fn failure(error: reqwest::Error) -> Failure {
    let is_unreached = error.is_connect() || error.is_builder();
    let told = http::causes(error);
    if is_unreached {
        Failure::Unreached(told)
    } else {
        Failure::Lost(told)
    }
}
