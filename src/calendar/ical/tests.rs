use proptest::prelude::*;

use super::*;
use crate::calendar::alarm::AlarmTrigger;
use crate::calendar::event::End;

fn calendar(components: &str) -> Calendar {
    let text = format!("BEGIN:VCALENDAR\n{components}END:VCALENDAR\n");
    parse(text.as_bytes()).expect("a calendar")
}

fn vevent(lines: &[&str]) -> String {
    format!("BEGIN:VEVENT\n{}\nEND:VEVENT\n", lines.join("\n"))
}

fn valarm(lines: &[&str]) -> String {
    format!("BEGIN:VALARM\n{}\nEND:VALARM", lines.join("\n"))
}

fn only(calendar: &Calendar) -> &Component {
    &calendar.events[0].components()[0]
}

/// What becomes of an alarm with these lines in a sound event.
fn alarm(lines: &[&str]) -> (Calendar, usize) {
    let good = valarm(&["ACTION:EMAIL", "TRIGGER:-PT5M"]);
    let calendar = calendar(&vevent(&[
        "UID:u",
        "DTSTART:20261201T090000Z",
        &valarm(lines),
        &good,
    ]));
    let alarms = only(&calendar).alarms.len();
    (calendar, alarms)
}

#[test]
fn events_are_grouped_by_uid_in_the_order_of_the_text() {
    let calendar = calendar(
        &(vevent(&["UID:b", "DTSTART:20261201T090000Z"])
            + &vevent(&["UID:a", "DTSTART:20261201T090000Z"])
            + &vevent(&[
                "UID:b",
                "RECURRENCE-ID:20261201T090000Z",
                "DTSTART:20261201T100000Z",
            ])),
    );
    let uids: Vec<(&str, usize)> = calendar
        .events
        .iter()
        .map(|event| (event.uid(), event.components().len()))
        .collect();
    assert_eq!(uids, [("b", 2), ("a", 1)]);
}

/// Instants that far off are cut, so that two overrides there would be of one instance.
#[test]
fn a_recurrence_id_beyond_all_calendars_is_refused_alone() {
    let calendar = calendar(
        &(vevent(&["UID:a", "DTSTART:20261201T090000Z"])
            + &vevent(&[
                "UID:a",
                "RECURRENCE-ID;RANGE=THISANDFUTURE:99990329T015045Z",
                "DTSTART:19700906T002114",
            ])),
    );
    assert_eq!(calendar.events[0].components().len(), 1);
    let told = format!("{calendar:?}");
    assert!(
        told.contains("RECURRENCE-ID `99990329T015045Z`: no instance lies there"),
        "{told}"
    );
}

#[test]
fn a_component_without_a_uid_is_named_by_its_text() {
    let named = |summary: &str| {
        let calendar = calendar(&vevent(&["DTSTART:20261201T090000Z", summary]));
        calendar.events[0].uid().to_owned()
    };
    assert_eq!(named("SUMMARY:a"), named("SUMMARY:a"));
    assert_ne!(named("SUMMARY:a"), named("SUMMARY:b"));
}

#[test]
fn p01_an_event_without_a_start_is_rejected_alone() {
    let long = "x".repeat(200);
    let calendar =
        calendar(&(vevent(&["UID:broken"]) + &vevent(&[&format!("UID:{long}"), "DTSTART:20261201T090000Z"])));
    assert_eq!(calendar.events.len(), 1);
    let rejection = &calendar.rejected[0];
    assert_eq!(
        (
            rejection.uid.as_deref(),
            rejection.component.as_str(),
            rejection.line
        ),
        (Some("broken"), "VEVENT", 2)
    );
    assert!(rejection.reason.contains("DTSTART"), "{rejection:?}");
}

#[test]
fn p10_a_rule_that_cannot_be_read_is_no_missing_rule() {
    for rule in [
        "RRULE:",
        "RRULE:FREQ=SOMETIMES",
        "RRULE:FREQ=DAILY;UNTIL=soon",
        "RRULE:FREQ=WEEKLY;BYDAY=😀",
    ] {
        let calendar = calendar(&vevent(&["UID:u", "DTSTART:20261201T090000Z", rule]));
        assert_eq!(calendar.events.len(), 0, "{rule}");
        assert!(
            calendar.rejected[0].reason.contains("RRULE"),
            "{:?}",
            calendar.rejected
        );
    }
}

