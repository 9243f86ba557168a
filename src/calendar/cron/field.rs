//! One field of a cron expression: numbers, names, ranges, steps and lists.

use crate::calendar::cron::error::CronError;

/// The numbers that a field names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Values {
    bits: u64,
    /// Whether the field begins with a star. It decides how days are combined and what clock changes do.
    pub(super) is_star: bool,
}

impl Values {
    /// None yet, of a field that is written so.
    pub(super) fn of_field(text: &str) -> Self {
        Self {
            bits: 0,
            is_star: text.starts_with('*'),
        }
    }

    pub(super) fn has(self, value: u32) -> bool {
        value < u64::BITS && self.bits & (1 << value) != 0
    }

    pub(super) fn add(&mut self, value: u32) {
        self.bits |= 1 << value.min(u64::BITS - 1);
    }

    /// The smallest number, from one on.
    pub(super) fn first_from(self, from: u32) -> Option<u32> {
        let left = self.bits.checked_shr(from)?;
        (left != 0).then(|| from + left.trailing_zeros())
    }
}

/// What a field of an expression may say.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) low: u32,
    pub(super) high: u32,
    /// The names of the numbers, from the lowest on.
    pub(super) names: &'static [&'static str],
}

pub(super) const MINUTE: Field = Field {
    name: "minute",
    low: 0,
    high: 59,
    names: &[],
};

pub(super) const HOUR: Field = Field {
    name: "hour",
    low: 0,
    high: 23,
    names: &[],
};

pub(super) const DAY_OF_MONTH: Field = Field {
    name: "day of the month",
    low: 1,
    high: 31,
    names: &[],
};

pub(super) const MONTH: Field = Field {
    name: "month",
    low: 1,
    high: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};

/// Sunday is 0 and 7.
pub(super) const DAY_OF_WEEK: Field = Field {
    name: "day of the week",
    low: 0,
    high: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

impl Field {
    /// All values of a list such as `1,5-9,*/15`.
    pub(super) fn values(&self, text: &str) -> Result<Values, CronError> {
        let mut values = Values::of_field(text);
        for part in text.split(',') {
            self.add_part(part, &mut values)?;
        }
        Ok(values)
    }

    /// Adds one member of a list: `*`, `7`, `3-9`, each also with a step as `/2`.
    pub(super) fn add_part(&self, part: &str, values: &mut Values) -> Result<(), CronError> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(self.step(part, step)?)),
            None => (part, None),
        };
        let (low, high) = self.range(part, range, step.is_some())?;
        for value in (low..=high).step_by(step.unwrap_or(1)) {
            values.add(value);
        }
        Ok(())
    }

    fn range(&self, part: &str, range: &str, has_step: bool) -> Result<(u32, u32), CronError> {
        if range == "*" {
            return Ok((self.low, self.high));
        }
        let Some((low, high)) = range.split_once('-') else {
            let value = self.value(part, range)?;
            // `5/15` is `5-59/15`.
            return Ok((value, if has_step { self.high } else { value }));
        };
        let from = self.value(part, low)?;
        let to = match self.value(part, high)? {
            // A week may end on its Sunday: `fri-sun`.
            0 if high.eq_ignore_ascii_case("sun") && from > 0 => self.high,
            to => to,
        };
        if from > to {
            let cure = format!(
                "a range goes upwards; write it in two, as `{low}-{},{}-{high}`",
                self.high, self.low
            );
            return Err(self.error(part, cure));
        }
        Ok((from, to))
    }

    fn step(&self, part: &str, step: &str) -> Result<usize, CronError> {
        number(step)
            .filter(|step| *step > 0)
            .and_then(|step| step.try_into().ok())
            .ok_or_else(|| self.error(part, "a step is a number from 1 on, as in `*/15`".to_owned()))
    }

    /// The number that a digit or a name stands for.
    pub(super) fn value(&self, part: &str, text: &str) -> Result<u32, CronError> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let value = match named {
            Some(index) => u32::try_from(index).ok().map(|index| index + self.low),
            None => number(text),
        };
        value
            .filter(|value| (self.low..=self.high).contains(value))
            .ok_or_else(|| self.error(part, self.cure()))
    }

    pub(super) fn error(&self, part: &str, cure: String) -> CronError {
        CronError::Field {
            field: self.name,
            value: part.to_owned(),
            cure,
        }
    }

    fn cure(&self) -> String {
        let names = match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!(" or {first} to {last}"),
            _ => String::new(),
        };
        format!(
            "write `*`, numbers from {} to {}{names}, ranges as 1-5, steps as */2, and lists with commas",
            self.low, self.high
        )
    }
}

/// A number of at most four digits and nothing else.
fn number(text: &str) -> Option<u32> {
    let is_number = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}
