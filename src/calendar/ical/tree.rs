//! Text <-> components with their content lines, to change some and leave all others as they are: what nobody knows is
//! kept too. Lines are written folded (RFC 5545 section 3.1).

use std::collections::BTreeSet;

use crate::calendar::ical::IcalError;
use crate::calendar::ical::Limits;
use crate::calendar::ical::property;
use crate::calendar::ical::structure;
use crate::calendar::ical::structure::Line;

/// Octets of a line at the most, without its end.
const WIDTH: usize = 75;

/// A component with everything in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    /// `VEVENT` …, upper case.
    pub(super) kind: String,
    /// The line of its BEGIN in the text it was read from.
    pub(super) line: usize,
    /// Its own content lines.
    pub(super) lines: Vec<Line<'static>>,
    /// The components in it, in order.
    pub(super) children: Vec<Node>,
}

impl Node {
    /// The VCALENDAR of a text; of several the first, with the components of all.
    pub(super) fn read(text: &str) -> Result<Self, IcalError> {
        let blocks = structure::blocks(text, &Limits::default())?;
        let mut nodes: Vec<(Option<usize>, Self)> = blocks
            .into_iter()
            .map(|block| (block.parent, Self::leaf(block)))
            .collect();
        // A component begins after the one around it, so from the last on each is complete when it is put into its own.
        let mut roots = Vec::new();
        while let Some((parent, mut node)) = nodes.pop() {
            node.children.reverse();
            match parent {
                Some(parent) => nodes[parent].1.children.push(node),
                None => roots.push(node),
            }
        }
        let mut roots = roots.into_iter().rev();
        let mut first = roots.next().ok_or(IcalError {
            line: 1,
            reason: "no component in it".to_owned(),
        })?;
        first.children.extend(roots.flat_map(|root| root.children));
        Ok(first)
    }

    fn leaf(block: structure::Block<'_>) -> Self {
        Self {
            kind: block.kind,
            line: block.line,
            lines: block.lines.into_iter().map(Line::into_owned).collect(),
            children: Vec::new(),
        }
    }

    /// As text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        fold(&format!("BEGIN:{}", self.kind), text);
        for line in &self.lines {
            fold(&line.text, text);
        }
        for child in &self.children {
            child.write(text);
        }
        fold(&format!("END:{}", self.kind), text);
    }

    /// The first line of this property.
    pub(super) fn find(&self, name: &str) -> Option<&Line<'static>> {
        self.lines.iter().find(|line| line.name == name)
    }

    /// Leaves out all lines of these properties.
    pub(super) fn remove(&mut self, names: &[&str]) {
        self.lines.retain(|line| !names.contains(&line.name.as_ref()));
    }

    /// Makes `line` the only one of its property, in the place of the first.
    pub(super) fn set(&mut self, line: Line<'static>) {
        let first = self.lines.iter().position(|known| known.name == line.name);
        let name = line.name.clone();
        let at = first.unwrap_or(self.lines.len());
        self.remove(&[&name]);
        self.lines.insert(at.min(self.lines.len()), line);
    }

    /// The components of one kind, taken out.
    pub(super) fn take(&mut self, is_taken: impl Fn(&Self) -> bool) -> Vec<Self> {
        let children = std::mem::take(&mut self.children);
        let (taken, rest) = children.into_iter().partition(is_taken);
        self.children = rest;
        taken
    }

    /// The TZIDs that its lines, and those of what is in it, refer to.
    pub(super) fn zones(&self, zones: &mut BTreeSet<String>) {
        for line in &self.lines {
            let property = line.text.contains("TZID").then(|| property::Property::read(line));
            if let Some(zone) = property.flatten().as_ref().and_then(|it| it.zone_name()) {
                zones.insert(zone.to_owned());
            }
        }
        for child in &self.children {
            child.zones(zones);
        }
    }
}

/// A content line of this text.
pub(super) fn line(text: &str) -> Line<'static> {
    Line::new(0, text).named().into_owned()
}

