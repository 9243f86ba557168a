//! `carillon preview`: reads files, lets [`crate::preview`] say what would fire, and prints it.

use std::fs;
use std::io;
use std::io::Read;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use chrono::DateTime;
use chrono::Utc;
use clap::Args;

use crate::calendar::zone::Zone;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::preview;
use crate::preview::Options;
use crate::preview::Preview;
use crate::trigger::ChannelKind;
use crate::trigger::expand::Choices;
use crate::trigger::expand::Person;

/// Bytes of one file at the most.
const LARGEST: u64 = 64 << 20;

/// Folders within folders at the most.
const DEEPEST: usize = 8;

/// What `preview` takes.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// iCalendar files, folders with them, or `-` for standard input
    #[arg(required = true, value_name = "FILE|FOLDER|-")]
    paths: Vec<PathBuf>,

    /// The owner's time zone: floating and all-day times are understood in it
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone)]
    tz: Zone,

    /// Nothing that fires before this instant is listed [default: now]
    #[arg(long, value_name = "RFC3339", value_parser = instant)]
    at: Option<DateTime<Utc>>,

    /// Nothing that fires after this instant is listed
    #[arg(long, value_name = "RFC3339", value_parser = instant)]
    until: Option<DateTime<Utc>>,

    /// How many firings of each file are listed at the most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = limit)]
    limit: usize,

    /// Only what would leave through this channel (email, sms, webhook); without it every ACTION counts, DISPLAY too
    #[arg(long)]
    channel: Option<ChannelKind>,

    /// An e-mail address of the owner, by which calendars know them: what they declined does not fire. May be repeated
    #[arg(long = "owner", value_name = "ADDRESS")]
    addresses: Vec<String>,

    /// One JSON object a line instead of a table
    #[arg(long)]
    json: bool,
}

/// Previews every file. What cannot be read is reported and does not stop the others.
pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let options = Options {
        owner: Person {
            zone: arguments.tz.clone(),
            addresses: arguments.addresses.clone(),
            choices: Choices::default(),
        },
        at: arguments.at.unwrap_or_else(|| SystemClock.now()),
        until: arguments.until,
        limit: arguments.limit,
        channel: arguments.channel,
    };
    let mut all_good = true;
    let mut files = Vec::new();
    for path in &arguments.paths {
        if let Err(error) = collect(path, 0, &mut files) {
            complain(path, &error.to_string());
            all_good = false;
        }
    }
    let is_titled = files.len() > 1 && !arguments.json;
    for file in files {
        let preview = read(&file)
            .map_err(|error| error.to_string())
            .and_then(|text| preview::preview(&text, &options).map_err(|error| error.to_string()));
        match preview {
            Ok(preview) => {
                all_good &= preview.rejected.is_empty();
                report(&file, &preview, arguments.json);
                // Whoever reads us may have seen enough, as `head` has.
                match show(&file, &preview, arguments, is_titled) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                    Err(error) => {
                        eprintln!("the preview cannot be written: {error}");
                        all_good = false;
                        break;
                    }
                }
            }
            Err(reason) => {
                complain(&file, &reason);
                all_good = false;
            }
        }
    }
    if all_good {
        ExitCode::SUCCESS
    } else {
        super::WRONG_DATA.into()
    }
}

/// The files at `path`: itself, or those in the folder whose names end in `.ics`, in order of their names.
fn collect(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if path == Path::new("-") || !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut entries = fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<PathBuf>>>()?;
    entries.sort();
    for entry in entries {
        let is_calendar = entry
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("ics"));
        if entry.is_dir() && !entry.is_symlink() && depth < DEEPEST {
            collect(&entry, depth + 1, files)?;
        } else if is_calendar && entry.is_file() {
            files.push(entry);
        }
    }
    Ok(())
}

/// Reports what is wrong with a file; the table says the warnings itself.
fn report(file: &Path, preview: &Preview, is_json: bool) {
    for rejection in &preview.rejected {
        complain(
            file,
            &format!(
                "line {}: {}: {}",
                rejection.line, rejection.component, rejection.reason
            ),
        );
    }
    for warning in preview.warnings.iter().filter(|_| is_json) {
        complain(file, &format!("warning: {warning}"));
    }
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(fs::File::open(file)?)
    };
    let mut text = Vec::new();
    source.take(LARGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(io::Error::other(format!(
            "the file is larger than {LARGEST} bytes"
        )));
    }
    Ok(text)
}

fn show(file: &Path, preview: &Preview, arguments: &Arguments, is_titled: bool) -> io::Result<()> {
    let text = if arguments.json {
        escaped(&preview.json())
    } else {
        plain(&preview.table(&arguments.tz))
    };
    let mut out = io::stdout().lock();
    if is_titled {
        writeln!(out, "{}", plain(&format!("== {}", file.display())))?;
    }
    write!(out, "{text}")?;
    out.flush()
}

fn complain(file: &Path, reason: &str) {
    eprintln!("{}", plain(&format!("{}: {reason}", file.display())));
}

/// Text of strangers without what would command the terminal or turn its line around.
fn plain(text: &str) -> String {
    let harmless = |c| if commands(c) { '\u{fffd}' } else { c };
    text.chars().map(harmless).collect()
}

/// JSON that means the same and commands no terminal. Outside strings, where an escape is none, JSON has no such
/// characters.
fn escaped(json: &str) -> String {
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

fn zone(name: &str) -> Result<Zone, String> {
    Zone::iana(name)
        .ok_or_else(|| format!("unknown time zone `{name}`: use an IANA name such as Europe/Berlin"))
}

fn instant(text: &str) -> Result<DateTime<Utc>, String> {
    let instant = DateTime::parse_from_rfc3339(text);
    instant
        .map(|instant| instant.to_utc())
        .map_err(|_| format!("`{text}` is no instant: write it as 2026-12-01T08:45:00Z"))
}

fn limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| (1..=100_000).contains(limit));
    limit.ok_or_else(|| format!("`{text}` is no number from 1 to 100000"))
}
