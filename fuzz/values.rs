//! Values of properties, drawn where mistakes are likely: at limits, at ends of years, around changes of clocks.

/// A source of chance that a seed repeats.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u32) -> Self {
        Self(u64::from(seed) ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// A number below `end`, or 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % end.max(1)
    }

    pub fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    pub fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

pub const ZONES: [&str; 16] = [
    "Europe/Berlin",
    "America/New_York",
    "Pacific/Apia",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Asia/Tehran",
    "America/Santiago",
    "Pacific/Chatham",
    "W. Europe Standard Time",
    "(UTC+01:00) Amsterdam\\, Berlin",
    "GMT+0530",
    "Custom",
    "\"a:b;c\"",
    "/freeassociation.sourceforge.net/Europe/Berlin",
];

/// Numbers at limits.
pub fn number(dice: &mut Dice) -> i64 {
    const LIMITS: [i64; 24] = [
        0,
        1,
        -1,
        2,
        5,
        7,
        12,
        23,
        24,
        31,
        53,
        59,
        60,
        61,
        97,
        100,
        366,
        1440,
        3650,
        65_535,
        86_400,
        4_294_967_295,
        i64::MAX,
        i64::MIN,
    ];
    if dice.one_in(2) {
        dice.of(&LIMITS)
    } else {
        dice.below(40) as i64 - 5
    }
}

fn date(dice: &mut Dice) -> String {
    const YEARS: [u32; 20] = [
        0, 1, 2, 1582, 1601, 1900, 1911, 1969, 1970, 1976, 2000, 2011, 2023, 2024, 2037, 2038, 2100, 9989,
        9998, 9999,
    ];
    // The days on which clocks change, and the ends of months and years.
    const DAYS: [&str; 16] = [
        "0101", "0228", "0229", "0329", "0331", "0404", "0424", "0430", "0906", "1025", "1101", "1230",
        "1231", "0230", "1301", "0000",
    ];
    let year = if dice.one_in(2) {
        2024 + dice.below(6) as u32
    } else {
        dice.of(&YEARS)
    };
    if dice.one_in(2) {
        return format!("{year:04}{}", dice.of(&DAYS));
    }
    format!("{year:04}{:02}{:02}", 1 + dice.below(12), 1 + dice.below(31))
}

fn time(dice: &mut Dice) -> String {
    const TIMES: [&str; 12] = [
        "T000000", "T000001", "T010000", "T013000", "T020000", "T023000", "T030000", "T120000", "T235959",
        "T240000", "T235960", "T0900",
    ];
    if dice.one_in(2) {
        return dice.of(&TIMES).to_owned();
    }
    format!("T{:02}{:02}{:02}", dice.below(24), dice.below(60), dice.below(60))
}

/// Parameters and values of a time: `;TZID=Europe/Berlin:20261025T023000`.
pub fn moment(dice: &mut Dice) -> String {
    match dice.below(6) {
        0 => format!(";VALUE=DATE:{}", date(dice)),
        1 => format!(":{}{}", date(dice), time(dice)),
        2 | 3 => format!(":{}{}Z", date(dice), time(dice)),
        _ => format!(";TZID={}:{}{}", dice.of(&ZONES), date(dice), time(dice)),
    }
}

/// The same as a list, in which there may be periods.
pub fn moments(dice: &mut Dice) -> String {
    let mut list = moment(dice);
    if dice.one_in(6) {
        list = format!(";VALUE=PERIOD:{}{}Z/{}", date(dice), time(dice), duration(dice));
    }
    for _ in 0..dice.below(6) {
        let suffix = dice.of(&["", "Z"]);
        list.push_str(&format!(",{}{}{suffix}", date(dice), time(dice)));
    }
    list
}

pub fn duration(dice: &mut Dice) -> String {
    const USUAL: [&str; 16] = [
        "-PT15M",
        "PT0S",
        "-P1D",
        "-PT24H",
        "P1W",
        "-P3650D",
        "P3660D",
        "-PT87600H",
        "P1DT12H",
        "-P2W",
        "PT1M",
        "PT59S",
        "-PT1S",
        "P",
        "-P1M",
        "P36500D",
    ];
    if dice.one_in(2) {
        return dice.of(&USUAL).to_owned();
    }
    let (sign, unit) = (dice.of(&["", "-", "+"]), dice.of(&["W", "D", "H", "M", "S"]));
    let t = if matches!(unit, "H" | "M" | "S") { "T" } else { "" };
    format!("{sign}P{t}{}{unit}", number(dice))
}

