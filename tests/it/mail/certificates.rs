//! A certificate authority for one test, made by openssl so that no key is kept and none expires.

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// An authority and a relay's certificate by it, for `127.0.0.1`.
pub struct Authority {
    folder: tempfile::TempDir,
}

impl Authority {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        openssl(folder.path(), "ca", &["-addext", "keyUsage=keyCertSign"]);
        let relay = [
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ];
        openssl(folder.path(), "relay", &relay);
        Self { folder }
    }

    /// The authority's own certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// The relay's certificate.
    pub fn certificate_file(&self) -> PathBuf {
        self.folder.path().join("relay.pem")
    }

    /// Its key.
    pub fn key_file(&self) -> PathBuf {
        self.folder.path().join("relay.key")
    }

    /// What the relay encrypts with.
    pub fn acceptor(&self) -> TlsAcceptor {
        let certificate = CertificateDer::from_pem_file(self.folder.path().join("relay.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(self.folder.path().join("relay.key")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

fn openssl(folder: &Path, name: &str, more: &[&str]) {
    let output = Command::new("openssl")
        .current_dir(folder)
        .args([
            "req",
            "-x509",
            "-nodes",
            "-days",
            "2",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args([
            "-subj",
            &format!("/CN={name}"),
            "-keyout",
            &format!("{name}.key"),
            "-out",
            &format!("{name}.pem"),
        ])
        .args(more)
        .output()
        .expect("openssl is installed");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
