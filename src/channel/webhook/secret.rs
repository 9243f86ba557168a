//! Signatures of Standard Webhooks 1.0.0: the receiver knows by them that a call is ours, and when it was made.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use secrecy::ExposeSecret;
use secrecy::SecretSlice;
use sha2::Sha256;

/// What every secret begins with.
const PREFIX: &str = "whsec_";

/// Bytes that a secret may have, by the specification.
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// Secrets at once, while one takes the place of another.
const MOST: usize = 5;

/// The secrets by which calls are signed: one, or several while one takes the place of another.
#[derive(Debug, Clone)]
pub struct Secrets(Vec<SecretSlice<u8>>);

impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        let keys = |secrets: &Self| -> Vec<Vec<u8>> {
            let keys = secrets.0.iter();
            keys.map(|key| key.expose_secret().to_vec()).collect()
        };
        keys(self) == keys(other)
    }
}

impl Eq for Secrets {}

impl Secrets {
    /// Reads secrets, one a line.
    ///
    /// # Errors
    /// Which line is wrong, and the cure; never what it says.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).enumerate();
        let secrets = lines
            .filter(|(_, line)| !line.is_empty())
            .map(|(index, line)| secret(line).map_err(|problem| format!("line {} {problem}", index + 1)))
            .collect::<Result<Vec<_>, _>>()?;
        match secrets.len() {
            0 => Err("there is no secret in it: write one a line".to_owned()),
            1..=MOST => Ok(Self(secrets)),
            many => Err(format!(
                "there are {many} secrets in it: {MOST} are allowed, take out the old ones"
            )),
        }
    }

    /// The value of `webhook-signature` for a call: a signature by each secret.
    pub fn sign(&self, id: &str, timestamp: i64, body: &str) -> String {
        let signed = format!("{id}.{timestamp}.{body}");
        let signatures = self.0.iter().map(|secret| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret())
                .expect("an HMAC takes a key of any length");
            mac.update(signed.as_bytes());
            format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
        });
        signatures.collect::<Vec<_>>().join(" ")
    }
}

fn secret(line: &str) -> Result<SecretSlice<u8>, String> {
    let cure = "write whsec_ and 24 to 64 random bytes in base64, such as from: \
                echo whsec_$(openssl rand -base64 32)";
    let encoded = line
        .strip_prefix(PREFIX)
        .ok_or_else(|| format!("does not begin with {PREFIX}: {cure}"))?;
    let bytes = STANDARD
        .decode(encoded)
        .map_err(|_| format!("is no base64 after {PREFIX}: {cure}"))?;
    if !LENGTHS.contains(&bytes.len()) {
        return Err(format!("has {} bytes: {cure}", bytes.len()));
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of the reference libraries.
    #[test]
    fn the_published_vector_is_signed_as_published() {
        let secrets = Secrets::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();

        let signature = secrets.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            "{\"test\": 2432232314}",
        );

        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn while_a_secret_rotates_both_sign() {
        let [old, new] = [[7_u8; 24], [8; 24]].map(|bytes| format!("{PREFIX}{}", STANDARD.encode(bytes)));
        let of = |text: &str| Secrets::parse(text).unwrap().sign("id", 1, "{}");

        let both = of(&format!("{new}\n\n  {old}\n"));

        assert_eq!(both, format!("{} {}", of(&new), of(&old)));
    }

    #[test]
    fn a_bad_secret_is_named_by_its_line_and_not_quoted() {
        let good = format!("{PREFIX}{}", STANDARD.encode([7; 32]));
        for (text, told) in [
            (String::new(), "there is no secret"),
            (
                format!("{good}\nMfKQ9r8GKYqrTwjU"),
                "line 2 does not begin with whsec_",
            ),
            (format!("\n{PREFIX}?MfKQ9r8"), "line 2 is no base64"),
            (format!("{PREFIX}MfKQ9r8G"), "line 1 has 6 bytes"),
            (format!("{good}\n").repeat(6), "there are 6 secrets"),
        ] {
            let error = Secrets::parse(&text).unwrap_err();
            assert!(error.contains(told), "{error}");
            assert!(!error.contains("MfKQ9r8"), "{error}");
        }
    }
}
