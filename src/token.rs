//! Capability tokens: who was handed a message may speak of that message, and of nothing else. A token is a MAC of the
//! trigger's id and of what it is good for, under a secret that the store keeps: so no token is kept, every node knows
//! them all, and they are the same on every retry.
//!
//! Tokens that people and endpoints hold are also bound to the link epoch of the owner, which the store raises when an
//! address changes or the owner is disabled: all that were made before are dead. Receipts are the provider's, and are not.

pub mod access;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::RwLock;

use chrono::DateTime;
use chrono::Utc;
use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// Under which name the store remembers the secret: alone, or followed by the one before it and the millisecond since 1970
/// until which that one is good.
pub const SECRET: &str = "capability secret";

/// Bytes of a token: 128 bits cannot be guessed.
const LENGTH: usize = 16;

/// What a token is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// Say how the work that a webhook handed over ended, in this link epoch of its owner.
    Complete(i64),
    /// Say what became of a message that this provider took.
    Receipt(&'a str),
    /// Answer a reminder from the message itself, in this link epoch of its owner.
    Answer(i64),
}

impl Purpose<'_> {
    /// The name, and the provider or the epoch.
    fn parts(&self) -> (&str, Cow<'_, str>) {
        match self {
            Self::Complete(epoch) => ("complete", epoch.to_string().into()),
            Self::Receipt(provider) => ("receipt", (*provider).into()),
            Self::Answer(epoch) => ("answer", epoch.to_string().into()),
        }
    }
}

/// Makes tokens, and knows them again.
#[derive(Clone)]
pub struct Tokens {
    secrets: Arc<RwLock<Secrets>>,
}

/// The secret in force, and the one before it with the millisecond since 1970 until which it is good.
struct Secrets {
    current: SecretString,
    before: Option<(SecretString, i64)>,
}

impl Secrets {
    fn read(remembered: &str) -> Self {
        let mut parts = remembered.split(' ');
        let current = parts.next().unwrap_or_default().into();
        let before = parts
            .next()
            .zip(parts.next().and_then(|until| until.parse().ok()));
        Self {
            current,
            before: before.map(|(secret, until)| (secret.into(), until)),
        }
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    /// Tokens under the secrets that the store remembers as [`SECRET`].
    pub fn new(remembered: &str) -> Self {
        Self {
            secrets: Arc::new(RwLock::new(Secrets::read(remembered))),
        }
    }

    /// Takes what the store remembers now: another node may have rotated the secret.
    pub fn follow(&self, remembered: &str) {
        *self.secrets.write().expect("no holder panics") = Secrets::read(remembered);
    }

    /// What the store is to remember once `fresh` is the secret, and the one before it is good until `until`. What was
    /// before that one is good no more.
    pub fn rotated(remembered: &str, fresh: &str, until: DateTime<Utc>) -> String {
        let current = remembered.split(' ').next().unwrap_or_default();
        format!("{fresh} {current} {}", until.timestamp_millis())
    }

    /// A secret that nobody can guess.
    ///
    /// # Errors
    ///
    /// When the system has no random numbers to give.
    pub fn fresh_secret() -> Result<String, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(hex(&bytes))
    }

    /// The token for the trigger with this id: 32 hexadecimal digits.
    pub fn token(&self, id: &str, purpose: Purpose<'_>) -> String {
        let secrets = self.secrets.read().expect("no holder panics");
        token(&secrets.current, id, purpose)
    }

    /// Whether `presented` is that token, under the secret in force or the one before it while that is good; takes as long
    /// whatever it is, but for its length.
    pub fn check(&self, id: &str, purpose: Purpose<'_>, presented: &str, now: DateTime<Utc>) -> bool {
        let secrets = self.secrets.read().expect("no holder panics");
        let before = secrets.before.as_ref();
        let before = before.filter(|(_, until)| now.timestamp_millis() < *until);
        let good = [Some(&secrets.current), before.map(|(secret, _)| secret)];
        good.into_iter().flatten().any(|secret| {
            token(secret, id, purpose)
                .as_bytes()
                .ct_eq(presented.as_bytes())
                .into()
        })
    }
}

fn token(secret: &SecretString, id: &str, purpose: Purpose<'_>) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes()).expect("any key will do");
    let (name, of) = purpose.parts();
    for part in [name, &of, id] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    hex(&mac.finalize().into_bytes()[..LENGTH])
}

/// The addresses that messages name, by which whoever got one reaches us.
#[derive(Debug, Clone)]
pub struct Callbacks {
    /// Where we are reached, without a slash at its end.
    base: String,
    tokens: Tokens,
}

impl Callbacks {
    /// Callbacks to the service that is reached at `public_url`.
    pub fn new(public_url: &str, tokens: Tokens) -> Self {
        Self {
            base: public_url.trim_end_matches('/').to_owned(),
            tokens,
        }
    }

