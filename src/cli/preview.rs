//! `carillon preview`: reads files, lets [`crate::preview`] say what would fire, and prints it.

mod files;
pub(super) mod harmless;
mod progress;

use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use chrono::DateTime;
use chrono::Utc;
use clap::Args;

use crate::calendar::zone::Zone;
use crate::cli::arguments::WRONG_ARGUMENTS;
use crate::cli::arguments::instant;
use crate::cli::arguments::limit;
use crate::cli::arguments::zone;
use crate::cli::preview::files::STANDARD_INPUT;
use crate::cli::preview::harmless::escaped;
use crate::cli::preview::harmless::plain;
use crate::cli::preview::progress::Progress;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::config::Settings;
use crate::preview;
use crate::preview::Carried;
use crate::preview::Options;
use crate::preview::Preview;
use crate::trigger::ChannelKind;
use crate::trigger::defaults::DefaultAlarm;
use crate::trigger::defaults::DefaultPolicy;
use crate::trigger::expand::Choices;
use crate::trigger::expand::Person;
use crate::trigger::preferences::Display;
use crate::trigger::recipients::Recipients;

/// Up to so many alarms with nothing left to fire are named by a table without being asked.
const PAST: usize = 5;

/// The most that `--past` lists.
const MOST_PAST: usize = 10_000_000;

/// What `preview` takes.
#[derive(Debug, Args)]
#[command(after_long_help = MORE_HELP)]
pub(super) struct Arguments {
    /// iCalendar files, folders with them, or `-` for standard input. Several are one calendar of one person
    #[arg(required = true, value_name = "FILE|FOLDER|-")]
    paths: Vec<PathBuf>,

    /// The owner's time zone: floating and all-day times are understood in it, and the table is written in it
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone)]
    tz: Zone,

    /// Nothing that fires before this instant is listed; give an earlier one to see what has fired [default: now]
    #[arg(long, value_name = "RFC3339", value_parser = instant)]
    at: Option<DateTime<Utc>>,

    /// Nothing that fires after this instant is listed
    #[arg(long, value_name = "RFC3339", value_parser = instant)]
    until: Option<DateTime<Utc>>,

    /// How many firings are listed at the most. What does not fire is listed up to the last of them, and does not count
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = limit)]
    limit: usize,

    /// Only what would leave through this channel (email, sms, webhook) for an owner without routes; without it every ACTION
    /// counts, DISPLAY too
    #[arg(long)]
    channel: Option<ChannelKind>,

    /// An e-mail address of the owner, by which calendars know them: what they declined does not fire. May be repeated
    #[arg(long = "owner", value_name = "ADDRESS")]
    addresses: Vec<String>,

    /// An alarm of events at a time of day that have none of their own, as -PT15M. May be repeated
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    default: Vec<DefaultAlarm>,

    /// An alarm of events of whole days that have none of their own, as -PT15H. May be repeated
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    default_all_day: Vec<DefaultAlarm>,

    /// Whom alarms may write to beside the owner: `owner` for nobody, `any`, or a domain. Domains may be repeated
    #[arg(long, value_name = "owner|any|DOMAIN")]
    recipients: Vec<String>,

    /// Only the event with this UID. May be repeated
    #[arg(long = "uid", value_name = "UID")]
    uids: Vec<String>,

    /// Say for each firing how its instant came about: start, zone, rule, occurrence, trigger
    #[arg(long)]
    explain: bool,

    /// List all alarms that have nothing left to fire, each with its last firing
    #[arg(long)]
    past: bool,

    /// One JSON object a line instead of a table; `--help` says what is in it
    #[arg(long)]
    json: bool,
}

const MORE_HELP: &str = "\
JSON, one object a line, in order of time; what has no time comes last. Instants are RFC 3339 in UTC, `null` where there is none:
  trigger_at   when the alarm fires, or would
  occurrence   the occurrence, by its RECURRENCE-ID
  uid          the UID of the event; of an event without one, a hash of its text
  alarm        the UID of the VALARM; of one without, a hash of what it says
  action       ACTION: EMAIL, DISPLAY, AUDIO …
  recipient    whom it is for: `owner`, or `address:` and the address of another whom the alarm names
  skipped      only where it does not fire: why, in words that may change
  why          only where it does not fire: why, by a name that does not change, see below
  further      only with `skipped`: true where later firings of the alarm do not fire either, which have no lines
  summary      SUMMARY
  timing       when the alarm goes off, in words that may change: `15 minutes before the start`
  repeat       0 for the first firing, k for the k-th repeat of it; `repeats` says how many there are
  starts_at    when the occurrence starts; `ends_at` when it ends
  notes        only where there are some: a time that the clock skips or repeats, and what is meant
  explanation  only with --explain: the steps from DTSTART to the instant
  source       the file

Names in `why`:
  cancelled  completed             the event, or this occurrence, is called off, or done
  declined  delegated              the owner does not come, or sends somebody else
  excluded  replaced               EXDATE takes the occurrence out; an override takes its place
  override_without_alarm           the override of the occurrence has no VALARM
  acknowledged  past               this firing was acknowledged; the last firing is past (with --past)
  not_carried                      --channel, or the configuration, does not carry the ACTION
  recipient_refused                the alarm names another person, who may not be written to (--recipients)
  not_by_time  no_anchor           ACTION:NONE, or an alarm at a place; TRIGGER counts from what is missing
  too_often  too_costly            more than once a minute; the rules need too many search steps
  duplicate  superseded            an equal VALARM counts; a newer version of the same occurrence counts
  repeat_ignored                   REPEAT is not followed, the first firing is
  copy                             another file has the same event with the same alarm
  no_event                         it says something about an event and is none (METHOD:REPLY)
  no_alarm                         the event has no VALARM
  alarm_unreadable  event_unreadable  rule_unreadable

