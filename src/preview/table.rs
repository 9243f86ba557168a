//! A preview for people: local times, words, and what is not sent set apart from what is.

use std::collections::HashMap;
use std::fmt::Write;

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::zone::Zone;
use crate::preview::Line;
use crate::preview::Preview;
use crate::preview::words;

/// Characters of a summary or a UID that are shown.
const LONGEST: usize = 60;

/// Lines with one and the same reason: if there are more than so many …
const MANY: usize = 6;

/// … so many of them are shown.
const SHOWN: usize = 3;

/// The table, its times on the clock of `zone`.
pub(super) fn of(preview: &Preview, zone: &Zone) -> String {
    let mut table = Table {
        text: String::new(),
        zone,
        has_sources: preview.sources() > 1,
        widths: [0; 4],
    };
    let (sent, silent): (Vec<&Line>, Vec<&Line>) =
        preview.lines.iter().partition(|line| line.skipped.is_none());
    table.fit(preview.lines.iter().chain(&preview.past));
    if sent.is_empty() {
        table.say("nothing will fire");
    } else {
        table.head("FIRES");
        for line in &sent {
            table.line(line);
        }
    }
    table.following(preview);
    table.section("NOT SENT", &silent);
    table.section("PAST", &preview.past.iter().collect::<Vec<_>>());
    let hidden = preview.past_alarms - preview.past.len();
    if hidden > 0 {
        table.say(&format!(
            "the last firing of {} is past (--past lists them, an earlier --at shows what fired)",
            several(hidden, "alarm")
        ));
    }
    table.notes(preview);
    table.text
}

struct Table<'a> {
    text: String,
    zone: &'a Zone,
    has_sources: bool,
    /// Of all columns but the last, which is as wide as it likes.
    widths: [usize; 4],
}

impl Table<'_> {
    fn fit<'l>(&mut self, lines: impl Iterator<Item = &'l Line>) {
        let heads = ["NOT SENT", "WHAT", "ALARM", "OCCURRENCE"];
        self.widths = heads.map(str::len);
        for line in lines {
            let cells = self.cells(line);
            for (width, cell) in self.widths.iter_mut().zip(&cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
    }

    fn cells(&self, line: &Line) -> [String; 5] {
        let repeat = match (line.repeat, line.repeats) {
            (Some(number), Some(of)) if number > 0 => format!(", repeat {number} of {of}"),
            _ => String::new(),
        };
        let timing = line.timing.as_deref().unwrap_or("-");
        let starts = line.starts_at.as_deref().or(line.occurrence.as_deref());
        [
            self.local(line.trigger_at.as_deref()),
            match &line.action {
                Some(action) => format!("{} to {}", cell(action), cell(&line.recipient)),
                None => "-".to_owned(),
            },
            format!("{timing}{repeat}"),
            self.local(starts),
            self.event(line),
        ]
    }

    /// What it is, and by which name programs know it.
    fn event(&self, line: &Line) -> String {
        let uid = line.uid.as_deref().map_or("no UID".to_owned(), cell);
        let source = line.source.as_deref().filter(|_| self.has_sources);
        let name = source.map_or(uid.clone(), |source| format!("{uid}, {}", cell(source)));
        match line.summary.as_deref().filter(|summary| !summary.is_empty()) {
            Some(summary) => format!("{} ({name})", cell(summary)),
            None => name,
        }
    }

    fn head(&mut self, first: &str) {
        let names = [first, "WHAT", "ALARM", "OCCURRENCE", "EVENT"].map(str::to_owned);
        self.row(&names);
    }

    fn line(&mut self, line: &Line) {
        let cells = self.cells(line);
        self.row(&cells);
        for step in line.explanation.iter().chain(&line.notes) {
            self.say(&format!("    {}", flat(step)));
        }
    }

    fn row(&mut self, cells: &[String; 5]) {
        let mut row = String::new();
        for (cell, width) in cells.iter().zip(self.widths) {
            write!(row, "{cell:<width$}  ").expect("a string takes everything");
        }
        row.push_str(&cells[4]);
        self.say(row.trim_end());
    }

    fn say(&mut self, text: &str) {
        writeln!(self.text, "{text}").expect("a string takes everything");
    }

    fn following(&mut self, preview: &Preview) {
        let Some(next_at) = preview.following.next_at else {
            return;
        };
        let next = self.time(next_at);
        let count = preview.following.count;
        match preview.until {
            Some(until) if preview.following.is_all => {
                let until = self.time(until);
                self.say(&format!("and {count} more until {until}, the next {next}"));
            }
            _ if count > 1 => self.say(&format!(
                "and at least {count} more, the next {next} (--limit shows more)"
            )),
            _ => self.say(&format!("and more, the next {next} (--limit shows more)")),
        }
    }

    /// Lines with their reasons. Of many with one reason only some are shown.
    fn section(&mut self, title: &str, lines: &[&Line]) {
        if lines.is_empty() {
            return;
        }
        self.say("");
        self.head(title);
        let mut counts: HashMap<Option<&str>, usize> = HashMap::new();
        for line in lines {
            *counts.entry(line.skipped.as_deref()).or_default() += 1;
        }
        let mut shown: HashMap<Option<&str>, usize> = HashMap::new();
        for line in lines {
            let reason = line.skipped.as_deref();
            let count = counts.get(&reason).copied().unwrap_or_default();
            let number = shown.entry(reason).or_default();
            *number += 1;
            if count <= MANY || *number <= SHOWN {
                self.line(line);
                let reason = flat(reason.unwrap_or_default());
                let further = if line.further {
                    "; later firings likewise"
                } else {
                    ""
                };
                self.say(&format!("    because {reason}{further}"));
            } else if *number == count {
                let rest = several(count - SHOWN, "more line");
                let reason = flat(reason.unwrap_or_default());
                self.say(&format!("{rest} because {reason} (--json lists them)"));
            }
        }
    }

    fn notes(&mut self, preview: &Preview) {
        self.say("");
        for zone in &preview.zones {
            self.say(&flat(zone));
        }
        for warning in &preview.warnings {
            self.say(&format!("warning: {}", flat(warning)));
        }
        let name = self.zone.name();
        let hint = if *self.zone == Zone::utc() {
            ": --tz names another zone"
        } else {
            ""
        };
        self.say(&format!("times are those of {name}{hint}"));
    }

    fn local(&self, instant: Option<&str>) -> String {
        instant
            .and_then(|text| DateTime::parse_from_rfc3339(text).ok())
            .map_or("-".to_owned(), |instant| self.time(instant.to_utc()))
    }

    fn time(&self, instant: DateTime<Utc>) -> String {
        let local = self.zone.to_local(instant).format(words::WALL);
        format!("{local} {}", self.zone.offset_at(instant))
    }
}

fn several(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The words of strangers on one line, and not too many of them.
fn cell(text: &str) -> String {
    let flat = flat(text);
    if flat.chars().count() <= LONGEST {
        return flat;
    }
    let start: String = flat.chars().take(LONGEST - 1).collect();
    format!("{}…", start.trim_end())
}

fn flat(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c == '\n' || c == '\r' || c == '\t' {
                ' '
            } else {
                c
            }
        })
        .collect()
}
