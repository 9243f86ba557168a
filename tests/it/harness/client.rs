//! How tests call: in the clear. A `reqwest::Client::new` would look for a crypto provider of the process.

use std::sync::Arc;

use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::crypto::ring;

/// A client.
pub fn client() -> reqwest::Client {
    client_builder().build().expect("a client needs nothing")
}

/// A client that is not done yet.
pub fn client_builder() -> reqwest::ClientBuilder {
    let trusts_nobody = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring knows the usual versions")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().tls_backend_preconfigured(trusts_nobody)
}