With --config FILE the policies of that file hold: which ACTIONs become messages (policies.display), default alarms (but not
those of one source), recipients, and what is chosen for declined and delegated events and for tasks without DTSTART. Options win over it.

Exit codes: 0 if all could be read; 65 if something could not (it is named on standard error, and the rest is shown all the
same); 2 if the arguments are wrong, 78 if the configuration is; 1 if the answer cannot be written. That something does not fire is no error.";

/// Previews every file. What cannot be read is reported and does not stop the others.
pub(super) fn run(arguments: &Arguments, settings: Option<&Settings>) -> ExitCode {
    let is_input = |path: &&PathBuf| path.as_path() == Path::new(STANDARD_INPUT);
    if arguments.paths.iter().filter(is_input).count() > 1 {
        eprintln!("standard input is named twice: name `-` once, it can be read only once");
        return WRONG_ARGUMENTS.into();
    }
    let options = options(arguments, settings);
    let (preview, is_all_good) = preview_all(arguments, &options);
    match show(&preview, arguments) {
        // Whoever reads us may have seen enough, as `head` has.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("the preview cannot be written: {error}");
            ExitCode::FAILURE
        }
        _ if is_all_good => ExitCode::SUCCESS,
        _ => super::WRONG_DATA.into(),
    }
}

fn options(arguments: &Arguments, settings: Option<&Settings>) -> Options {
    Options {
        owner: Person {
            zone: arguments.tz.clone(),
            addresses: arguments.addresses.clone(),
            choices: settings.map_or_else(Choices::default, |settings| settings.policies.choices),
        },
        at: arguments.at.unwrap_or_else(|| SystemClock.now()),
        until: arguments.until,
        limit: arguments.limit,
        past: match (arguments.past, arguments.json) {
            (true, _) => MOST_PAST,
            (false, true) => 0,
            (false, false) => PAST,
        },
        carried: carried(arguments.channel, settings),
        defaults: defaults(arguments, settings),
        recipients: recipients(&arguments.recipients, settings),
        uids: arguments.uids.clone(),
        is_explained: arguments.explain,
    }
}

/// The default alarms that are named, else those of the configuration.
fn defaults(arguments: &Arguments, settings: Option<&Settings>) -> DefaultPolicy {
    let mut policy = settings.map_or_else(DefaultPolicy::default, |settings| {
        settings.policies.defaults.clone()
    });
    if !arguments.default.is_empty() {
        policy.general.timed = Some(arguments.default.clone());
    }
    if !arguments.default_all_day.is_empty() {
        policy.general.all_day = Some(arguments.default_all_day.clone());
    }
    policy
}

fn recipients(names: &[String], settings: Option<&Settings>) -> Recipients {
    match names {
        [] => settings.map_or_else(Recipients::default, |settings| {
            settings.policies.recipients.clone()
        }),
        [name] if name == "any" => Recipients::Any,
        [name] if name == "owner" => Recipients::Owner,
        domains => Recipients::Domains(domains.iter().map(|domain| domain.to_lowercase()).collect()),
    }
}

/// A configuration says what becomes a message; without one only a channel that is asked for does.
fn carried(channel: Option<ChannelKind>, settings: Option<&Settings>) -> Option<Carried> {
    let by = channel.or(settings.map(|_| ChannelKind::Email))?;
    let display = settings.map_or(Display::Skip, |settings| settings.policies.display);
    Some(Carried { by, display })
}

/// All files as one, and whether all of them could be read.
fn preview_all(arguments: &Arguments, options: &Options) -> (Preview, bool) {
    let mut is_all_good = true;
    let mut files = Vec::new();
    for path in &arguments.paths {
        if let Err(error) = files::collect(path, &mut files) {
            complain(path, &error.to_string());
            is_all_good = false;
        }
    }
    let mut all = Preview::default();
    let mut progress = Progress::start();
    for file in &files {
        let read = files::read(file).map_err(|error| error.to_string());
        let mut watch = |done, of| progress.say(file, done, of);
        let preview = read
            .and_then(|text| preview::watched(&text, options, &mut watch).map_err(|error| error.to_string()));
        progress.end();
        match preview {
            Ok(mut preview) => {
                is_all_good &= preview.rejected.is_empty();
                report(file, &mut preview, arguments.json, files.len() > 1);
                preview.name(&file.strip_prefix(".").unwrap_or(file).display().to_string());
                all.add(preview, options);
            }
            Err(reason) => {
                complain(file, &reason);
                is_all_good = false;
            }
        }
    }
    all.settle(options);
    (all, is_all_good)
}

/// Reports what is wrong with a file; the table says the warnings itself.
fn report(file: &Path, preview: &mut Preview, is_json: bool, is_one_of_many: bool) {
    for rejection in &preview.rejected {
        let (line, component, reason) = (rejection.line, &rejection.component, &rejection.reason);
        complain(file, &format!("line {line}: {component}: {reason}"));
    }
    for warning in &mut preview.warnings {
        if is_json {
            complain(file, &format!("warning: {warning}"));
        } else if is_one_of_many {
            *warning = format!("{}: {warning}", file.display());
        }
    }
}

fn show(preview: &Preview, arguments: &Arguments) -> io::Result<()> {
    let text = if arguments.json {
        escaped(&preview.json())
    } else {
        plain(&preview.table(&arguments.tz))
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn complain(file: &Path, reason: &str) {
    eprintln!("{}", plain(&format!("{}: {reason}", file.display())));
}
