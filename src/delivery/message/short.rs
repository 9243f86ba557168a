//! A reminder as a text message: how long until, what, when and where, in the room that [`segments`] leaves. The place is
//! left out where there is no room for it, then the title is cut between two graphemes; time and zone never are.

use fluent::fluent_args;
use unicode_segmentation::UnicodeSegmentation;

use crate::channel::sms::segments;
use crate::delivery::message::RenderError;
use crate::delivery::message::digest::reminders;
use crate::delivery::message::facts::Facts;
use crate::delivery::message::wording::Teller;
use crate::delivery::message::words::Words;

/// What stands for the rest of a title. Not one character, which would take the room of ninety others.
const CUT: &str = "...";

/// How text messages are worded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextForm {
    /// Whether typographic characters become plain ones where that saves room.
    pub is_plain: bool,
    /// Whether they tell the title of a private event.
    pub shows_private: bool,
}

impl Default for TextForm {
    fn default() -> Self {
        Self {
            is_plain: true,
            shows_private: false,
        }
    }
}

impl TextForm {
    /// Says `facts` in the language of `words`.
    pub(super) fn write(self, facts: &Facts, words: &Words) -> Result<String, RenderError> {
        self.write_first(facts, None, words)
    }

    /// Says that there are so many reminders, and the first of them.
    pub(super) fn write_digest(
        self,
        first: &Facts,
        count: usize,
        words: &Words,
    ) -> Result<String, RenderError> {
        self.write_first(first, Some(reminders(count, words)?), words)
    }

    fn write_first(
        self,
        facts: &Facts,
        reminders: Option<String>,
        words: &Words,
    ) -> Result<String, RenderError> {
        let teller = Teller { words };
        let hides_title = facts.is_private && !self.shows_private;
        let title = match &*facts.title {
            _ if hides_title => words.say("private-event")?,
            "" => words.say("no-title")?,
            title => title.to_owned(),
        };
        let place = Some(&*facts.location).filter(|place| !place.is_empty() && !hides_title);
        let line = Line {
            words,
            is_plain: self.is_plain,
            reminders,
            relative: teller.how_far(facts)?,
            when: teller.when(&facts.when, facts.is_task, "date-short")?,
        };
        let whole = line.write(&title, place)?;
        if fits(&whole) {
            return Ok(whole);
        }
        line.cut(&title)
    }
}

/// What stays as it is while a title gives way.
struct Line<'w> {
    words: &'w Words,
    is_plain: bool,
    /// How many there are, if it is not only this.
    reminders: Option<String>,
    relative: String,
    when: String,
}

