//! Capability tokens: who was handed a message may speak of that message, and of nothing else. A token is a MAC of the
//! trigger's id and of what it is good for, under a secret that the store keeps: so no token is kept, every node knows
//! them all, and they are the same on every retry.

pub mod access;

use std::fmt;
use std::sync::Arc;

use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// Under which name the store remembers the secret.
pub const SECRET: &str = "capability secret";

/// Bytes of a token: 128 bits cannot be guessed.
const LENGTH: usize = 16;

/// What a token is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// Say how the work that a webhook handed over ended.
    Complete,
    /// Say what became of a message that this provider took.
    Receipt(&'a str),
    /// Answer a reminder from the message itself.
    Answer,
}

impl Purpose<'_> {
    /// The name, and the provider where there is one.
    const fn parts(&self) -> (&str, &str) {
        match self {
            Self::Complete => ("complete", ""),
            Self::Receipt(provider) => ("receipt", provider),
            Self::Answer => ("answer", ""),
        }
    }
}

/// Makes tokens, and knows them again.
#[derive(Clone)]
pub struct Tokens {
    secret: Arc<SecretString>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    /// Tokens under this secret.
    pub fn new(secret: String) -> Self {
        Self {
            secret: Arc::new(secret.into()),
        }
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
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.secret.expose_secret().as_bytes()).expect("any key will do");
        let (name, provider) = purpose.parts();
        for part in [name, provider, id] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        hex(&mac.finalize().into_bytes()[..LENGTH])
    }

    /// Whether `presented` is that token; takes as long whatever it is, but for its length.
    pub fn check(&self, id: &str, purpose: Purpose<'_>, presented: &str) -> bool {
        let token = self.token(id, purpose);
        token.as_bytes().ct_eq(presented.as_bytes()).into()
    }
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

    /// Where the work for the trigger with this id is reported as done.
    pub fn complete(&self, id: &str) -> String {
        self.ending(id, "complete")
    }

    /// Where it is reported as failed.
    pub fn fail(&self, id: &str) -> String {
        self.ending(id, "fail")
    }

    /// Where the owner answers the reminder of the trigger with this id.
    pub fn answer(&self, id: &str) -> String {
        let token = self.tokens.token(id, Purpose::Answer);
        format!("{}/answer/{id}/{token}", self.base)
    }

    /// Where `provider` says what became of the message for the trigger with this id.
    pub fn receipt(&self, provider: &str, id: &str) -> String {
        let token = self.tokens.token(id, Purpose::Receipt(provider));
        format!("{}/v1/receipts/{provider}/{id}/{token}", self.base)
    }

    fn ending(&self, id: &str, verb: &str) -> String {
        let token = self.tokens.token(id, Purpose::Complete);
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

    fn tokens() -> Tokens {
        Tokens::new("0123456789abcdef".to_owned())
    }

    #[test]
    fn a_token_opens_what_it_was_made_for_and_nothing_else() {
        let token = tokens().token("aa", Purpose::Receipt("kannel"));
        assert_eq!(token.len(), 32);
        assert!(tokens().check("aa", Purpose::Receipt("kannel"), &token));
        assert!(!tokens().check("ab", Purpose::Receipt("kannel"), &token));
        assert!(!tokens().check("aa", Purpose::Receipt("twilio"), &token));
        assert!(!tokens().check("aa", Purpose::Complete, &token));
        assert!(!tokens().check("aa", Purpose::Receipt("kannel"), ""));
        assert!(!tokens().check("aa", Purpose::Receipt("kannel"), &token[..31]));
        assert!(!Tokens::new("another".to_owned()).check("aa", Purpose::Receipt("kannel"), &token));
    }

    #[test]
    fn the_parts_of_a_token_cannot_be_shifted_into_each_other() {
        let token = tokens().token("bc", Purpose::Receipt("a"));
        assert!(!tokens().check("c", Purpose::Receipt("ab"), &token));
    }

    #[test]
    fn a_token_is_the_hmac_that_others_compute() {
        // printf '\0\0\0\0\0\0\0\6answer\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\2aa' | openssl dgst -sha256 -hmac 0123456789abcdef
        assert_eq!(
            tokens().token("aa", Purpose::Answer),
            "bb6390a18ffe7b94adf19314ad367b88"
        );
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
        let token = tokens().token("aa", Purpose::Complete);
        assert_eq!(
            callbacks.complete("aa"),
            format!("https://reminders.example.org/v1/deliveries/aa/complete?token={token}")
        );
        assert_eq!(
            callbacks.fail("aa"),
            format!("https://reminders.example.org/v1/deliveries/aa/fail?token={token}")
        );
        let token = tokens().token("aa", Purpose::Receipt("kannel"));
        assert_eq!(
            callbacks.receipt("kannel", "aa"),
            format!("https://reminders.example.org/v1/receipts/kannel/aa/{token}")
        );
    }
}
