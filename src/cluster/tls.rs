//! Encryption between nodes. Both sides show a certificate of the cluster's own authority, so that holding one is what
//! makes a peer; the secret may be asked for besides.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::server::WebPkiClientVerifier;

use super::formation::StartError;

/// What a node encrypts with: PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Whose certificates make a peer. An authority of the cluster's own: whoever it certifies is let in.
    pub ca_file: PathBuf,
    /// This node's certificate, with the chain if there is one. It names the host under which peers reach this node, and
    /// is good for both ends of a connection.
    pub certificate_file: PathBuf,
    /// The key of it.
    pub key_file: PathBuf,
}

impl Tls {
    /// Both ends of a connection.
    pub(super) fn load(&self) -> Result<(ClientConfig, TlsAcceptor), StartError> {
        let provider = Arc::new(ring::default_provider());
        let authority = Arc::new(self.authority()?);
        let mine = |error: tokio_rustls::rustls::Error| unusable(&self.certificate_file, &error);
        let client = client_builder(&provider)
            .with_root_certificates(Arc::clone(&authority))
            .with_client_auth_cert(self.chain()?, self.key()?)
            .map_err(mine)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(authority, Arc::clone(&provider))
            .build()
            .map_err(|error| unusable(&self.ca_file, &error))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(mine)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain()?, self.key()?)
            .map_err(mine)?;
        Ok((client, TlsAcceptor::from(Arc::new(server))))
    }

    fn authority(&self) -> Result<RootCertStore, StartError> {
        let mut authority = RootCertStore::empty();
        for certificate in certificates(&self.ca_file)? {
            authority
                .add(certificate)
                .map_err(|error| unusable(&self.ca_file, &error))?;
        }
        Ok(authority)
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, StartError> {
        certificates(&self.certificate_file)
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, StartError> {
        PrivateKeyDer::from_pem_file(&self.key_file).map_err(|error| unusable(&self.key_file, &error))
    }
}

/// A client that trusts nobody, for a cluster that talks in the clear.
pub(super) fn none() -> ClientConfig {
    client_builder(&Arc::new(ring::default_provider()))
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth()
}

fn client_builder(
    provider: &Arc<CryptoProvider>,
) -> tokio_rustls::rustls::ConfigBuilder<ClientConfig, tokio_rustls::rustls::WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .expect("ring knows the versions that rustls has by default")
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, StartError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let certificates: Vec<_> = read.map_err(|error| unusable(file, &error))?;
    if certificates.is_empty() {
        return Err(unusable(file, &"it holds no certificate"));
    }
    Ok(certificates)
}

fn unusable(file: &Path, error: &dyn std::fmt::Display) -> StartError {
    StartError::Tls(file.to_owned(), error.to_string())
}
