//! How much room a text takes as a text message (3GPP TS 23.038 and 23.040). Pure.
//!
//! A text whose characters are all in the GSM alphabet takes 7 bits each, 160 to a message; one other character, such as a
//! typographic quote, and all take 16 bits, 70 to a message. What is longer travels in parts, each with less room, and
//! neither an escape pair nor a surrogate pair is divided between two.

/// Parts that a message may have at the most: each is paid for.
pub const MOST_PARTS: usize = 3;

/// In which alphabet a text travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alphabet {
    /// The GSM default alphabet: 7 bits, or twice that for the characters of its extension table.
    Gsm7,
    /// UTF-16: 16 bits, or twice that for what is beyond the basic plane.
    Ucs2,
}

/// The basic table of the GSM default alphabet, without the escape.
const BASIC: &str = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§\
                     ¿abcdefghijklmnopqrstuvwxyzäöñüà";

/// Its extension table: an escape and a character.
const EXTENSION: &str = "^{}\\[~]|€\u{c}";

impl Alphabet {
    /// The alphabet that `text` needs.
    pub fn of(text: &str) -> Self {
        if text.chars().all(|c| width_in_gsm7(c).is_some()) {
            Self::Gsm7
        } else {
            Self::Ucs2
        }
    }

    /// Units in a message of one part, and in each of several.
    const fn room(self) -> (usize, usize) {
        match self {
            Self::Gsm7 => (160, 153),
            Self::Ucs2 => (70, 67),
        }
    }

    fn width(self, c: char) -> usize {
        match self {
            Self::Gsm7 => width_in_gsm7(c).unwrap_or(2),
            Self::Ucs2 => c.len_utf16(),
        }
    }
}

/// In how many parts `text` travels.
pub fn parts(text: &str) -> usize {
    let alphabet = Alphabet::of(text);
    let (alone, each) = alphabet.room();
    let whole: usize = text.chars().map(|c| alphabet.width(c)).sum();
    if whole <= alone {
        return 1;
    }
    let (mut parts, mut used) = (1, 0);
    for width in text.chars().map(|c| alphabet.width(c)) {
        if used + width > each {
            parts += 1;
            used = 0;
        }
        used += width;
    }
    parts
}

/// `text` with plain characters instead of typographic ones where that lets it travel in the GSM alphabet; else as it is.
pub fn plain(text: &str) -> String {
    let plain: String = text.chars().fold(String::new(), |mut plain, c| {
        match plain_of(c) {
            Some(replacement) => plain.push_str(replacement),
            None => plain.push(c),
        }
        plain
    });
    match Alphabet::of(&plain) {
        Alphabet::Gsm7 => plain,
        Alphabet::Ucs2 => text.to_owned(),
    }
}

fn width_in_gsm7(c: char) -> Option<usize> {
    if BASIC.contains(c) {
        Some(1)
    } else {
        EXTENSION.contains(c).then_some(2)
    }
}

/// What stands in for a typographic character without a change of meaning.
const fn plain_of(c: char) -> Option<&'static str> {
    Some(match c {
        '“' | '”' | '„' | '‟' | '«' | '»' | '″' => "\"",
        '‘' | '’' | '‚' | '‛' | '‹' | '›' | '′' | '´' | '`' => "'",
        '‐' | '‑' | '‒' | '–' | '—' | '―' | '−' => "-",
        '…' => "...",
        '•' | '·' => "*",
        '\t' | '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => " ",
        '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}' => "",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_alphabet_has_128_characters_with_its_escape() {
        assert_eq!((BASIC.chars().count(), EXTENSION.chars().count()), (127, 10));
    }

    #[test]
    fn one_message_holds_160_or_70_and_a_part_153_or_67() {
        for (text, expected) in [
            (String::new(), 1),
            ("a".repeat(160), 1),
            ("a".repeat(161), 2),
            ("a".repeat(306), 2),
            ("a".repeat(307), 3),
            ("a".repeat(459), 3),
            ("a".repeat(460), 4),
            ("я".repeat(70), 1),
            ("я".repeat(71), 2),
            ("я".repeat(134), 2),
            ("я".repeat(135), 3),
            ("я".repeat(201), 3),
            ("я".repeat(202), 4),
            ("’".to_owned() + &"a".repeat(69), 1),
            ("’".to_owned() + &"a".repeat(70), 2),
        ] {
            assert_eq!(parts(&text), expected, "{} characters", text.chars().count());
        }
    }

    #[test]
    fn a_pair_is_never_divided() {
        assert_eq!((parts(&"€".repeat(80)), parts(&"€".repeat(81))), (1, 2));
        // 152 units and an escape pair: the pair moves to the next part as a whole, and so does one unit of room.
        let pair_at_the_end = "a".repeat(152) + "€";
        assert_eq!(parts(&(pair_at_the_end.clone() + &"a".repeat(151))), 2);
        assert_eq!(parts(&(pair_at_the_end + &"a".repeat(152))), 3);
        let surrogates_at_the_end = "я".repeat(66) + "🎂";
        assert_eq!(parts(&(surrogates_at_the_end.clone() + &"я".repeat(65))), 2);
        assert_eq!(parts(&(surrogates_at_the_end + &"я".repeat(66))), 3);
    }

    #[test]
    fn typography_becomes_plain_where_that_helps() {
        assert_eq!(plain("“Jo’s – plan”…\u{a0}ok"), "\"Jo's - plan\"... ok");
        assert_eq!(plain("Grüße à 5 €"), "Grüße à 5 €");
        // It has to travel in 16 bits anyway.
        assert_eq!(plain("“計画”…"), "“計画”…");
    }

    proptest! {
        #[test]
        fn what_is_appended_never_makes_it_shorter(text in "\\PC{0,300}", more in "\\PC{0,40}") {
            let longer = text.clone() + &more;
            prop_assert!(parts(&text) <= parts(&longer));
        }
    }
}
