//! Encryption between nodes. Both sides show a certificate of the cluster's own authority, so that holding one is what
//! makes a peer; the secret may be asked for besides.

use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::sync::mpsc;
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
use tokio_rustls::server::TlsStream;

use super::formation::StartError;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Handshakes under way at one time; a cluster is small.
const HANDSHAKES: usize = 64;

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

/// Accepts encrypted connections. Handshakes run beside each other, so that a silent caller holds up nobody.
pub(super) struct Secured {
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    local: SocketAddr,
}

impl Secured {
    pub(super) fn new(listener: TcpListener, acceptor: TlsAcceptor) -> std::io::Result<Self> {
        let local = listener.local_addr()?;
        let (shaken, ready) = mpsc::channel(HANDSHAKES);
        tokio::spawn(accept(listener, acceptor, shaken));
        Ok(Self { ready, local })
    }
}

async fn accept(
    mut listener: TcpListener,
    acceptor: TlsAcceptor,
    shaken: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let slots = Arc::new(Semaphore::new(HANDSHAKES));
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        // It logs and waits by itself when the system is out of something.
        let (stream, caller) = Listener::accept(&mut listener).await;
        let (acceptor, shaken) = (acceptor.clone(), shaken.clone());
        tokio::spawn(async move {
            let _slot = slot;
            match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => drop(shaken.send((stream, caller)).await),
                Ok(Err(error)) => tracing::debug!(%error, "a caller was not let in"),
                Err(_) => tracing::debug!("a caller did not finish its handshake"),
            }
        });
    }
}

impl Listener for Secured {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            // The task that accepts never ends; without it there is nobody to wait for.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.local)
    }
}
