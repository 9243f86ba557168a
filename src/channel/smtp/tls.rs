//! Whom we trust: the certificate authorities of the system and those of `ca_file`.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::InvalidDnsNameError;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::pki_types::pem;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use crate::channel::smtp::Config;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The host is neither a DNS name nor an IP address.
    #[error("`{host}` is no name that a certificate can carry: use the relay's DNS name or IP address")]
    Host {
        /// What was configured.
        host: String,
        /// Why.
        source: InvalidDnsNameError,
    },
    /// The file of certificate authorities cannot be read.
    #[error("cannot read certificates from `{}`: give a PEM file, or remove `ca_file`", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// A certificate in the file cannot be used.
    #[error("`{}` holds a certificate that cannot be used: {source}", path.display())]
    Certificate {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: tokio_rustls::rustls::Error,
    },
    /// Nobody is trusted, so no relay can be.
    #[error("no certificate authorities found: install the system's (`ca-certificates`) or set `ca_file`")]
    NoRoots,
}

/// Makes encrypted connections to one relay.
#[derive(Clone)]
pub(super) struct Encryption {
    pub(super) connector: TlsConnector,
    pub(super) name: ServerName<'static>,
}

impl Encryption {
    pub(super) fn for_relay(config: &Config) -> Result<Self, TlsError> {
        let name = ServerName::try_from(config.host.clone()).map_err(|source| TlsError::Host {
            host: config.host.clone(),
            source,
        })?;
        let client = trusting(config.ca_file.as_deref())?;
        Ok(Self {
            connector: TlsConnector::from(Arc::new(client)),
            name,
        })
    }
}

/// What trusts the authorities of the system and those of `ca_file`.
///
/// # Errors
/// When the file cannot be used, or nobody is trusted.
pub fn trusting(ca_file: Option<&Path>) -> Result<ClientConfig, TlsError> {
    Ok(
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring serves TLS 1.2 and 1.3")
            .with_root_certificates(roots(ca_file)?)
            .with_no_client_auth(),
    )
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    // Some system stores hold certificates that rustls refuses; the others still count.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        add_file(&mut roots, path)?;
    }
    if roots.is_empty() {
        return Err(TlsError::NoRoots);
    }
    Ok(roots)
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), TlsError> {
    let unreadable = |source| TlsError::File {
        path: path.to_owned(),
        source,
    };
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    if certificates.is_empty() {
        return Err(unreadable(pem::Error::NoItemsFound));
    }
    for certificate in certificates {
        roots.add(certificate).map_err(|source| TlsError::Certificate {
            path: path.to_owned(),
            source,
        })?;
    }
    Ok(())
}
