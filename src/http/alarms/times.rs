//! When an alarm fires, as callers say it.

use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::TimeDelta;
use chrono::Utc;
use serde_json::Value;

use crate::calendar::cron::Cron;
use crate::calendar::phrase;
use crate::calendar::phrase::Meaning;
use crate::calendar::zone::Zone;
use crate::change::alarm::When;
use crate::channel::webhook::Guard;
use crate::http::preferences::Flaws;
use crate::store::AlarmTerms;

/// What says when an alarm fires.
#[derive(Debug, Default)]
pub(in crate::http) struct Times {
    pub(in crate::http) at: Option<String>,
    pub(in crate::http) timezone: Option<String>,
    pub(in crate::http) delay: Option<Value>,
    pub(in crate::http) when: Option<String>,
    pub(in crate::http) cron: Option<String>,
}

/// As what times are read.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    /// The owner's zone.
    pub(super) zone: &'a str,
    /// Now.
    pub(super) now: DateTime<Utc>,
    /// What may be called; nothing where no call leaves.
    pub(super) targets: Option<&'a Guard>,
}

/// When it fires; none where nothing is said of that, or something is wrong with it.
pub(super) fn when(
    times: Times,
    terms: &mut AlarmTerms,
    reading: &Reading<'_>,
    flaws: &mut Flaws,
) -> Option<When> {
    let zone = times.timezone.as_deref();
    let zone = match zone {
        None => None,
        Some(name) => Some(flaws.check("/timezone".to_owned(), iana(name))?),
    };
    let own = || Zone::iana(reading.zone).unwrap_or_else(Zone::utc);
    match (times.at, times.delay, times.when, times.cron) {
        (Some(at), None, None, None) => {
            terms.cron = None;
            let read = phrase::instant(&at, zone.as_ref()).map_err(|error| error.to_string());
            flaws
                .check("/at".to_owned(), read.and_then(|meaning| only(&meaning)))
                .map(When::At)
        }
        (None, Some(delay), None, None) => {
            terms.cron = None;
            flaws.check("/delay".to_owned(), length(&delay)).map(When::In)
        }
        (None, None, Some(phrase), None) => {
            terms.cron = None;
            let read = phrase::read(&phrase, reading.now, &zone.unwrap_or_else(own));
            let read = read.map_err(|error| error.to_string());
            flaws
                .check("/when".to_owned(), read.and_then(|meaning| only(&meaning)))
                .map(When::Meant)
        }
        (None, None, None, Some(cron)) => {
            flaws.check(
                "/cron".to_owned(),
                Cron::parse(&cron).map_err(|error| error.to_string()),
            )?;
            terms.cron = Some(cron);
            terms.time_zone = Some(zone.unwrap_or_else(own).name().to_owned());
            Some(When::Again)
        }
        (None, None, None, None) => {
            let zone = zone?;
            if terms.cron.is_none() {
                let cure = "a time zone alone moves nothing that fires once: send `at` or `when` with it";
                return flaws.check("/timezone".to_owned(), Err(cure.to_owned()));
            }
            terms.time_zone = Some(zone.name().to_owned());
            Some(When::Again)
        }
        _ => {
            let cure = "it is said more than once when: send one of `at`, `delay`, `when` and `cron`";
            flaws.check::<()>(String::new(), Err(cure.to_owned()));
            None
        }
    }
}

pub(super) fn iana(name: &str) -> Result<Zone, String> {
    let unknown = || format!("unknown time zone `{name}`: use an IANA name such as Europe/Berlin");
    Zone::iana(name).ok_or_else(unknown)
}

/// The instant that is meant, where only one can be.
pub(super) fn only(meaning: &Meaning) -> Result<DateTime<Utc>, String> {
    if !meaning.is_ambiguous() {
        return Ok(meaning.at);
    }
    let candidates: Vec<String> = meaning.candidates.iter().map(told).collect();
    Err(format!(
        "it may be any of {}: name the one that is meant in `at`",
        candidates.join(", ")
    ))
}

fn told(at: &DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

fn length(delay: &Value) -> Result<TimeDelta, String> {
    let text = match delay {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return Err("it is neither a number of milliseconds nor a text such as `90s`".to_owned()),
    };
    phrase::delay(&text).map_err(|error| error.to_string())
}
