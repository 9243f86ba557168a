//! Bytes -> text. Calendars come in UTF-8, UTF-16 and one-byte encodings, with any line ends.

use std::borrow::Cow;

/// What Windows-1252 has in place of the control characters 0x80 to 0x9f.
const WINDOWS_1252: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";

/// Which byte of a UTF-16 unit comes first.
#[derive(Clone, Copy)]
enum Order {
    Low,
    High,
}

/// The text of an iCalendar object, with `\n` somewhere if it has lines at all. It holds no NUL, which is allowed nowhere
/// in iCalendar and which not every database can keep.
pub fn decode(bytes: &[u8]) -> Cow<'_, str> {
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => Cow::Owned(utf16(rest, Order::Low)),
        [0xfe, 0xff, rest @ ..] => Cow::Owned(utf16(rest, Order::High)),
        [0xef, 0xbb, 0xbf, rest @ ..] => one_byte_or_utf8(rest),
        [first, 0, ..] if first.is_ascii_alphabetic() => Cow::Owned(utf16(bytes, Order::Low)),
        [0, second, ..] if second.is_ascii_alphabetic() => Cow::Owned(utf16(bytes, Order::High)),
        _ => one_byte_or_utf8(bytes),
    };
    let lines = if text.contains('\n') {
        text
    } else {
        Cow::Owned(text.replace('\r', "\n"))
    };
    if lines.contains('\0') {
        Cow::Owned(lines.replace('\0', "\u{fffd}"))
    } else {
        lines
    }
}

fn utf16(bytes: &[u8], order: Order) -> String {
    let units = bytes.chunks_exact(2).map(|pair| match order {
        Order::Low => u16::from_le_bytes([pair[0], pair[1]]),
        Order::High => u16::from_be_bytes([pair[0], pair[1]]),
    });
    char::decode_utf16(units)
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

fn one_byte_or_utf8(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let special: Vec<char> = WINDOWS_1252.chars().collect();
    bytes
        .iter()
        .map(|byte| match byte {
            0x80..=0x9f => special[usize::from(byte - 0x80)],
            _ => char::from(*byte),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "BEGIN:VCALENDAR\nSUMMARY:Zoë\n";

    #[test]
    fn every_encoding_gives_the_same_text() {
        let low: Vec<u8> = TEXT.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let high: Vec<u8> = TEXT.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let latin: Vec<u8> = TEXT
            .chars()
            .map(|character| u8::try_from(u32::from(character)).expect("below 256"))
            .collect();
        let encodings: [Vec<u8>; 7] = [
            TEXT.as_bytes().to_vec(),
            [b"\xef\xbb\xbf", TEXT.as_bytes()].concat(),
            low.clone(),
            [&[0xff, 0xfe], low.as_slice()].concat(),
            high.clone(),
            [&[0xfe, 0xff], high.as_slice()].concat(),
            latin,
        ];
        for bytes in encodings {
            assert_eq!(decode(&bytes), TEXT, "{bytes:x?}");
        }
    }

    #[test]
    fn the_euro_sign_of_windows_is_understood() {
        assert_eq!(decode(b"\x80 5 \xfc"), "€ 5 ü");
        assert_eq!(WINDOWS_1252.chars().count(), 32);
    }

    #[test]
    fn lone_carriage_returns_are_line_ends() {
        assert_eq!(decode(b"a\rb\r"), "a\nb\n");
    }
}
