//! E-mail addresses, as far as it can be told whether a relay will take them.

use lettre::Address;

/// Bytes of an address at the most (RFC 5321 section 4.5.3.1.3).
const LONGEST: usize = 254;

/// What may stand before the `@` as it is, beside letters and digits (RFC 5322 section 3.2.3, and the dot).
const UNQUOTED: &[u8] = b"!#$%&'*+-/=?^_`{|}~.";

/// Whether a relay is likely to take it; the error names it and the cure.
pub fn check(address: &str) -> Result<(), String> {
    if address.len() > LONGEST {
        return Err(format!(
            "an address of {} bytes: {LONGEST} are allowed",
            address.len()
        ));
    }
    let parsed = address.parse::<Address>();
    let parsed = parsed.map_err(|error| format!("`{address}` is no e-mail address ({error})"))?;
    let needs_quotes =
        |byte: u8| byte.is_ascii() && !byte.is_ascii_alphanumeric() && !UNQUOTED.contains(&byte);
    if parsed.user().bytes().any(needs_quotes) {
        return Err(format!(
            "`{address}` has characters before the `@` that stand in quotes: many relays refuse that, use an address without"
        ));
    }
    if parsed.domain().starts_with('[') {
        return Err(format!(
            "`{address}` names a machine by its number: use an address with a domain name"
        ));
    }
    if !parsed.user().is_ascii() {
        return Err(format!(
            "`{address}` has non-ASCII characters before the `@`: no relay is known to take it, use an ASCII address"
        ));
    }
    Ok(())
}
