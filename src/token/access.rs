//! Access tokens as programs present them: a word by which people and scanners of leaked secrets know them, and 256 bits
//! that nobody can guess. The store keeps no more than their hash.

use secrecy::SecretString;
use sha2::Digest;
use sha2::Sha256;

/// How every access token begins.
pub const PREFIX: &str = "carillon_";

/// Hexadecimal digits after that.
const DIGITS: usize = 64;

/// A token that nobody has seen yet.
///
/// # Errors
///
/// When the system has no random numbers to give.
pub fn fresh() -> Result<SecretString, getrandom::Error> {
    let mut bytes = [0; DIGITS / 2];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{PREFIX}{}", super::hex(&bytes)).into())
}

/// By what the store knows a token; none where this cannot be one. Who looks a token up by its hash tells by the time that
/// takes no more than how the hash begins, from which nothing of the token follows.
pub fn hash(presented: &str) -> Option<[u8; 32]> {
    let digits = presented.strip_prefix(PREFIX)?;
    let is_token = digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_token.then(|| Sha256::digest(presented).into())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn a_token_is_known_by_its_hash_and_nothing_else_is_one() {
        let (one, other) = (fresh().unwrap(), fresh().unwrap());
        let (one, other) = (one.expose_secret(), other.expose_secret());
        assert_ne!(one, other);
        assert_eq!(one.len(), 73);
        assert_ne!(hash(one).unwrap(), hash(other).unwrap());
        // printf carillon_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef | sha256sum
        let known = format!("carillon_{}", "0123456789abcdef".repeat(4));
        assert_eq!(super::super::hex(&hash(&known).unwrap()), HASH);
        for wrong in [
            "",
            "carillon_",
            &one[..72],
            &one[9..],
            &format!("{one}0"),
            &one.replace("n_", "n-"),
        ] {
            assert!(hash(wrong).is_none(), "{wrong}");
        }
    }

    const HASH: &str = "75e84030ac12abc2a6015348e1ef47d0da7e1086a058954ee23e5bd571dc8f60";
}
