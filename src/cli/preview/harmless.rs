//! The text of strangers on its way to a terminal, or through a pipe to one.

/// Text of strangers without what would command the terminal or turn its line around.
pub(in crate::cli) fn plain(text: &str) -> String {
    let harmless = |c| if commands(c) { '\u{fffd}' } else { c };
    text.chars().map(harmless).collect()
}

/// JSON that means the same and commands no terminal. Outside strings, where an escape is none, JSON has no such
/// characters.
pub(super) fn escaped(json: &str) -> String {
    use std::fmt::Write as _;

    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if commands(c) {
            write!(text, "\\u{:04x}", u32::from(c)).expect("writing to a string cannot fail");
        } else {
            text.push(c);
        }
    }
    text
}

/// Control characters, and those that override the direction of text.
fn commands(c: char) -> bool {
    (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
