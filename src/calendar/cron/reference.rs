//! A plain reading of what cron does, which shares nothing with the engine: it draws expressions together with the sets of
//! numbers that they mean, and walks from minute to minute as the loop of cron does, with a virtual clock that goes through
//! every minute once.

use std::collections::BTreeSet;

use chrono::DateTime;
use chrono::Datelike;
use chrono::TimeDelta;
use chrono::Timelike;
use chrono::Utc;

use crate::calendar::zone::Zone;

/// Numbers that look random; a seed gives the same again.
pub(super) struct Draw(pub(super) u64);

impl Draw {
    /// A number below a bound.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(bound)).expect("it is below a number of 32 bits")
    }

    fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }
}

/// A field as text, and what it means.
struct Field {
    text: String,
    numbers: BTreeSet<u32>,
    is_star: bool,
}

impl Field {
    fn draw(draw: &mut Draw, low: u32, high: u32) -> Self {
        let (mut texts, mut numbers) = (Vec::new(), BTreeSet::new());
        for _ in 0..=draw.below(2) {
            let from = draw.between(low, high);
            let to = draw.between(from, high);
            let step = draw.between(1, 20);
            let (text, range, step) = match draw.below(8) {
                0 | 1 => ("*".to_owned(), low..=high, 1),
                2 => (format!("*/{step}"), low..=high, step),
                3 | 4 => (from.to_string(), from..=from, 1),
                5 => (format!("{from}/{step}"), from..=high, step),
                6 => (format!("{from}-{to}/{step}"), from..=to, step),
                _ => (format!("{from}-{to}"), from..=to, 1),
            };
            numbers.extend(
                range
                    .clone()
                    .filter(|number| (number - range.start()).is_multiple_of(step)),
            );
            texts.push(text);
        }
        Self {
            is_star: texts.first().is_some_and(|text| text.starts_with('*')),
            text: texts.join(","),
            numbers,
        }
    }
}

/// An expression, drawn field by field.
pub(super) struct Sample {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

impl Sample {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        Self {
            minutes: Field::draw(draw, 0, 59),
            hours: Field::draw(draw, 0, 23),
            days: Field::draw(draw, 1, 31),
            months: Field::draw(draw, 1, 12),
            weekdays: Field::draw(draw, 0, 7),
        }
    }

    pub(super) fn text(&self) -> String {
        let fields = [
            &self.minutes,
            &self.hours,
            &self.days,
            &self.months,
            &self.weekdays,
        ];
        fields.map(|field| field.text.as_str()).join(" ")
    }

    /// All firings after one instant up to another.
    pub(super) fn firings(
        &self,
        after: DateTime<Utc>,
        until: DateTime<Utc>,
        zone: &Zone,
    ) -> Vec<DateTime<Utc>> {
        let is_wild = self.minutes.is_star || self.hours.is_star;
        // The virtual clock has to know what happened before.
        let mut now = after - TimeDelta::days(2);
        let mut virtual_minute = local_minute(now, zone);
        let mut firings = Vec::new();
        while now < until {
            now += TimeDelta::minutes(1);
            let minute = local_minute(now, zone);
            let fires = if is_wild {
                self.matches(minute)
            } else {
                (virtual_minute + 1..=minute).any(|minute| self.matches(minute))
            };
            virtual_minute = virtual_minute.max(minute);
            if fires && now > after {
                firings.push(now);
            }
        }
        firings
    }

    fn matches(&self, local_minute: i64) -> bool {
        let local = DateTime::from_timestamp(local_minute * 60, 0).expect("it is an instant");
        let day = self.days.numbers.contains(&local.day());
        let number = local.weekday().num_days_from_sunday();
        let weekday =
            self.weekdays.numbers.contains(&number) || number == 0 && self.weekdays.numbers.contains(&7);
        let is_day = if self.days.is_star || self.weekdays.is_star {
            day && weekday
        } else {
            day || weekday
        };
        is_day
            && self.minutes.numbers.contains(&local.minute())
            && self.hours.numbers.contains(&local.hour())
            && self.months.numbers.contains(&local.month())
    }
}

/// What the clock shows, in minutes since 1970.
fn local_minute(instant: DateTime<Utc>, zone: &Zone) -> i64 {
    zone.to_local(instant).and_utc().timestamp().div_euclid(60)
}
