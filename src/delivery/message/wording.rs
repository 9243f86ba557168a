//! From what there is to say to how it is said in one language.

use fluent::FluentArgs;
use fluent::fluent_args;
use serde::Serialize;

use crate::delivery::message::RenderError;
use crate::delivery::message::direction::Direction;
use crate::delivery::message::facts::Facts;
use crate::delivery::message::facts::Moment;
use crate::delivery::message::facts::Occasion;
use crate::delivery::message::facts::Range;
use crate::delivery::message::relative::Part;
use crate::delivery::message::relative::Relative;
use crate::delivery::message::relative::Tense;
use crate::delivery::message::words::Words;
use crate::trigger::answers::Act;
use crate::trigger::answers::Wait;

/// All that the templates are given: a message in words, but without form.
#[derive(Debug, Serialize)]
pub(super) struct Wording {
    /// BCP 47.
    language: String,
    direction: Direction,
    #[serde(skip)]
    pub(super) subject: String,
    headline: String,
    pub(super) title: String,
    relative: String,
    late: Option<String>,
    notes: Vec<String>,
    lines: Vec<Line>,
    description: String,
    /// Where the rest of the description is, if it is not all here.
    more: Option<String>,
    /// What introduces `answers`, where there are any.
    answer: Option<String>,
    answers: Vec<Line>,
    why: String,
    reminder_id: String,
}

/// One fact.
#[derive(Debug, Serialize)]
struct Line {
    /// The same in every language.
    name: &'static str,
    label: String,
    value: String,
    /// Label and value, as plain text.
    text: String,
}

impl Wording {
    /// Says `facts` in the language of `words`.
    ///
    /// # Errors
    /// When the words ask for what there is not.
    pub(super) fn of(facts: &Facts, words: &Words) -> Result<Self, RenderError> {
        let teller = Teller { words };
        let title = match &*facts.title {
            "" => words.say("no-title")?,
            title => title.to_owned(),
        };
        let relative = teller.how_far(facts)?;
        let isolated = words.direction.isolated(&title);
        let when = teller.when(&facts.when, facts.is_task, "date-short")?;
        let headline = fluent_args!["relative" => &*relative, "title" => &*isolated];
        let id = fluent_args!["id" => words.direction.isolated(&facts.trigger_id)];
        Ok(Self {
            language: words.tag.clone(),
            direction: words.direction,
            subject: words.say_with("subject", &fluent_args!["title" => &*isolated, "when" => when])?,
            headline: words.say_with("headline", &headline)?,
            late: match &facts.occasion {
                Occasion::Late(due) => Some(teller.late(due)?),
                Occasion::Due | Occasion::Moved => None,
            },
            notes: facts.notes.clone(),
            lines: teller.lines(facts)?,
            description: facts.description.clone(),
            more: facts.description_is_cut.then(|| words.say("more")).transpose()?,
            answer: (!facts.answers.is_empty())
                .then(|| words.say("answer-intro"))
                .transpose()?,
            answers: teller.answers(facts)?,
            why: words.say(if facts.is_task { "why-task" } else { "why-event" })?,
            reminder_id: words.say_with("reminder-id", &id)?,
            title,
            relative,
        })
    }
}

/// Puts messages together.
pub(super) struct Teller<'w> {
    pub(super) words: &'w Words,
}