#[test]
fn parts_that_parsers_drop_silently_are_seen() {
    for rule in ["COUNT=0", "INTERVAL=0", "BYHOUR=99", "BYMONTH=13"] {
        let line = format!("RRULE:FREQ=DAILY;{rule}");
        let calendar = calendar(&vevent(&["UID:u", "DTSTART:20261201T090000Z", &line]));
        let is_noticed = !calendar.rejected.is_empty() || !calendar.warnings.is_empty();
        assert!(is_noticed, "{rule}: {calendar:?}");
    }
}

#[test]
fn p10_empty_values_do_no_harm() {
    let names = [
        "SUMMARY",
        "DESCRIPTION",
        "LOCATION",
        "URL",
        "ORGANIZER",
        "ATTENDEE",
        "CLASS",
        "STATUS",
        "SEQUENCE",
        "DTSTAMP",
        "EXDATE",
        "RDATE",
        "DTEND",
        "DURATION",
        "COMPLETED",
    ];
    for name in names {
        let empty = format!("{name}:");
        let calendar = calendar(&vevent(&["UID:u", "DTSTART:20261201T090000Z", &empty]));
        assert_eq!(calendar.events.len(), 1, "{name}");
    }
}

#[test]
fn a11_an_alarm_without_a_trigger_or_with_two_is_left_out_alone() {
    for (lines, reason) in [
        (&["ACTION:EMAIL"][..], "no TRIGGER"),
        (
            &["ACTION:EMAIL", "TRIGGER:-PT5M", "TRIGGER:-PT6M"][..],
            "2 TRIGGERs",
        ),
    ] {
        let (calendar, alarms) = alarm(lines);
        assert_eq!(alarms, 1);
        assert!(calendar.warnings[0].contains(reason), "{:?}", calendar.warnings);
        assert!(
            calendar.warnings[0].starts_with("VALARM, line 5: "),
            "{:?}",
            calendar.warnings
        );
        assert_eq!(only(&calendar).unreadable.len(), 1);
    }
}

#[test]
fn a12_a13_a_trigger_is_never_invented() {
    for trigger in [
        "",
        "next monday",
        "P",
        "-PT15",
        "-15M",
        "PT1.5H",
        "-P1M",
        "P99999999W",
        "-PT99999999999S",
        "99",
    ] {
        let line = format!("TRIGGER:{trigger}");
        let (calendar, alarms) = alarm(&["UID:odd", "ACTION:EMAIL", &line]);
        assert_eq!(alarms, 1, "{trigger}");
        assert!(
            calendar.warnings[0].contains("alarm `odd` of `u`"),
            "{:?}",
            calendar.warnings
        );
    }
}

#[test]
fn a08_a_lenient_reading_is_told() {
    let (calendar, alarms) = alarm(&["ACTION:EMAIL", "TRIGGER:-P240S"]);
    assert_eq!(alarms, 2);
    assert!(calendar.warnings[0].contains("-P240S"), "{:?}", calendar.warnings);
}

#[test]
fn a_huge_repeat_leaves_its_alarm_out() {
    let (calendar, alarms) = alarm(&[
        "ACTION:EMAIL",
        "TRIGGER:PT0S",
        "REPEAT:4294967295",
        "DURATION:PT5M",
    ]);
    assert_eq!(alarms, 1);
    assert!(
        calendar.warnings[0].contains("4294967295"),
        "{:?}",
        calendar.warnings
    );
}

#[test]
fn an_undeclared_absolute_trigger_is_understood() {
    for (line, warnings) in [
        ("TRIGGER;VALUE=DATE-TIME:19970101T050000Z", 0),
        ("TRIGGER:19970101T050000Z", 1),
        ("TRIGGER;VALUE=DATE:19970101", 1),
        ("TRIGGER;VALUE=DATE-TIME:19970101T050000Z,19970102T050000Z", 1),
    ] {
        let (calendar, _) = alarm(&["ACTION:EMAIL", "SUMMARY:s", "DESCRIPTION:d", line]);
        let trigger = &only(&calendar).alarms[0].trigger;
        assert!(matches!(trigger, AlarmTrigger::Absolute(_)), "{line}");
        let about = calendar.warnings.iter().filter(|it| it.contains("TRIGGER `1997"));
        assert_eq!(about.count(), warnings, "{line}: {:?}", calendar.warnings);
    }
}

#[test]
fn an_end_before_the_start_is_the_start_and_said() {
    let event = vevent(&["UID:u", "DTSTART:20261201T090000Z", "DTEND:20261201T080000Z"]);
    let warnings = calendar(&event).warnings;
    assert!(
        warnings.iter().any(|it| it.contains("DTEND lies before DTSTART")),
        "{warnings:?}"
    );
}

