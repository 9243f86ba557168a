//! Numbers in E.164, and which of them may be sent to. Pure.

use std::fmt;
use std::str::FromStr;

use phonenumber::Mode;
use phonenumber::country;

/// A telephone number in E.164: `+`, a country code, 7 to 15 digits in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number(String);

/// Why a text is no number that can be sent to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    /// It is not written as E.164.
    #[error("`{0}` is no E.164 number: write it as +4930123456, or say its `region`, such as \"DE\"")]
    Form(String),
    /// No country has this code.
    #[error("`{0}` has a country code that no country has")]
    Country(String),
    /// It is no number of this region.
    #[error(
        "`{number}` is no number as people write it in `{region}`: write it as E.164, such as +4930123456"
    )]
    National {
        /// What was written.
        number: String,
        /// Where.
        region: String,
    },
    /// There is no such region.
    #[error("unknown region `{0}`: use two letters (ISO 3166), such as \"DE\"")]
    Region(String),
}

impl Number {
    /// The number that people write as `text` in `region`. The region is the person's own: a language says nothing about
    /// where somebody's telephone is. What begins with `+` needs none.
    ///
    /// # Errors
    /// When there is no such number or region.
    pub fn written(text: &str, region: Option<&str>) -> Result<Self, NumberError> {
        let Some(region) = region else {
            return text.parse();
        };
        let country = region
            .to_ascii_uppercase()
            .parse::<country::Id>()
            .map_err(|_| NumberError::Region(region.to_owned()))?;
        if text.starts_with('+') {
            return text.parse();
        }
        let national = || NumberError::National {
            number: text.to_owned(),
            region: region.to_owned(),
        };
        let parsed = phonenumber::parse(Some(country), text).map_err(|_| national())?;
        if !parsed.is_valid() {
            return Err(national());
        }
        parsed.format().mode(Mode::E164).to_string().parse()
    }

    /// As E.164, with its `+`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Without its `+`, as some providers want it.
    pub fn digits(&self) -> &str {
        &self.0[1..]
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Number {
    type Err = NumberError;

    /// Whether somebody has the number is for the provider to say: numbering plans change faster than we are released.
    fn from_str(text: &str) -> Result<Self, NumberError> {
        if !is_e164(text) {
            return Err(NumberError::Form(text.to_owned()));
        }
        phonenumber::parse(None, text).map_err(|_| NumberError::Country(text.to_owned()))?;
        Ok(Self(text.to_owned()))
    }
}

/// `+[1-9][0-9]{6,14}`
fn is_e164(text: &str) -> bool {
    let digits = text.strip_prefix('+').unwrap_or_default();
    (7..=15).contains(&digits.len())
        && !digits.starts_with('0')
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Where messages may go: what is sent to some countries costs a fortune, and who pays is not who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed(Vec<Prefix>);

/// The beginning of numbers: `+49`, or longer, as `+1787` for Puerto Rico.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix('+').unwrap_or_default();
        let fits = (1..=14).contains(&digits.len())
            && !digits.starts_with('0')
            && digits.bytes().all(|byte| byte.is_ascii_digit());
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "`{text}` is no beginning of numbers: write it as \"+49\""
            ))
        }
    }
}

impl Allowed {
    /// Only numbers that begin with one of these.
    pub fn new(prefixes: Vec<Prefix>) -> Self {
        Self(prefixes)
    }

    /// Whether nothing may be sent at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether messages may go there.
    pub fn allows(&self, number: &Number) -> bool {
        self.0.iter().any(|prefix| number.0.starts_with(&prefix.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_e164_is_a_number() {
        for text in ["+4930123456", "+15005550006", "+812345678", "+491711234567"] {
            assert_eq!(text.parse::<Number>().unwrap().as_str(), text);
        }
        for text in [
            "4930123456",
            "+0301234567",
            "+49 30 123456",
            "+123456",
            "+1234567890123456",
            "",
            "+",
            "+4930123456;ext=5",
            "+49３０123456",
            "++4930123456",
        ] {
            assert_eq!(text.parse::<Number>(), Err(NumberError::Form(text.to_owned())));
        }
        assert_eq!(
            "+999123456789".parse::<Number>(),
            Err(NumberError::Country("+999123456789".to_owned()))
        );
    }

    #[test]
    fn what_people_write_needs_their_region() {
        let written = |text, region| Number::written(text, region).map(|number| number.to_string());
        assert_eq!(written("030 123456", Some("DE")).as_deref(), Ok("+4930123456"));
        assert_eq!(
            written("(0171) 123-4567", Some("de")).as_deref(),
            Ok("+491711234567")
        );
        assert_eq!(
            written("0664 1234567", Some("AT")).as_deref(),
            Ok("+436641234567")
        );
        assert_eq!(written("+4930123456", Some("AT")).as_deref(), Ok("+4930123456"));
        assert!(matches!(written("030 123456", None), Err(NumberError::Form(_))));
        assert!(matches!(
            written("12", Some("DE")),
            Err(NumberError::National { .. })
        ));
        assert!(matches!(
            written("030 123456", Some("Germany")),
            Err(NumberError::Region(_))
        ));
    }

    #[test]
    fn nothing_is_allowed_but_what_is_named() {
        let number: Number = "+4930123456".parse().unwrap();
        let allowed = |prefixes: &[&str]| {
            let prefixes = prefixes.iter().map(|prefix| prefix.parse().unwrap());
            Allowed::new(prefixes.collect()).allows(&number)
        };
        assert!(!Allowed::default().allows(&number));
        assert!(allowed(&["+43", "+49"]));
        assert!(!allowed(&["+43", "+491"]));
        for wrong in ["49", "DE", "+", "+0", "", "+49 30"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }
}