impl Teller<'_> {
    fn lines(&self, facts: &Facts) -> Result<Vec<Line>, RenderError> {
        let is_task = facts.is_task;
        let foreign = |value: &str| (value.to_owned(), self.words.direction.isolated(value));
        let own = |value: String| (value.clone(), value);
        let mut lines = Vec::new();
        let mut add = |name, label, (value, text): (String, String)| {
            lines.push(self.line(name, label, value, &text)?);
            Ok::<_, RenderError>(())
        };
        let when = own(self.when(&facts.when, is_task, "date")?);
        add("when", if is_task { "label-due" } else { "label-when" }, when)?;
        if let Some(range) = &facts.event_when {
            add(
                "local_time",
                "label-local-time",
                own(self.when(range, is_task, "date")?),
            )?;
        }
        if !facts.location.is_empty() {
            add("where", "label-where", foreign(&facts.location))?;
        }
        if let Some(link) = &facts.link {
            add("link", "label-link", foreign(link))?;
        }
        if let Some(organizer) = &facts.organizer {
            add("organizer", "label-organizer", foreign(organizer))?;
        }
        if let Some(status) = &facts.my_status {
            let label = if is_task { "label-status" } else { "label-answer" };
            add("status", label, foreign(&self.status(status)?))?;
        }
        Ok(lines)
    }

    fn answers(&self, facts: &Facts) -> Result<Vec<Line>, RenderError> {
        let answers = facts.answers.iter();
        answers
            .map(|(act, link)| {
                let text = self.words.direction.isolated(link);
                self.line(act.as_str(), offer(*act), link.clone(), &text)
            })
            .collect()
    }

    fn line(
        &self,
        name: &'static str,
        label: &'static str,
        value: String,
        text: &str,
    ) -> Result<Line, RenderError> {
        let label = self.words.say(label)?;
        let args = fluent_args!["label" => &*label, "value" => text];
        let text = self.words.say_with("line", &args)?;
        Ok(Line {
            name,
            label,
            value,
            text,
        })
    }

    fn status(&self, partstat: &str) -> Result<String, RenderError> {
        let args = fluent_args!["status" => partstat.to_lowercase()];
        self.words.say_with("status", &args)
    }

    fn late(&self, due: &Moment) -> Result<String, RenderError> {
        let args = fluent_args!["moment" => self.moment(due, "date")?];
        self.words.say_with("late", &args)
    }

    /// Starts in 15 minutes; and that it was moved, where that is why it is said now.
    pub(super) fn how_far(&self, facts: &Facts) -> Result<String, RenderError> {
        let relative = self.relative(&facts.relative, facts.is_task, facts.when.is_timed())?;
        if facts.occasion != Occasion::Moved {
            return Ok(relative);
        }
        self.words
            .say_with("moved", &fluent_args!["relative" => relative])
    }

    fn relative(&self, relative: &Relative, is_task: bool, is_timed: bool) -> Result<String, RenderError> {
        let message = message_of(relative, is_task, is_timed);
        let args = match self.distance(&relative.parts)? {
            Some(distance) => fluent_args!["distance" => distance],
            None => FluentArgs::new(),
        };
        self.words.say_with(message, &args)
    }

    /// 1 hour 30 minutes
    fn distance(&self, parts: &[Part]) -> Result<Option<String>, RenderError> {
        let said = |part: &Part| {
            self.words
                .say_with(part.unit, &fluent_args!["count" => part.count])
        };
        match parts {
            [] => Ok(None),
            [one] => said(one).map(Some),
            [larger, smaller, ..] => {
                let args = fluent_args!["larger" => said(larger)?, "smaller" => said(smaller)?];
                self.words.say_with("two-units", &args).map(Some)
            }
        }
    }

    /// When it is, with the zone. A task is due at the end.
    pub(super) fn when(
        &self,
        range: &Range,
        is_task: bool,
        date: &'static str,
    ) -> Result<String, RenderError> {
        let when = if is_task {
            self.moment(&range.last, date)?
        } else {
            self.range(range, date)?
        };
        let Some(zone) = &range.zone else {
            return Ok(when);
        };
        let zone = self.words.direction.isolated(zone);
        self.words
            .say_with("in-zone", &fluent_args!["when" => when, "zone" => zone])
    }

    fn range(&self, range: &Range, date: &'static str) -> Result<String, RenderError> {
        let Range { first, last, .. } = range;
        if range.is_point || (range.is_one_day && !range.is_timed()) {
            return self.moment(first, date);
        }
        if let (true, Some(start), Some(end)) = (range.is_one_day, self.time(first)?, self.time(last)?) {
            let args = fluent_args!["date" => self.date(first, date)?, "start" => start, "end" => end];
            return self.words.say_with("same-day", &args);
        }
        let args = fluent_args!["first" => self.moment(first, date)?, "last" => self.moment(last, date)?];
        self.words.say_with("from-to", &args)
    }

    /// Day and time, or only the day where whole days are meant.
    pub(super) fn moment(&self, moment: &Moment, date: &'static str) -> Result<String, RenderError> {
        let date = self.date(moment, date)?;
        match self.time(moment)? {
            None => Ok(date),
            Some(time) => self
                .words
                .say_with("moment", &fluent_args!["date" => date, "time" => time]),
        }
    }

    fn date(&self, moment: &Moment, message: &'static str) -> Result<String, RenderError> {
        let args = fluent_args![
            "weekday" => moment.weekday,
            "day" => moment.day,
            "month" => moment.month,
            "year" => moment.year.to_string(),
        ];
        self.words.say_with(message, &args)
    }

    fn time(&self, moment: &Moment) -> Result<Option<String>, RenderError> {
        let Some((hour, minute)) = moment.time else {
            return Ok(None);
        };
        let args = fluent_args![
            "hour" => hour,
            "hh" => format!("{hour:02}"),
            "hour12" => (hour + 11) % 12 + 1,
            "half" => if hour < 12 { "am" } else { "pm" },
            "minute" => format!("{minute:02}"),
        ];
        self.words.say_with("time", &args).map(Some)
    }
}

/// The message that offers an act.
pub(super) const fn offer(act: Act) -> &'static str {
    match act {
        Act::Acknowledge => "answer-acknowledge",
        Act::Snooze(Wait::TenMinutes) => "answer-snooze-10m",
        Act::Snooze(Wait::Hour) => "answer-snooze-1h",
        Act::Snooze(Wait::UntilStart) => "answer-snooze-until-start",
        Act::Mute => "answer-mute",
        Act::Unmute => "answer-unmute",
    }
}

/// The message that says how far it is.
fn message_of(relative: &Relative, is_task: bool, is_timed: bool) -> &'static str {
    let is_next_day = matches!(
        &*relative.parts,
        [Part {
            unit: "days",
            count: 1
        }]
    );
    match (relative.tense, is_task, is_timed) {
        (Tense::Ahead, true, false) if is_next_day => "due-tomorrow",
        (Tense::Ahead, true, _) => "due-in",
        (Tense::Ahead, false, true) => "starts-in",
        (Tense::Ahead, false, false) if is_next_day => "day-tomorrow",
        (Tense::Ahead, false, false) => "day-in",
        (Tense::Now, true, true) => "due-now",
        (Tense::Now, true, false) => "due-today",
        (Tense::Now, false, true) => "starts-now",
        (Tense::Now, false, false) => "day-today",
        (Tense::Begun | Tense::Over, true, false) if is_next_day => "was-due-yesterday",
        (Tense::Begun | Tense::Over, true, _) => "was-due",
        (Tense::Begun, false, false) if is_next_day => "started-yesterday",
        (Tense::Begun, false, _) => "started",
        (Tense::Over, false, false) if is_next_day => "ended-yesterday",
        (Tense::Over, false, _) if relative.parts.is_empty() => "ended-now",
        (Tense::Over, false, _) => "ended",
    }
}

/// That something is late, which was due then.
pub(super) fn late(due: &Moment, words: &Words) -> Result<String, RenderError> {
    Teller { words }.late(due)
}