/// The line with these parameters in place of others of their names.
pub(super) fn with_parameters(line: &Line<'_>, parameters: &[(&str, &str)]) -> Line<'static> {
    let end = property::value_at(&line.text).unwrap_or(line.text.len());
    let (head, value) = line.text.split_at(end);
    let is_replaced = |part: &str| {
        let name = part.split('=').next().unwrap_or(part).trim();
        parameters.iter().any(|(new, _)| new.eq_ignore_ascii_case(name))
    };
    let mut kept: Vec<String> = parts(head).into_iter().map(str::to_owned).collect();
    let property = kept.remove(0);
    kept.retain(|part| !is_replaced(part));
    kept.extend(parameters.iter().map(|(name, new)| format!("{name}={new}")));
    kept.insert(0, property);
    let text = kept.join(";");
    self::line(&(text + value))
}

/// The line without the parameters of this name.
pub(super) fn without_parameter(line: &Line<'_>, name: &str) -> Line<'static> {
    let end = property::value_at(&line.text).unwrap_or(line.text.len());
    let (head, value) = line.text.split_at(end);
    let is_kept = |part: &&str| {
        let own = part.split('=').next().unwrap_or(part).trim();
        !own.eq_ignore_ascii_case(name)
    };
    let kept: Vec<&str> = parts(head).into_iter().filter(is_kept).collect();
    self::line(&(kept.join(";") + value))
}

/// The value of a parameter, its quotes taken off.
pub(super) fn parameter<'a>(line: &'a Line<'_>, name: &str) -> Option<&'a str> {
    let end = property::value_at(&line.text)?;
    let part = parts(&line.text[..end]).into_iter().skip(1).find_map(|part| {
        let (known, value) = part.split_once('=')?;
        known.trim().eq_ignore_ascii_case(name).then_some(value)
    })?;
    Some(part.trim().trim_matches('"'))
}

/// What stands between semicolons that are not quoted.
fn parts(head: &str) -> Vec<&str> {
    let mut is_quoted = false;
    head.split(|character| {
        is_quoted ^= character == '"';
        character == ';' && !is_quoted
    })
    .collect()
}

/// Writes a line in pieces of at most 75 octets, never inside a character.
pub(super) fn fold(line: &str, text: &mut String) {
    let mut rest = line;
    let mut width = WIDTH;
    while rest.len() > width {
        let (piece, later) = rest.split_at(rest.floor_char_boundary(width));
        text.push_str(piece);
        text.push_str("\r\n ");
        rest = later;
        width = WIDTH - 1;
    }
    text.push_str(rest);
    text.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nX-UNKNOWN;A=\"b;c:d\":e\r\nBEGIN:VEVENT\r\nUID:u\r\n\
                        BEGIN:VALARM\r\nACTION:EMAIL\r\nEND:VALARM\r\nBEGIN:X-THING\r\nX-P:1\r\nEND:X-THING\r\n\
                        END:VEVENT\r\nBEGIN:VEVENT\r\nUID:v\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";

    #[test]
    fn what_is_read_is_written_again() {
        assert_eq!(Node::read(TEXT).expect("a tree").text(), TEXT);
    }

    #[test]
    fn long_lines_are_folded_between_characters_and_come_back() {
        let long = format!("SUMMARY:{}", "日本語é".repeat(60));
        let text = format!("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n{long}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n");
        let written = Node::read(&text).expect("a tree").text();
        assert!(written.split("\r\n").all(|line| line.len() <= WIDTH), "{written}");
        let again = Node::read(&written).expect("a tree");
        assert_eq!(again.children[0].lines[0].text, long);
        assert_eq!(again.text(), written);
    }

    #[test]
    fn a_parameter_is_replaced_where_quotes_hide_others() {
        let attendee = line("ATTENDEE;CN=\"a;PARTSTAT=x\";partstat=NEEDS-ACTION;X=1:mailto:a@b.c");
        let accepted = with_parameters(&attendee, &[("PARTSTAT", "ACCEPTED")]);
        assert_eq!(
            accepted.text,
            "ATTENDEE;CN=\"a;PARTSTAT=x\";X=1;PARTSTAT=ACCEPTED:mailto:a@b.c"
        );
        assert_eq!(parameter(&accepted, "partstat"), Some("ACCEPTED"));
        assert_eq!(parameter(&accepted, "CN"), Some("a;PARTSTAT=x"));
    }
}
