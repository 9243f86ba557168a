//! Which way a language is written, and text of the other direction inside of it.

use serde::Serialize;
use unic_langid::CharacterDirection;
use unic_langid::LanguageIdentifier;
use unicode_bidi::BidiClass;
use unicode_bidi::bidi_class;

/// FIRST STRONG ISOLATE: what follows has a direction of its own, that of its first letter.
const ISOLATE: char = '\u{2068}';

/// POP DIRECTIONAL ISOLATE: ends it.
const END: char = '\u{2069}';

/// Which way a language is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Direction {
    /// From left to right.
    #[serde(rename = "ltr")]
    LeftToRight,
    /// From right to left.
    #[serde(rename = "rtl")]
    RightToLeft,
}

impl Direction {
    pub(super) fn of(language: &LanguageIdentifier) -> Self {
        match language.character_direction() {
            CharacterDirection::RTL => Self::RightToLeft,
            CharacterDirection::LTR | CharacterDirection::TTB => Self::LeftToRight,
        }
    }

    /// Plain text as it can stand inside a line of this direction: isolated (UAX #9) where it would else mix with what
    /// stands around it. What needs no isolation gets none, so that ASCII stays ASCII.
    pub(super) fn isolated(self, text: &str) -> String {
        if text.chars().any(|c| self.is_turned_by(c)) {
            format!("{ISOLATE}{text}{END}")
        } else {
            text.to_owned()
        }
    }

    /// Numbers have no direction, but among right-to-left words their parts change places: `+1 555` becomes `555 1+`.
    fn is_turned_by(self, c: char) -> bool {
        match self {
            Self::LeftToRight => matches!(bidi_class(c), BidiClass::R | BidiClass::AL | BidiClass::AN),
            Self::RightToLeft => matches!(bidi_class(c), BidiClass::L | BidiClass::EN),
        }
    }
}

/// Whether it begins or ends a stretch of another direction. In foreign text it could end ours and turn what follows.
pub(super) fn steers(c: char) -> bool {
    matches!(
        bidi_class(c),
        BidiClass::LRE
            | BidiClass::RLE
            | BidiClass::LRO
            | BidiClass::RLO
            | BidiClass::PDF
            | BidiClass::LRI
            | BidiClass::RLI
            | BidiClass::FSI
            | BidiClass::PDI
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_turns_is_isolated() {
        for (direction, text, is_isolated) in [
            (Direction::LeftToRight, "Stand-up, 9:30", false),
            (Direction::LeftToRight, "会議", false),
            (Direction::LeftToRight, "اجتماع", true),
            (Direction::LeftToRight, "Room א", true),
            (Direction::RightToLeft, "اجتماع!", false),
            (Direction::RightToLeft, "Stand-up", true),
            (Direction::RightToLeft, "+1 555", true),
            (Direction::RightToLeft, "", false),
        ] {
            let shown = direction.isolated(text);
            assert_eq!(shown != text, is_isolated, "{text}");
            assert_eq!(shown.replace([ISOLATE, END], ""), text);
        }
    }

    #[test]
    fn languages_know_their_direction() {
        for (tag, direction) in [
            ("ar", Direction::RightToLeft),
            ("he-IL", Direction::RightToLeft),
            ("az-Arab", Direction::RightToLeft),
            ("uz", Direction::LeftToRight),
            ("ja", Direction::LeftToRight),
        ] {
            assert_eq!(Direction::of(&tag.parse().unwrap()), direction, "{tag}");
        }
    }
}