impl Line<'_> {
    fn write(&self, title: &str, place: Option<&str>) -> Result<String, RenderError> {
        let isolated = |text: &str| self.words.direction.isolated(text);
        let headline = fluent_args!["relative" => &*self.relative, "title" => isolated(title)];
        let headline = self.words.say_with("headline", &headline)?;
        let text = fluent_args!["headline" => headline, "when" => &*self.when];
        let mut text = self.words.say_with("text-message", &text)?;
        if let Some(place) = place {
            let args = fluent_args!["text" => text, "where" => isolated(place)];
            text = self.words.say_with("text-message-where", &args)?;
        }
        if let Some(reminders) = &self.reminders {
            let args = fluent_args!["reminders" => &**reminders, "text" => text];
            text = self.words.say_with("text-message-digest", &args)?;
        }
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(if self.is_plain {
            segments::plain(&text)
        } else {
            text
        })
    }

    /// With as much of the title as there is room for.
    fn cut(&self, title: &str) -> Result<String, RenderError> {
        let whole = self.write(title, None)?;
        if fits(&whole) {
            return Ok(whole);
        }
        let ends: Vec<usize> = title.grapheme_indices(true).map(|(at, _)| at).collect();
        let shortened = |end: usize| self.write(&format!("{}{CUT}", title[..end].trim_end()), None);
        // The shortest stands even where it does not fit: nothing else may give way.
        let mut best = self.write(CUT, None)?;
        let (mut low, mut high) = (0, ends.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let text = shortened(ends[middle])?;
            if fits(&text) {
                best = text;
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(best)
    }
}

fn fits(text: &str) -> bool {
    segments::parts(text) <= segments::MOST_PARTS
}

#[cfg(test)]
mod tests {
    use crate::calendar::event::Occurrence;
    use crate::channel::Content;
    use crate::channel::sms::segments;
    use crate::delivery::message::Renderer;
    use crate::delivery::message::TextForm;
    use crate::delivery::message::samples::Sending;
    use crate::delivery::message::samples::render_digest;
    use crate::delivery::message::samples::render_text;
    use crate::delivery::message::samples::sent;
    use crate::delivery::message::samples::stand_up;
    use crate::delivery::message::samples::task;
    use crate::delivery::message::samples::whole_days;
    use crate::trigger::ChannelKind;

    fn text_in(occurrence: &Occurrence, locale: &str, form: TextForm) -> String {
        let renderer = Renderer::new(None).unwrap().with_text_form(form);
        let sending: Sending = sent("2026-12-01T08:15:00Z");
        match render_text(&renderer, occurrence, &sending, locale) {
            Content::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    fn text(occurrence: &Occurrence) -> String {
        text_in(occurrence, "en", TextForm::default())
    }

    fn named(summary: &str) -> Occurrence {
        Occurrence {
            summary: summary.to_owned(),
            location: "Room 5".to_owned(),
            ..stand_up()
        }
    }

    #[test]
    fn a_text_message_says_what_when_and_where() {
        assert_eq!(
            text(&named("Stand-up")),
            "Starts in 15 minutes: Stand-up - Tue 1 Dec 2026, 09:30-10:00 (Europe/Berlin, UTC+1) - Room 5"
        );
        assert_eq!(
            text(&task(named("Taxes"))),
            "Due in 45 minutes: Taxes - Tue 1 Dec 2026, 10:00 (Europe/Berlin, UTC+1) - Room 5"
        );
        assert_eq!(
            text(&whole_days(2, 3)),
            "Tomorrow: Stand-up - Wed 2 Dec 2026 - Thu 3 Dec 2026"
        );
    }

    #[test]
    fn it_is_said_in_every_language() {
        let texts: Vec<String> = ["en-US", "de", "fr", "es", "ja", "ar"]
            .iter()
            .map(|locale| text_in(&named("Stand-up"), locale, TextForm::default()))
            .collect();
        insta::assert_snapshot!(texts.join("\n"));
        for text in &texts {
            assert!(segments::parts(text) <= 2, "{text}");
        }
        for text in &texts[..4] {
            assert_eq!(segments::parts(text), 1, "{text}");
        }
    }

    #[test]
    fn of_several_it_says_how_many_there_are_and_the_first() {
        let renderer = Renderer::new(None).unwrap();
        let sending = sent("2026-12-01T08:15:00Z");
        let digest = |first: &str, locale: &str| {
            let several = [named(first), named("Tea"), named("Cake")];
            match render_digest(&renderer, &several, &sending, (locale, ChannelKind::Sms)) {
                Content::Text(text) => text,
                other => panic!("{other:?}"),
            }
        };
        let texts = ["en", "de", "fr", "es", "ja", "ar"].map(|locale| digest("Stand-up", locale));
        insta::assert_snapshot!(texts.join("\n"));
        let long = digest(&"x".repeat(900), "en");
        assert_eq!(segments::parts(&long), segments::MOST_PARTS, "{long}");
        assert!(long.starts_with("3 reminders. First: "), "{long}");
        assert!(
            long.contains("... - Tue 1 Dec 2026, 09:30-10:00 (Europe/Berlin, UTC+1)"),
            "{long}"
        );
    }

    #[test]
    fn a_long_title_gives_way_and_time_and_zone_never_do() {
        let when = " - Tue 1 Dec 2026, 09:30-10:00 (Europe/Berlin, UTC+1)";
        let family = "👨‍👩‍👧‍👦";
        for title in [
            "x".repeat(500),
            "会議".repeat(100),
            family.repeat(80),
            format!("{}🎂", "x".repeat(180)),
        ] {
            let text = text(&named(&title));
            assert_eq!(segments::parts(&text), 3.min(segments::parts(&text)), "{text}");
            assert!(
                text.ends_with(when) || text.ends_with(&format!("{when} - Room 5")),
                "{text}"
            );
        }
        let families = text(&named(&family.repeat(80)));
        let shown = families
            .trim_start_matches("Starts in 15 minutes: ")
            .trim_end_matches(when);
        let shown = shown.trim_end_matches("...").trim_end_matches('…');
        assert!(
            shown.len() > family.len() && shown.replace(family, "").is_empty(),
            "{shown}"
        );
        // With one grapheme more it would not have fitted.
        let more = families.replacen(family, &family.repeat(2), 1);
        assert_eq!((segments::parts(&families), segments::parts(&more)), (3, 4));
    }

    #[test]
    fn typography_is_made_plain_where_that_is_wanted() {
        let occurrence = named("“Jo’s” – plan");
        let plain = text(&occurrence);
        assert!(plain.contains("\"Jo's\" - plan"), "{plain}");
        let form = TextForm {
            is_plain: false,
            ..TextForm::default()
        };
        let typographic = text_in(&occurrence, "en", form);
        assert!(typographic.contains("“Jo’s” – plan"), "{typographic}");
        assert_eq!((segments::parts(&plain), segments::parts(&typographic)), (1, 2));
    }

    #[test]
    fn what_is_private_is_not_told_unless_it_may_be() {
        let private = Occurrence {
            is_private: true,
            ..named("Dentist")
        };
        let hidden = text(&private);
        assert!(
            hidden.starts_with("Starts in 15 minutes: Private event - Tue"),
            "{hidden}"
        );
        assert!(
            !hidden.contains("Dentist") && !hidden.contains("Room 5"),
            "{hidden}"
        );
        let form = TextForm {
            shows_private: true,
            ..TextForm::default()
        };
        assert!(text_in(&private, "en", form).contains("Dentist"));
    }

    #[test]
    fn a_text_message_is_one_line() {
        let text = text(&named("Tea\r\n\tand  cake\u{1b}[31m"));
        assert!(text.contains("Tea and cake"), "{text}");
        assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
    }
}
