//! DKIM (RFC 6376): the mail says by whose key it was signed, so that a receiver can tell it from a forgery.
//!
//! Header and body are signed in their relaxed form, which survives what relays do to white space. `From` is named once more
//! than it occurs, so that nobody can put another one on top.

use std::fmt;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::DateTime;
use chrono::Utc;
use ring::rand::SystemRandom;
use ring::signature;
use ring::signature::Ed25519KeyPair;
use ring::signature::RsaKeyPair;
use sha2::Digest;
use sha2::Sha256;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// The fields that are signed, where the mail has them (RFC 6376 section 5.4.1).
const SIGNED: [&str; 9] = [
    "from",
    "to",
    "subject",
    "date",
    "message-id",
    "references",
    "auto-submitted",
    "mime-version",
    "content-type",
];

/// Characters of the signature on one line.
const WIDTH: usize = 72;

/// Signs mails.
#[derive(Clone)]
pub struct Signer {
    domain: String,
    selector: String,
    key: Arc<Key>,
}

enum Key {
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// Why a key cannot sign.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read, or has no key in it.
    #[error("the file holds no private key as PEM ({0}): make one with `openssl genrsa -out FILE 2048`")]
    Unreadable(String),
    /// The key is of no use.
    #[error("the key cannot sign mail ({0}): use RSA with 2048 to 4096 bits, or Ed25519 as PKCS #8")]
    Unusable(String),
}

impl Signer {
    /// A signer for `domain`, whose public key receivers find in the DNS at `selector._domainkey.domain`.
    ///
    /// # Errors
    /// When the file has no key in it that can sign.
    pub fn from_file(domain: String, selector: String, key_file: &Path) -> Result<Self, KeyError> {
        let der = PrivateKeyDer::from_pem_file(key_file)
            .map_err(|error| KeyError::Unreadable(error.to_string()))?;
        Ok(Self {
            domain,
            selector,
            key: Arc::new(Key::read(&der)?),
        })
    }

    /// Where receivers look for the public key.
    pub fn record(&self) -> String {
        format!("{}._domainkey.{}", self.selector, self.domain)
    }

    /// The mail with a signature on top, made at `now`. `raw` has lines ended by CRLF.
    pub fn sign(&self, raw: &str, now: DateTime<Utc>) -> String {
        let (head, body) = raw.split_once("\r\n\r\n").unwrap_or((raw, ""));
        let fields = fields(head);
        let found = SIGNED.iter().filter_map(|name| {
            let field = fields.iter().rfind(|field| name_of(field) == *name)?;
            Some((*name, relaxed_field(field)))
        });
        let found: Vec<(&str, String)> = found.collect();
        let names: Vec<&str> = found.iter().map(|(name, _)| *name).chain(["from"]).collect();
        let unsigned = format!(
            "DKIM-Signature: v=1; a={}; c=relaxed/relaxed; d={};\r\n s={}; t={};\r\n h={};\r\n bh={};\r\n b=",
            self.key.algorithm(),
            self.domain,
            self.selector,
            now.timestamp(),
            names.join(":\r\n "),
            STANDARD.encode(Sha256::digest(relaxed_body(body))),
        );
        let mut signed: String = found.iter().map(|(_, field)| field.clone() + "\r\n").collect();
        signed.push_str(&relaxed_field(&unsigned));
        let signature = STANDARD.encode(self.key.sign(signed.as_bytes()));
        format!("{unsigned}{}\r\n{raw}", folded(&signature))
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("domain", &self.domain)
            .field("selector", &self.selector)
            .finish_non_exhaustive()
    }
}

impl Key {
    fn read(der: &PrivateKeyDer<'_>) -> Result<Self, KeyError> {
        let unusable = |error: ring::error::KeyRejected| KeyError::Unusable(error.to_string());
        match der {
            PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der())
                .map(Self::Rsa)
                .map_err(unusable),
            PrivateKeyDer::Pkcs8(key) => {
                let key = key.secret_pkcs8_der();
                Ed25519KeyPair::from_pkcs8_maybe_unchecked(key)
                    .map(Self::Ed25519)
                    .or_else(|_| RsaKeyPair::from_pkcs8(key).map(Self::Rsa))
                    .map_err(unusable)
            }
            _ => Err(KeyError::Unusable("it is of another kind".to_owned())),
        }
    }

    const fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "rsa-sha256",
            Self::Ed25519(_) => "ed25519-sha256",
        }
    }

    /// RFC 8463 section 3: Ed25519 signs the hash.
    fn sign(&self, text: &[u8]) -> Vec<u8> {
        match self {
            Self::Ed25519(key) => key.sign(&Sha256::digest(text)).as_ref().to_vec(),
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(
                    &signature::RSA_PKCS1_SHA256,
                    &SystemRandom::new(),
                    text,
                    &mut signature,
                )
                .expect("the room is as long as the modulus");
                signature
            }
        }
    }
}

/// The fields of a header, each with its folded lines.
fn fields(head: &str) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for line in head.split("\r\n") {
        match fields.last_mut() {
            Some(field) if line.starts_with([' ', '\t']) => write!(field, "\r\n{line}").expect("it grows"),
            _ => fields.push(line.to_owned()),
        }
    }
    fields
}

fn name_of(field: &str) -> String {
    let name = field.split_once(':').map_or(field, |(name, _)| name);
    name.trim_end().to_ascii_lowercase()
}

/// RFC 6376 section 3.4.2, without the line's end.
fn relaxed_field(field: &str) -> String {
    let value = field.split_once(':').map_or("", |(_, value)| value);
    format!(
        "{}:{}",
        name_of(field),
        in_single_spaces(&value.replace("\r\n", "")).trim()
    )
}

/// RFC 6376 section 3.4.4.
fn relaxed_body(body: &str) -> String {
    let lines = body.split("\r\n");
    let lines: Vec<String> = lines
        .map(|line| in_single_spaces(line).trim_end_matches(' ').to_owned())
        .collect();
    let last = lines.iter().rposition(|line| !line.is_empty());
    let kept = last.map_or(0, |last| last + 1);
    lines[..kept].iter().map(|line| line.clone() + "\r\n").collect()
}

fn in_single_spaces(text: &str) -> String {
    let mut relaxed = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            ' ' | '\t' if relaxed.ends_with(' ') => {}
            ' ' | '\t' => relaxed.push(' '),
            other => relaxed.push(other),
        }
    }
    relaxed
}

fn folded(signature: &str) -> String {
    let mut folded = String::with_capacity(signature.len() + signature.len() / WIDTH * 3);
    for (place, character) in signature.chars().enumerate() {
        if place > 0 && place % WIDTH == 0 {
            folded.push_str("\r\n ");
        }
        folded.push(character);
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_relays_do_to_white_space_changes_nothing() {
        // The example of RFC 6376 section 3.4.5.
        assert_eq!(relaxed_field("A: X"), "a:X");
        assert_eq!(relaxed_field("B : Y\t\r\n\tZ  "), "b:Y Z");
        assert_eq!(relaxed_body(" C \r\nD \t E\r\n\r\n\r\n"), " C\r\nD E\r\n");
        assert_eq!(relaxed_body("\r\n\r\n"), "");
        assert_eq!(relaxed_body("no end"), "no end\r\n");
    }
}
