//! Text -> components: unfolding (RFC 5545 section 3.1) and BEGIN/END, with the line of everything.
//!
//! Structure is read here and not by the parser, since real files forget END lines, leave blanks behind names, and
//! since an answer must name a line.

use std::borrow::Cow;

use crate::calendar::ical::IcalError;
use crate::calendar::ical::Limits;

/// How deep components may lie in each other.
const DEEPEST: usize = 8;

/// A content line, unfolded. It borrows from the text what is written as it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Where it starts, from 1.
    pub(super) number: usize,
    /// The property name, upper case.
    pub(super) name: Cow<'a, str>,
    /// The text without its line end.
    pub(super) text: Cow<'a, str>,
}

impl<'a> Line<'a> {
    /// A line whose text may still grow by what is folded.
    pub(super) fn new(number: usize, text: &'a str) -> Self {
        Self {
            number,
            name: Cow::Borrowed(""),
            text: Cow::Borrowed(text),
        }
    }

    /// The line, complete.
    pub(super) fn named(mut self) -> Self {
        let end = self.text.bytes().position(|byte| matches!(byte, b':' | b';'));
        let end = end.unwrap_or(self.text.len());
        self.name = match &self.text {
            Cow::Borrowed(text) => Cow::Borrowed(text[..end].trim()),
            Cow::Owned(text) => Cow::Owned(text[..end].trim().to_owned()),
        };
        if self.name.bytes().any(|byte| byte.is_ascii_lowercase()) {
            self.name.to_mut().make_ascii_uppercase();
        }
        self
    }

    /// The line with a text of its own.
    pub(super) fn into_owned(self) -> Line<'static> {
        Line {
            number: self.number,
            name: Cow::Owned(self.name.into_owned()),
            text: Cow::Owned(self.text.into_owned()),
        }
    }

    /// The value, where nothing in front of it needs quoting.
    pub(super) fn plain_value(&self) -> &str {
        self.text.split_once(':').map_or("", |(_, value)| value).trim()
    }
}

/// A component as it stands in the text.
#[derive(Debug, Clone)]
pub(super) struct Block<'a> {
    /// `VEVENT` …, upper case.
    pub(super) kind: String,
    /// The line of its BEGIN.
    pub(super) line: usize,
    /// The index of the component around it.
    pub(super) parent: Option<usize>,
    /// Its own content lines.
    pub(super) lines: Vec<Line<'a>>,
}

/// The components of a text, in the order of their BEGIN.
pub(super) fn blocks<'a>(text: &'a str, limits: &Limits) -> Result<Vec<Block<'a>>, IcalError> {
    let mut reader = Reader::default();
    let mut last = 1;
    for line in unfold(text) {
        last = line.number;
        match line.name.as_ref() {
            "BEGIN" => reader.begin(&line, limits)?,
            "END" => reader.end(line.plain_value()),
            _ => reader.add(line),
        }
    }
    if reader.blocks.is_empty() {
        return Err(IcalError {
            line: 1,
            reason: "no `BEGIN:VCALENDAR` in it: send an iCalendar object".to_owned(),
        });
    }
    if reader.is_open("VCALENDAR") {
        // What is missing may be the EXDATE or the override that says it does not take place.
        return Err(IcalError {
            line: last,
            reason: "the text ends before `END:VCALENDAR`, so some of it is missing: send all of it"
                .to_owned(),
        });
    }
    Ok(reader.blocks)
}

/// Joins folded lines. A quoted-printable value of vCalendar 1.0 goes on after a line that ends in `=`.
fn unfold(text: &str) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for (index, raw) in text.split('\n').enumerate() {
        let raw = raw.strip_suffix('\r').unwrap_or(raw);
        let last = lines.last_mut();
        match (raw.strip_prefix([' ', '\t']), last) {
            (Some(rest), Some(last)) => last.text.to_mut().push_str(rest),
            (None, Some(last)) if is_soft_break(&last.text) => {
                last.text.to_mut().pop();
                last.text.to_mut().push_str(raw);
            }
            _ if raw.trim().is_empty() => {}
            _ => lines.push(Line::new(index + 1, raw)),
        }
    }
    lines.into_iter().map(Line::named).collect()
}

fn is_soft_break(text: &str) -> bool {
    let is_quoted_printable = || {
        let head = text.split_once(':').map_or("", |(head, _)| head);
        head.to_ascii_uppercase().contains("QUOTED-PRINTABLE")
    };
    text.ends_with('=') && is_quoted_printable()
}

#[derive(Default)]
struct Reader<'a> {
    blocks: Vec<Block<'a>>,
    open: Vec<usize>,
    counted: usize,
}