#[test]
fn p08_a_malformed_attendee_of_an_alarm_does_no_harm() {
    let (_, alarms) = alarm(&["ACTION:EMAIL", "TRIGGER:PT0S", "ATTENDEE:::;;\"mailto"]);
    assert_eq!(alarms, 2);
}

#[test]
fn client_decorations_and_acknowledgements_are_no_identity() {
    let identity = |more: &str| {
        let (calendar, _) = alarm(&["ACTION:EMAIL", "SUMMARY:s", "TRIGGER:-PT15M", more]);
        only(&calendar).alarms[0].identity.clone()
    };
    let plain = identity("X-NONE:1");
    for decoration in [
        "X-EVOLUTION-ALARM-UID:7",
        "X-MOZ-LASTACK:20260101T000000Z",
        "ACKNOWLEDGED:20260101T000000Z",
    ] {
        assert_eq!(identity(decoration), plain, "{decoration}");
    }
    assert_ne!(identity("ATTENDEE:mailto:a@example.org"), plain);
}

#[test]
fn limits_are_told() {
    let alarms: Vec<String> = (0..60)
        .map(|minute| valarm(&["ACTION:EMAIL", &format!("TRIGGER:-PT{minute}M")]))
        .collect();
    let many = calendar(&vevent(&[
        "UID:u",
        "DTSTART:20261201T090000Z",
        &alarms.join("\n"),
    ]));
    assert_eq!((only(&many).alarms.len(), only(&many).unreadable.len()), (50, 10));

    let dates = format!("EXDATE:{}", vec!["20261201T090000Z"; 10_001].join(","));
    let flood = calendar(&vevent(&["UID:u", "DTSTART:20261201T090000Z", &dates]));
    assert!(flood.rejected[0].reason.contains("10001"), "{:?}", flood.rejected);

    let others = "ATTENDEE;PARTSTAT=ACCEPTED:mailto:you@example.org\n".repeat(150);
    let own = format!("{others}ATTENDEE;PARTSTAT=DECLINED:mailto:me@example.org");
    let crowd = calendar(&vevent(&["UID:u", "DTSTART:20261201T090000Z", &own]));
    assert_eq!(only(&crowd).attendees.len(), 101);
    assert!(
        crowd.warnings[0].contains("151 attendees"),
        "{:?}",
        crowd.warnings
    );

    let error = parse(&vec![b'x'; (1 << 20) + 1]).expect_err("too large");
    assert!(error.reason.contains("1048577"), "{error}");
}

#[test]
fn z06_an_unknown_zone_costs_its_event_alone() {
    let calendar = calendar(
        &(vevent(&["UID:a", "DTSTART;TZID=Customized Time Zone:20261201T090000"])
            + &vevent(&["UID:b", "DTSTART:20261201T090000Z"])),
    );
    assert_eq!(calendar.events.len(), 1);
    let rejection = &calendar.rejected[0];
    assert_eq!(
        (rejection.uid.as_deref(), rejection.component.as_str()),
        (Some("a"), "VEVENT")
    );
    assert!(
        rejection
            .reason
            .contains("unknown time zone `Customized Time Zone` in DTSTART"),
        "{}",
        rejection.reason
    );
}

fn zone_of(tzid: &str, definition: &str) -> String {
    let start = format!("DTSTART;TZID={tzid}:20261201T090000");
    let calendar = calendar(&(definition.to_owned() + &vevent(&["UID:u", &start])));
    let start = only(&calendar).start.as_ref().expect("a start");
    start
        .zone
        .as_ref()
        .map_or("-".to_owned(), |zone| zone.name().to_owned())
}

fn vtimezone(tzid: &str, more: &str) -> String {
    format!(
        "BEGIN:VTIMEZONE\nTZID:{tzid}\n{more}BEGIN:STANDARD\nDTSTART:19700101T000000\nTZOFFSETFROM:+0430\n\
         TZOFFSETTO:+0430\nEND:STANDARD\nEND:VTIMEZONE\n"
    )
}