/// Parameters and value of a TRIGGER.
pub fn trigger(dice: &mut Dice) -> String {
    match dice.below(6) {
        0 => format!(";VALUE=DATE-TIME:{}{}Z", date(dice), time(dice)),
        1 => format!(";RELATED=END:{}", duration(dice)),
        2 => moment(dice),
        _ => format!(":{}", duration(dice)),
    }
}

/// A rule of parts that seldom meet.
pub fn rule(dice: &mut Dice) -> String {
    const FREQUENCIES: [&str; 7] = [
        "SECONDLY", "MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY",
    ];
    let mut rule = format!("FREQ={}", dice.of(&FREQUENCIES));
    for _ in 0..dice.below(5) {
        rule.push(';');
        rule.push_str(&part(dice));
    }
    rule
}

fn part(dice: &mut Dice) -> String {
    const DAYS: [&str; 7] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];
    match dice.below(14) {
        0 => format!("INTERVAL={}", number(dice)),
        1 => format!("COUNT={}", number(dice)),
        2 => format!(
            "UNTIL={}{}",
            date(dice),
            dice.of(&["", "T000000", "T235959Z", "T013000Z"])
        ),
        3 => format!("WKST={}", dice.of(&DAYS)),
        4 | 5 => {
            let mut days: Vec<String> = Vec::new();
            for _ in 0..=dice.below(4) {
                let place = if dice.one_in(2) {
                    String::new()
                } else {
                    number(dice).to_string()
                };
                days.push(format!("{place}{}", dice.of(&DAYS)));
            }
            format!("BYDAY={}", days.join(","))
        }
        _ => {
            // What fits the part, so that most rules can be read.
            let (name, most) = dice.of(&[
                ("BYMONTH", 12),
                ("BYMONTHDAY", 31),
                ("BYYEARDAY", 366),
                ("BYWEEKNO", 53),
                ("BYHOUR", 23),
                ("BYMINUTE", 59),
                ("BYSECOND", 59),
                ("BYSETPOS", 366),
            ]);
            let may_be_negative = !matches!(name, "BYMONTH" | "BYHOUR" | "BYMINUTE" | "BYSECOND");
            let mut numbers: Vec<String> = Vec::new();
            for _ in 0..=dice.below(5) {
                let place = if dice.one_in(3) {
                    most
                } else {
                    1 + dice.below(most)
                };
                let sign = if may_be_negative && dice.one_in(3) {
                    "-"
                } else {
                    ""
                };
                numbers.push(format!("{sign}{place}"));
            }
            format!("{name}={}", numbers.join(","))
        }
    }
}

/// What stands behind the name of a property, drawn for that property.
pub fn value(name: &str, dice: &mut Dice) -> String {
    match name {
        "DTSTART" | "DTEND" | "DUE" | "COMPLETED" | "ACKNOWLEDGED" | "DTSTAMP" => moment(dice),
        "RECURRENCE-ID" if dice.one_in(3) => format!(";RANGE=THISANDFUTURE{}", moment(dice)),
        "RECURRENCE-ID" => moment(dice),
        "RDATE" | "EXDATE" => moments(dice),
        "RRULE" | "EXRULE" => format!(":{}", rule(dice)),
        "TRIGGER" => trigger(dice),
        "DURATION" => format!(":{}", duration(dice)),
        "REPEAT" | "SEQUENCE" => format!(":{}", number(dice)),
        "TZOFFSETFROM" | "TZOFFSETTO" => {
            format!(
                ":{}",
                dice.of(&[
                    "+0000", "+0100", "+0200", "-0330", "+2359", "-235959", "+9999", "0100"
                ])
            )
        }
        "TZID" => format!(":{}", dice.of(&ZONES)),
        "STATUS" => format!(
            ":{}",
            dice.of(&["CONFIRMED", "CANCELLED", "COMPLETED", "TENTATIVE"])
        ),
        "METHOD" => format!(":{}", dice.of(&["PUBLISH", "REQUEST", "CANCEL", "REPLY"])),
        "ACTION" => format!(":{}", dice.of(&["EMAIL", "DISPLAY", "AUDIO", "NONE", ""])),
        "UID" => format!(":{}", dice.of(&["a", "b", "u", ""])),
        "ATTENDEE" => {
            let status = dice.of(&[
                "",
                ";PARTSTAT=DECLINED",
                ";PARTSTAT=DELEGATED",
                ";PARTSTAT=ACCEPTED",
            ]);
            format!("{status}:mailto:me@example.org")
        }
        "RELATED-TO" => format!("{}:{}", dice.of(&["", ";RELTYPE=SNOOZE"]), dice.of(&["a", "b"])),
        _ => format!(":{}", number(dice)),
    }
}