impl<'a> Reader<'a> {
    fn begin(&mut self, line: &Line<'_>, limits: &Limits) -> Result<(), IcalError> {
        let kind = line.plain_value().to_ascii_uppercase();
        let too_much = |reason: String| IcalError {
            line: line.number,
            reason,
        };
        self.close_forgotten(&kind);
        if self.open.len() >= DEEPEST {
            return Err(too_much(format!(
                "components lie more than {DEEPEST} deep in each other"
            )));
        }
        // Alarms have a limit of their own, and zones many parts.
        self.counted += usize::from(!matches!(kind.as_str(), "VALARM" | "STANDARD" | "DAYLIGHT"));
        if self.counted > limits.components + 1 {
            let most = limits.components;
            return Err(too_much(format!(
                "more than {most} components: send them in parts"
            )));
        }
        self.blocks.push(Block {
            kind,
            line: line.number,
            parent: self.open.last().copied(),
            lines: Vec::new(),
        });
        self.open.push(self.blocks.len() - 1);
        Ok(())
    }

    /// What begins now may not lie inside these: their END was forgotten.
    fn close_forgotten(&mut self, kind: &str) {
        let cannot_hold: &[&str] = match kind {
            "VCALENDAR" => &["VCALENDAR"],
            "VEVENT" | "VTODO" | "VJOURNAL" | "VFREEBUSY" | "VTIMEZONE" => {
                &["VEVENT", "VTODO", "VJOURNAL", "VFREEBUSY", "VTIMEZONE"]
            }
            "VALARM" => &["VALARM"],
            "STANDARD" | "DAYLIGHT" => &["STANDARD", "DAYLIGHT"],
            _ => &[],
        };
        let forgotten = self
            .open
            .iter()
            .position(|open| cannot_hold.contains(&self.blocks[*open].kind.as_str()));
        if let Some(forgotten) = forgotten {
            self.open.truncate(forgotten);
        }
    }

    fn is_open(&self, kind: &str) -> bool {
        self.open.iter().any(|open| self.blocks[*open].kind == kind)
    }

    /// An END that matches nothing open is passed over.
    fn end(&mut self, kind: &str) {
        let is_meant = |open: &usize| self.blocks[*open].kind.eq_ignore_ascii_case(kind);
        if let Some(found) = self.open.iter().rposition(is_meant) {
            self.open.truncate(found);
        }
    }

    fn add(&mut self, line: Line<'a>) {
        if let Some(open) = self.open.last() {
            self.blocks[*open].lines.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, usize, Option<usize>, usize)> {
        blocks(text, &Limits::default())
            .expect("components")
            .into_iter()
            .map(|block| (block.kind, block.line, block.parent, block.lines.len()))
            .collect()
    }

    #[test]
    fn folded_lines_are_joined_and_keep_the_number_of_the_first() {
        let lines = unfold("A:1\r\n 2\r\n\t3\r\n\r\nB:4\r\n");
        let seen: Vec<(usize, &str)> = lines
            .iter()
            .map(|line| (line.number, line.text.as_ref()))
            .collect();
        assert_eq!(seen, [(1, "A:123"), (5, "B:4")]);
    }

    #[test]
    fn forgotten_ends_and_trailing_blanks_do_not_hide_the_next_event() {
        let text = "BEGIN:VCALENDAR\nBEGIN:VEVENT \nBEGIN:VALARM\nX:1\nEND:VEVENT\nBEGIN:VEVENT\nY:1\n\
                    END:VCALENDAR\n";
        let kinds: Vec<(String, usize, Option<usize>, usize)> = read(text);
        assert_eq!(kinds[1], ("VEVENT".to_owned(), 2, Some(0), 0));
        assert_eq!(kinds[2], ("VALARM".to_owned(), 3, Some(1), 1));
        assert_eq!(kinds[3], ("VEVENT".to_owned(), 6, Some(0), 1));
    }

    #[test]
    fn a_text_that_was_cut_is_refused_and_not_taken_for_whole() {
        let whole = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nX:1\nEND:VEVENT\nEND:VCALENDAR\n";
        assert!(blocks(whole, &Limits::default()).is_ok());
        for cut in [
            "END:VCALENDAR\n",
            "END:VEVENT\nEND:VCALENDAR\n",
            "1\nEND:VEVENT\nEND:VCALENDAR\n",
        ] {
            let text = whole.strip_suffix(cut).expect("its end");
            let error = blocks(text, &Limits::default()).expect_err("cut");
            assert!(error.reason.contains("END:VCALENDAR"), "{}", error.reason);
        }
    }

    #[test]
    fn deep_nesting_is_refused_with_its_line() {
        let text = "BEGIN:X\n".repeat(200_000);
        let error = blocks(&text, &Limits::default()).expect_err("too deep");
        assert_eq!(error.line, DEEPEST + 1);
    }

    #[test]
    fn a_flood_of_components_is_refused() {
        let text = "BEGIN:VEVENT\n".repeat(3_000);
        let error = blocks(&text, &Limits::default()).expect_err("too many");
        assert!(error.reason.contains("500"), "{error}");
    }

    #[test]
    fn text_without_a_component_is_no_calendar() {
        assert!(blocks("SUMMARY:x\n", &Limits::default()).is_err());
        assert!(blocks("", &Limits::default()).is_err());
    }
}