#[test]
fn time_zones_are_found_in_order() {
    for (tzid, definition, expected) in [
        ("europe/berlin", String::new(), "Europe/Berlin"),
        ("Europe/Berlin", vtimezone("Europe/Berlin", ""), "Europe/Berlin"),
        ("UTC", String::new(), "UTC"),
        (
            "Own",
            vtimezone("Own", "X-LIC-LOCATION:Asia/Tokyo\n"),
            "Asia/Tokyo",
        ),
        ("Own", vtimezone("Own", "X-LIC-LOCATION:Nowhere\n"), "Own"),
        (
            "W. Europe Standard Time",
            vtimezone("W. Europe Standard Time", ""),
            "Europe/Berlin",
        ),
        (
            "Customized Time Zone",
            vtimezone("Customized Time Zone", ""),
            "Customized Time Zone",
        ),
        ("EST", String::new(), "EST"),
        ("EST", vtimezone("EST", ""), "EST"),
        (
            "EST",
            vtimezone("EST", "X-LIC-LOCATION:Australia/Sydney\n"),
            "Australia/Sydney",
        ),
        ("GMT", vtimezone("GMT", "X-LIC-LOCATION:Asia/Tokyo\n"), "GMT"),
        ("GMT+0200", vtimezone("GMT+0200", ""), "GMT+0200"),
        ("GMT+0200", String::new(), "UTC+02:00"),
        (
            "/softwarestudio.org/Olson_20011030_5/Europe/London",
            String::new(),
            "Europe/London",
        ),
        (
            "\"(UTC+01:00) Amsterdam, Berlin, Bern, Rome, Stockholm, Vienna\"",
            String::new(),
            "Europe/Berlin",
        ),
    ] {
        assert_eq!(zone_of(tzid, &definition), expected, "{tzid}");
    }
}

#[test]
fn a_vtimezone_without_an_onset_defines_no_zone() {
    let broken = "BEGIN:VTIMEZONE\nTZID:Broken\nEND:VTIMEZONE\n".to_owned();
    let calendar = calendar(&(broken + &vevent(&["UID:u", "DTSTART;TZID=Broken:20261201T090000"])));
    assert!(
        calendar.rejected[0].reason.contains("`Broken`"),
        "{:?}",
        calendar.rejected
    );
}

#[test]
fn words_are_kept_for_the_message() {
    let calendar = calendar(&vevent(&[
        "UID:u",
        "DTSTART:20261201T090000Z",
        "SUMMARY:Tom & Jerry\\, again",
        "LOCATION:Room 1",
        "URL:javascript:alert(1)",
        "CONFERENCE;VALUE=URI:https://meet.example.org/1",
        "ORGANIZER:MAILTO:Ann@Example.org",
        "CLASS:confidential",
    ]));
    let words = &only(&calendar).words;
    assert_eq!(words.summary, "Tom & Jerry, again");
    assert_eq!(words.link.as_deref(), Some("https://meet.example.org/1"));
    assert_eq!(words.organizer.as_deref(), Some("ann@example.org"));
    assert!(words.is_private);
}

#[test]
fn a_broken_end_is_no_missing_end() {
    let calendar = calendar(&vevent(&[
        "UID:u",
        "DTSTART:20261201T090000Z",
        "DTEND:20261332T000000Z",
    ]));
    assert!(matches!(only(&calendar).end, End::Unreadable));
    assert!(calendar.warnings[0].contains("DTEND"), "{:?}", calendar.warnings);
}

#[test]
fn other_line_ends_and_encodings_are_read() {
    let text = "BEGIN:VCALENDAR\rBEGIN:VEVENT\rUID:u\rDTSTART:20261201T090000Z\rSUMMARY:Zoë\rEND:VEVENT\rEND:VCALENDAR\r";
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bytes in [text.as_bytes(), &utf16] {
        assert_eq!(only(&parse(bytes).expect("a calendar")).words.summary, "Zoë");
    }
}

#[test]
fn what_is_no_calendar_is_an_error() {
    for text in ["", "hello", "{\"a\": 1}", "\0\0\0\0", "<html></html>"] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
    assert_eq!(calendar("").events.len(), 0);
}

#[test]
fn hostile_texts_are_read_or_refused() {
    let wide = format!("SUMMARY{}:x", ";A=1".repeat(200_000));
    let folded = format!("SUMMARY:{}", "\n x".repeat(300_000));
    let dots = format!("ATTENDEE:{}", "mailto:".repeat(100_000));
    for line in [wide, folded, dots] {
        assert_eq!(
            calendar(&vevent(&["UID:u", "DTSTART:20261201T090000Z", &line]))
                .events
                .len(),
            1
        );
    }
    assert!(parse("BEGIN:VEVENT\n".repeat(70_000).as_bytes()).is_err());
    assert!(parse("BEGIN:A\n".repeat(100_000).as_bytes()).is_err());
    assert!(parse("END:VCALENDAR\n".repeat(70_000).as_bytes()).is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }
}