    /// Where the work for the trigger with this id is reported as done, in this link epoch of its owner.
    pub fn complete(&self, id: &str, epoch: i64) -> String {
        self.ending(id, epoch, "complete")
    }

    /// Where it is reported as failed.
    pub fn fail(&self, id: &str, epoch: i64) -> String {
        self.ending(id, epoch, "fail")
    }

    /// Where the owner answers the reminder of the trigger with this id, in their link epoch.
    pub fn answer(&self, id: &str, epoch: i64) -> String {
        let token = self.tokens.token(id, Purpose::Answer(epoch));
        format!("{}/answer/{id}/{token}", self.base)
    }

    /// Where `provider` says what became of the message for the trigger with this id.
    pub fn receipt(&self, provider: &str, id: &str) -> String {
        let token = self.tokens.token(id, Purpose::Receipt(provider));
        format!("{}/v1/receipts/{provider}/{id}/{token}", self.base)
    }

    fn ending(&self, id: &str, epoch: i64, verb: &str) -> String {
        let token = self.tokens.token(id, Purpose::Complete(epoch));
        format!("{}/v1/deliveries/{id}/{verb}?token={token}", self.base)
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn tokens() -> Tokens {
        Tokens::new("0123456789abcdef")
    }

    #[test]
    fn a_token_opens_what_it_was_made_for_and_nothing_else() {
        let token = tokens().token("aa", Purpose::Receipt("kannel"));
        assert_eq!(token.len(), 32);
        assert!(tokens().check("aa", Purpose::Receipt("kannel"), &token, NOW));
        assert!(!tokens().check("ab", Purpose::Receipt("kannel"), &token, NOW));
        assert!(!tokens().check("aa", Purpose::Receipt("twilio"), &token, NOW));
        assert!(!tokens().check("aa", Purpose::Complete(7), &token, NOW));
        assert!(!tokens().check("aa", Purpose::Receipt("kannel"), "", NOW));
        assert!(!tokens().check("aa", Purpose::Receipt("kannel"), &token[..31], NOW));
        assert!(!Tokens::new("another").check("aa", Purpose::Receipt("kannel"), &token, NOW));
    }

    #[test]
    fn the_parts_of_a_token_cannot_be_shifted_into_each_other() {
        let token = tokens().token("bc", Purpose::Receipt("a"));
        assert!(!tokens().check("c", Purpose::Receipt("ab"), &token, NOW));
    }

    #[test]
    fn a_token_is_the_hmac_that_others_compute() {
        // printf '\0\0\0\0\0\0\0\6answer\0\0\0\0\0\0\0\0017\0\0\0\0\0\0\0\2aa' | openssl dgst -sha256 -hmac 0123456789abcdef
        assert_eq!(
            tokens().token("aa", Purpose::Answer(7)),
            "fa741f9bc0608fea0d8fabe092b5a4f2"
        );
    }

    #[test]
    fn token_of_another_epoch_is_refused() {
        let token = tokens().token("aa", Purpose::Answer(7));
        assert!(tokens().check("aa", Purpose::Answer(7), &token, NOW));
        assert!(!tokens().check("aa", Purpose::Answer(8), &token, NOW));
    }

    #[test]
    fn secret_before_is_good_until_its_end_and_the_one_before_that_is_not() {
        let tokens = tokens();
        let first = tokens.token("aa", Purpose::Answer(7));
        let until = NOW + chrono::TimeDelta::hours(24);
        let remembered = Tokens::rotated("0123456789abcdef", "second", until);
        tokens.follow(&remembered);
        let second = tokens.token("aa", Purpose::Answer(7));
        let is_good = |token: &str, now| tokens.check("aa", Purpose::Answer(7), token, now);
        assert_ne!(first, second);
        assert!(is_good(&first, NOW) && is_good(&second, until));
        assert!(!is_good(&first, until));

        tokens.follow(&Tokens::rotated(&remembered, "third", until));

        assert!(!is_good(&first, NOW) && is_good(&second, NOW));
    }

    #[test]
    fn secrets_differ() {
        let (one, other) = (Tokens::fresh_secret().unwrap(), Tokens::fresh_secret().unwrap());
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
    }

    #[test]
    fn callbacks_lead_to_the_public_address() {
        let callbacks = Callbacks::new("https://reminders.example.org/", tokens());
        let token = tokens().token("aa", Purpose::Complete(7));
        assert_eq!(
            callbacks.complete("aa", 7),
            format!("https://reminders.example.org/v1/deliveries/aa/complete?token={token}")
        );
        assert_eq!(
            callbacks.fail("aa", 7),
            format!("https://reminders.example.org/v1/deliveries/aa/fail?token={token}")
        );
        let token = tokens().token("aa", Purpose::Receipt("kannel"));
        assert_eq!(
            callbacks.receipt("kannel", "aa"),
            format!("https://reminders.example.org/v1/receipts/kannel/aa/{token}")
        );
    }
}
