//! E-mail addresses, as far as it can be told whether a relay will take them.

use lettre::Address;

/// Bytes of an address at the most (RFC 5321 section 4.5.3.1.3).
const LONGEST: usize = 254;

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
    if !parsed.user().is_ascii() {
        return Err(format!(
            "`{address}` has non-ASCII characters before the `@`: no relay is known to take it, use an ASCII address"
        ));
    }
    Ok(())
}
