//! Messages and stored copies as text in, stored copies as text out.

use super::*;

const ME: &str = "mailto:me@example.org";
const WEEK: &str = "DTSTART;TZID=Europe/Berlin:20261201T090000\nDTEND;TZID=Europe/Berlin:20261201T100000\n\
                    RRULE:FREQ=DAILY;COUNT=7";

const ME_TOO: &str = "ATTENDEE:mailto:me@example.org";

fn merge(stored: Option<&str>, message: &str) -> Merged {
    super::merge(stored, message, &["me@example.org".to_owned()])
}

/// A message with these components; no METHOD gives a calendar.
fn text(method: &str, components: &[String]) -> String {
    let method = match method {
        "" => String::new(),
        method => format!("METHOD:{method}\n"),
    };
    let text = format!(
        "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//x//x//EN\n{method}{}END:VCALENDAR\n",
        components.concat()
    );
    text.replace('\n', "\r\n")
}

/// A VEVENT with this SEQUENCE, DTSTAMP (a day of November) and lines.
fn version(sequence: u32, day: u32, lines: &[&str]) -> String {
    format!(
        "BEGIN:VEVENT\nUID:u\nSEQUENCE:{sequence}\nDTSTAMP:202611{day:02}T120000Z\n{}\nEND:VEVENT\n",
        lines.join("\n")
    )
}

fn alarm(uid: &str) -> String {
    format!("BEGIN:VALARM\nUID:{uid}\nACTION:EMAIL\nTRIGGER:-PT15M\nSUMMARY:s\nDESCRIPTION:d\nEND:VALARM")
}

fn merged(stored: Option<&str>, message: &str) -> String {
    match merge(stored, message) {
        Merged::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

/// The stored copy after these messages, whichever of them are news.
fn after<'a>(messages: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let mut stored: Option<String> = None;
    for message in messages {
        if let Merged::Text(text) = merge(stored.as_deref(), message) {
            stored = Some(text);
        }
    }
    stored
}

/// Each component by one line: SEQUENCE, RECURRENCE-ID, DTSTART, STATUS; sorted.
fn brief(text: &str) -> Vec<String> {
    let calendar = Calendar::read(text).expect("it can be read");
    let value = |part: &Part, name: &str| {
        let line = part.node.find(name);
        line.map_or("-".to_owned(), |line| {
            line.text.rsplit(':').next().unwrap_or_default().to_owned()
        })
    };
    let mut brief: Vec<String> = calendar
        .parts
        .iter()
        .map(|part| {
            ["SEQUENCE", "RECURRENCE-ID", "DTSTART", "STATUS"]
                .map(|name| value(part, name))
                .join(" ")
        })
        .collect();
    brief.sort();
    brief
}

fn is_told_twice(stored: &str, message: &str) {
    assert_eq!(
        merge(Some(stored), message),
        Merged::Unchanged,
        "{stored}\n{message}"
    );
}

#[test]
fn a_request_is_stored_as_an_event_without_its_method_and_the_organizers_alarms() {
    let request = text(
        "REQUEST",
        &[version(0, 1, &[WEEK, "X-UNKNOWN;A=b:c", &alarm("organizer")])],
    );
    let stored = merged(None, &request);
    assert!(
        !stored.contains("METHOD") && !stored.contains("VALARM"),
        "{stored}"
    );
    assert!(stored.contains("PRODID:-//x//x//EN\r\n") && stored.contains("X-UNKNOWN;A=b:c\r\n"));
    is_told_twice(&stored, &request);
    assert_eq!(merged(None, &request.replace("REQUEST", "PUBLISH")), stored);
}

#[test]
fn newer_is_sequence_then_dtstamp_and_what_is_older_is_stale() {
    let request = |sequence, day, start: &str| text("REQUEST", &[version(sequence, day, &[start])]);
    let stored = merged(None, &request(1, 5, "DTSTART:20261201T090000Z"));
    for (sequence, day, expected) in [
        (1, 6, Some("1 - 20261201T100000Z -")),
        (2, 1, Some("2 - 20261201T100000Z -")),
        (1, 4, None),
        (0, 9, None),
    ] {
        let message = request(sequence, day, "DTSTART:20261201T100000Z");
        match (merge(Some(&stored), &message), expected) {
            (Merged::Text(text), Some(expected)) => {
                assert_eq!(brief(&text), [expected]);
                is_told_twice(&text, &message);
            }
            (Merged::Stale, None) => {}
            (other, _) => panic!("{sequence} {day}: {other:?}"),
        }
    }
}

#[test]
fn without_a_dtstamp_arrival_decides() {
    let request = |start: &str| {
        text(
            "REQUEST",
            &[format!("BEGIN:VEVENT\nUID:u\nDTSTART:{start}\nEND:VEVENT\n")],
        )
    };
    let stored = merged(None, &request("20261201T090000Z"));
    is_told_twice(&stored, &request("20261201T090000Z"));
    let moved = merged(Some(&stored), &request("20261201T100000Z"));
    assert_eq!(brief(&moved), ["- - 20261201T100000Z -"]);
}

#[test]
fn one_instance_is_moved_and_keeps_the_owners_alarm() {
    let stored = text("", &[version(0, 1, &[WEEK, &alarm("mine")])]);
    let moved = version(
        0,
        2,
        &[
            "RECURRENCE-ID:20261203T080000Z",
            "DTSTART;TZID=Europe/Berlin:20261203T150000",
            &alarm("theirs"),
        ],
    );
    let message = text("REQUEST", &[moved]);
    let after = merged(Some(&stored), &message);
    assert_eq!(
        brief(&after),
        ["0 - 20261201T090000 -", "0 20261203T080000Z 20261203T150000 -"]
    );
    assert_eq!(after.matches("UID:mine").count(), 2, "{after}");
    assert!(!after.contains("theirs"));
    is_told_twice(&after, &message);
    // In another form it is the same instance.
    let again = version(
        1,
        3,
        &[
            "RECURRENCE-ID;TZID=Europe/Berlin:20261203T090000",
            "DTSTART;TZID=Europe/Berlin:20261203T160000",
        ],
    );
    let later = merged(Some(&after), &text("REQUEST", &[again]));
    assert_eq!(
        brief(&later),
        ["0 - 20261201T090000 -", "1 20261203T090000 20261203T160000 -"]
    );
    assert_eq!(later.matches("UID:mine").count(), 2, "{later}");
}

#[test]
fn m14_a_newer_series_keeps_the_alarms_of_the_owner_alone() {
    let stored = text("", &[version(0, 1, &[WEEK, &alarm("mine")])]);
    let message = text(
        "REQUEST",
        &[version(1, 2, &[WEEK, "SUMMARY:new", &alarm("theirs")])],
    );
    let after = merged(Some(&stored), &message);
    assert!(
        after.contains("UID:mine") && after.contains("SUMMARY:new") && !after.contains("theirs"),
        "{after}"
    );
}

#[test]
fn a_rescheduled_series_drops_the_overrides_that_have_no_place_in_it() {
    let (moved, called_off) = (
        version(
            0,
            2,
            &["RECURRENCE-ID:20261203T080000Z", "DTSTART:20261203T140000Z"],
        ),
        version(
            0,
            2,
            &[
                "RECURRENCE-ID:20261204T080000Z",
                "DTSTART:20261204T080000Z",
                "STATUS:CANCELLED",
            ],
        ),
    );
    let stored = text("", &[version(0, 1, &[WEEK]), moved, called_off]);
    let at_ten = WEEK.replace("T090000", "T100000");
    let rescheduled = merged(Some(&stored), &text("REQUEST", &[version(1, 3, &[&at_ten])]));
    assert_eq!(brief(&rescheduled), ["1 - 20261201T100000 -"]);
    let renamed = merged(
        Some(&stored),
        &text("REQUEST", &[version(0, 3, &[WEEK, "SUMMARY:x"])]),
    );
    assert_eq!(brief(&renamed).len(), 3);
    // A series that is said anew, as it was, says by EXDATE what is called off; what is moved is still an instance.
    let said_anew = merged(Some(&stored), &text("REQUEST", &[version(1, 3, &[WEEK])]));
    assert_eq!(brief(&said_anew).len(), 2);
}

#[test]
fn a_cancel_calls_off_the_event_an_instance_or_all_from_one_on() {
    let moved = version(
        0,
        2,
        &["RECURRENCE-ID:20261206T080000Z", "DTSTART:20261206T140000Z"],
    );
    let stored = text("", &[version(0, 1, &[WEEK, "SUMMARY:kept"]), moved]);
    let cancel = |sequence, lines: &[&str]| text("CANCEL", &[version(sequence, 3, lines)]);
    for (message, expected) in [
        (cancel(1, &[]), &["1 - 20261201T090000 CANCELLED"][..]),
        (
            cancel(1, &["RECURRENCE-ID:20261203T080000Z"]),
            &[
                "0 - 20261201T090000 -",
                "0 20261206T080000Z 20261206T140000Z -",
                "1 20261203T080000Z - CANCELLED",
            ],
        ),
        (
            cancel(1, &["RECURRENCE-ID:20261206T080000Z"]),
            &[
                "0 - 20261201T090000 -",
                "1 20261206T080000Z 20261206T140000Z CANCELLED",
            ],
        ),
        (
            cancel(1, &["RECURRENCE-ID;RANGE=THISANDFUTURE:20261205T080000Z"]),
            &["0 - 20261201T090000 -", "1 20261205T080000Z - CANCELLED"],
        ),
    ] {
        let after = merged(Some(&stored), &message);
        assert_eq!(brief(&after), expected);
        assert!(after.contains("SUMMARY:kept"));
        is_told_twice(&after, &message);
        // What was sent before and comes later does not wake it up.
        let late = version(
            0,
            2,
            &["RECURRENCE-ID:20261206T080000Z", "DTSTART:20261206T150000Z"],
        );
        let late = merge(Some(&after), &text("REQUEST", &[late]));
        assert!(
            matches!(late, Merged::Stale | Merged::Unchanged),
            "{message} {late:?}"
        );
    }
    let older = cancel(0, &[]).replace("20261103T", "20261031T");
    assert_eq!(merge(Some(&stored), &older), Merged::Stale);
    let revived = merged(
        Some(&merged(Some(&stored), &cancel(1, &[]))),
        &text("REQUEST", &[version(2, 4, &[WEEK])]),
    );
    assert_eq!(brief(&revived), ["2 - 20261201T090000 -"]);
}

#[test]
fn a_cancel_that_comes_before_its_request_is_remembered() {
    let cancel = text("CANCEL", &[version(1, 3, &[])]);
    let stored = merged(None, &cancel);
    assert_eq!(brief(&stored), ["1 - - CANCELLED"]);
    let late = text("REQUEST", &[version(0, 1, &[WEEK])]);
    assert_eq!(merge(Some(&stored), &late), Merged::Stale);
}

#[test]
fn messages_in_any_order_come_to_the_same() {
    let instance = |sequence, day, more: &[&str]| {
        let lines = [&["RECURRENCE-ID:20261203T080000Z"], more].concat();
        version(sequence, day, &lines)
    };
    let messages = [
        text("REQUEST", &[version(0, 1, &[WEEK])]),
        text("REQUEST", &[instance(0, 2, &["DTSTART:20261203T140000Z"])]),
        text("CANCEL", &[instance(1, 3, &[])]),
        text("REQUEST", &[version(1, 4, &[WEEK, "SUMMARY:x"])]),
        text(
            "CANCEL",
            &[version(
                1,
                5,
                &["RECURRENCE-ID;RANGE=THISANDFUTURE:20261206T080000Z"],
            )],
        ),
    ];
    // When what is called off would have been, a message may know or not.
    let alive = |brief: Vec<String>| -> Vec<String> {
        let parts = brief.iter().map(|part| part.split(' ').collect::<Vec<_>>());
        parts
            .map(|part| {
                if part[3] == "CANCELLED" {
                    [part[0], part[1], "CANCELLED"].join(" ")
                } else {
                    part.join(" ")
                }
            })
            .collect()
    };
    let expected = brief(&after(&messages).expect("something is stored"));
    assert_eq!(expected.len(), 3, "{expected:?}");
    let mut orders = vec![Vec::new()];
    for _ in 0..messages.len() {
        orders = orders
            .into_iter()
            .flat_map(|order: Vec<usize>| {
                let left: Vec<usize> = (0..messages.len()).filter(|it| !order.contains(it)).collect();
                left.into_iter().map(move |next| [&order[..], &[next]].concat())
            })
            .collect();
    }
    for order in orders {
        let came = after(order.iter().map(|index| &messages[*index])).expect("something is stored");
        assert_eq!(alive(brief(&came)), alive(expected.clone()), "{order:?}");
    }
}

#[test]
fn a_reply_sets_one_partstat_and_changes_nothing_else() {
    let attendees = "ATTENDEE;CN=\"Me; myself\";PARTSTAT=NEEDS-ACTION;RSVP=TRUE:MAILTO:Me@Example.org\n\
                     ATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:you@example.org";
    let stored = text("", &[version(1, 1, &[WEEK, attendees, &alarm("mine")])]);
    let reply = |sequence, day, status: &str, more: &[&str]| {
        let attendee = format!("ATTENDEE;PARTSTAT={status}:{ME}");
        text(
            "REPLY",
            &[version(sequence, day, &[&[attendee.as_str()], more].concat())],
        )
    };
    let declined = reply(1, 3, "DECLINED", &[]);
    let after = merged(Some(&stored), &declined);
    let expected = stored.replacen(
        ";PARTSTAT=NEEDS-ACTION;RSVP=TRUE:",
        ";RSVP=TRUE;PARTSTAT=DECLINED;X-CARILLON-ANSWERED=20261103T120000Z:",
        1,
    );
    assert_eq!(after.replace("\r\n ", ""), expected);
    is_told_twice(&after, &declined);
    assert_eq!(merge(Some(&after), &reply(1, 2, "ACCEPTED", &[])), Merged::Stale);
    assert_eq!(merge(Some(&after), &reply(0, 9, "ACCEPTED", &[])), Merged::Stale);
    let accepted = merged(Some(&after), &reply(1, 4, "ACCEPTED", &[]));
    assert!(
        accepted
            .replace("\r\n ", "")
            .contains("PARTSTAT=ACCEPTED;X-CARILLON-ANSWERED=20261104T120000Z:MAILTO:Me@")
    );

    let stranger = text(
        "REPLY",
        &[version(
            1,
            3,
            &["ATTENDEE;PARTSTAT=ACCEPTED:mailto:who@example.org"],
        )],
    );
    assert!(
        matches!(merge(Some(&stored), &stranger), Merged::Nothing(reason) if reason.contains("ATTENDEE"))
    );
    assert!(
        matches!(merge(None, &declined), Merged::Nothing(reason) if reason.contains("no event is stored"))
    );

    // The organizer, who has not heard of it yet, sends the same SEQUENCE again; a new SEQUENCE asks again.
    let update = |sequence| text("REQUEST", &[version(sequence, 5, &[WEEK, attendees])]);
    assert!(merged(Some(&after), &update(1)).contains("PARTSTAT=DECLINED"));
    assert!(!merged(Some(&after), &update(2)).contains("DECLINED"));
}

#[test]
fn a_reply_for_one_instance_makes_an_override_that_says_what_was_said() {
    let attendee = format!("ATTENDEE;PARTSTAT=ACCEPTED:{ME}");
    let stored = text("", &[version(1, 1, &[WEEK, &attendee, &alarm("mine")])]);
    let declined = format!("ATTENDEE;PARTSTAT=DECLINED:{ME}");
    let reply = text(
        "REPLY",
        &[version(1, 3, &["RECURRENCE-ID:20261204T080000Z", &declined])],
    );
    let after = merged(Some(&stored), &reply);
    assert_eq!(
        brief(&after),
        ["1 - 20261201T090000 -", "1 20261204T080000Z 20261204T090000 -"]
    );
    assert!(
        after.contains("DTEND;TZID=Europe/Berlin:20261204T100000"),
        "{after}"
    );
    assert_eq!(after.matches("UID:mine").count(), 2);
    assert_eq!(after.matches("PARTSTAT=DECLINED").count(), 1);
    assert_eq!(after.matches("RRULE").count(), 1);
    is_told_twice(&after, &reply);
}

#[test]
fn a_reply_for_an_instance_that_was_moved_with_all_after_it() {
    let attendee = format!("ATTENDEE;PARTSTAT=ACCEPTED:{ME}");
    let from = version(
        0,
        1,
        &[
            "RECURRENCE-ID;RANGE=THISANDFUTURE:20261203T080000Z",
            "DTSTART;TZID=Europe/Berlin:20261203T110000",
            "DURATION:PT2H",
            &attendee,
        ],
    );
    let stored = text("", &[version(0, 1, &[WEEK, &attendee]), from]);
    let declined = format!("ATTENDEE;PARTSTAT=DECLINED:{ME}");
    let reply = text(
        "REPLY",
        &[version(0, 3, &["RECURRENCE-ID:20261205T080000Z", &declined])],
    );
    let after = merged(Some(&stored), &reply);
    assert!(
        brief(&after).contains(&"0 20261205T080000Z 20261205T110000 -".to_owned()),
        "{after}"
    );
    assert_eq!(after.matches("DURATION:PT2H").count(), 2);
}

#[test]
fn whole_days_stay_whole_days_in_a_reply() {
    let attendee = format!("ATTENDEE:{ME}");
    let days = "DTSTART;VALUE=DATE:20261201\nDTEND;VALUE=DATE:20261203\nRRULE:FREQ=WEEKLY";
    let stored = text("", &[version(0, 1, &[days, &attendee])]);
    let declined = format!("ATTENDEE;PARTSTAT=DECLINED:{ME}");
    let reply = text(
        "REPLY",
        &[version(0, 3, &["RECURRENCE-ID;VALUE=DATE:20261208", &declined])],
    );
    let after = merged(Some(&stored), &reply);
    assert!(after.contains("DTSTART;VALUE=DATE:20261208\r\n"), "{after}");
    assert!(after.contains("DTEND;VALUE=DATE:20261210\r\n"), "{after}");
}

#[test]
fn an_instance_that_is_added_is_one_of_its_own() {
    let stored = text("", &[version(0, 1, &[WEEK, &alarm("mine")])]);
    let add = text(
        "ADD",
        &[version(1, 2, &["DTSTART;TZID=Europe/Berlin:20261220T110000"])],
    );
    let after = merged(Some(&stored), &add);
    assert_eq!(
        brief(&after),
        ["0 - 20261201T090000 -", "1 20261220T110000 20261220T110000 -"]
    );
    assert_eq!(after.matches("UID:mine").count(), 2);
    is_told_twice(&after, &add);
}

#[test]
fn nobody_but_the_organizer_changes_an_event() {
    let boss = "ORGANIZER;CN=Boss:mailto:Boss@example.org";
    let request = text("REQUEST", &[version(1, 1, &[WEEK, boss])]);
    let stored = merged(None, &request);
    for organizer in ["ORGANIZER:mailto:eve@example.net", "X-NOBODY:x"] {
        for method in ["REQUEST", "PUBLISH", "CANCEL", "ADD"] {
            let forged = text(method, &[version(9, 9, &["DTSTART:20270101T090000Z", organizer])]);
            let merged = merge(Some(&stored), &forged);
            assert!(
                matches!(&merged, Merged::Nothing(reason) if reason.contains("ORGANIZER")),
                "{method}: {merged:?}"
            );
        }
    }
    let own = text(
        "CANCEL",
        &[version(
            9,
            9,
            &["DTSTART:20270101T090000Z", "ORGANIZER:mailto:boss@example.org"],
        )],
    );
    assert!(merged(Some(&stored), &own).contains("STATUS:CANCELLED"));
}

#[test]
fn a_reply_is_the_answer_of_one() {
    let me = format!("ATTENDEE;PARTSTAT=NEEDS-ACTION:{ME}");
    let stored = merged(None, &text("REQUEST", &[version(1, 1, &[WEEK, &me])]));
    let mine = format!("ATTENDEE;PARTSTAT=DECLINED:{ME}");
    let two = ["ATTENDEE;PARTSTAT=DECLINED:mailto:eve@example.net", &mine];
    let merged = merge(Some(&stored), &text("REPLY", &[version(1, 2, &two)]));
    assert!(
        matches!(&merged, Merged::Nothing(reason) if reason.contains("names 2")),
        "{merged:?}"
    );
}

#[test]
fn what_a_message_claims_of_answers_is_not_believed() {
    let forged = format!("ATTENDEE;X-CARILLON-ANSWERED=99991231T000000Z;PARTSTAT=DECLINED:{ME}");
    let stored = merged(None, &text("REQUEST", &[version(1, 1, &[WEEK, &forged])]));
    assert!(!stored.contains("X-CARILLON"), "{stored}");
    let mine = format!("ATTENDEE;PARTSTAT=ACCEPTED:{ME}");
    let answered = merged(Some(&stored), &text("REPLY", &[version(1, 2, &[&mine])]));
    assert!(answered.contains("PARTSTAT=ACCEPTED"), "{answered}");
}

#[test]
fn a_message_about_a_task_leaves_an_event_alone() {
    let stored = merged(None, &text("REQUEST", &[version(1, 1, &[WEEK])]));
    let task = text("CANCEL", &[version(2, 2, &["DTSTART:20261201T090000Z"])]).replace("VEVENT", "VTODO");
    let merged = merge(Some(&stored), &task);
    assert!(
        matches!(&merged, Merged::Nothing(reason) if reason.contains("VTODO")),
        "{merged:?}"
    );
}

#[test]
fn a_sequence_that_is_no_integer_outdates_nothing() {
    let start = "DTSTART:20261201T090000Z";
    let huge = text("REQUEST", &[version(1, 1, &[start])]).replace("SEQUENCE:1", "SEQUENCE:99999999999");
    let stored = merged(None, &huge);
    let later = text("REQUEST", &[version(1, 1, &["DTSTART:20261202T090000Z"])]);
    assert!(merged(Some(&stored), &later).contains("20261202T090000Z"));
}

#[test]
fn an_added_instance_may_be_written_in_lower_case() {
    let stored = merged(
        None,
        &text("REQUEST", &[version(1, 1, &["DTSTART:20261201T090000Z"])]),
    );
    let added = text("ADD", &[version(2, 2, &["dtstart:20261205T090000Z"])]);
    assert!(merged(Some(&stored), &added).contains("RECURRENCE-ID:20261205T090000Z"));
}

#[test]
fn what_the_organizer_is_asked_changes_nothing() {
    let stored = text("", &[version(0, 1, &[WEEK])]);
    for method in ["COUNTER", "DECLINECOUNTER", "REFRESH"] {
        let message = text(method, &[version(5, 9, &["DTSTART:20270101T090000Z"])]);
        for stored in [Some(stored.as_str()), None] {
            assert!(matches!(merge(stored, &message), Merged::Nothing(reason) if reason.contains(method)));
        }
    }
}

#[test]
fn time_zones_come_along_with_what_names_them_and_go_with_it() {
    let zone = |tzid: &str, offset: &str| {
        format!(
            "BEGIN:VTIMEZONE\nTZID:{tzid}\nBEGIN:STANDARD\nDTSTART:19700101T000000\nTZOFFSETFROM:{offset}\n\
             TZOFFSETTO:{offset}\nEND:STANDARD\nEND:VTIMEZONE\n"
        )
    };
    let start = |tzid: &str| format!("DTSTART;TZID={tzid}:20261201T090000");
    let first = text("REQUEST", &[zone("A", "+0100"), version(0, 1, &[&start("A")])]);
    let stored = merged(None, &first);
    assert!(stored.contains("TZOFFSETTO:+0100"));
    let second = text("REQUEST", &[zone("A", "+0200"), version(1, 2, &[&start("A")])]);
    let stored = merged(Some(&stored), &second);
    assert!(
        stored.contains("TZOFFSETTO:+0200") && !stored.contains("+0100"),
        "{stored}"
    );
    let third = text("REQUEST", &[zone("B", "+0300"), version(2, 3, &[&start("B")])]);
    let stored = merged(Some(&stored), &third);
    assert!(stored.contains("+0300") && !stored.contains("TZID:A"), "{stored}");

    let instance = version(3, 4, &["RECURRENCE-ID;TZID=B:20261201T090000", &start("B")]);
    for method in ["REQUEST", "CANCEL", "ADD"] {
        let message = text(method, &[zone("B", "-0900"), instance.clone()]);
        let stored = merged(Some(&stored), &message);
        assert!(
            stored.contains("+0300") && !stored.contains("-0900"),
            "{method}: {stored}"
        );
    }
}

#[test]
fn an_event_never_grows_beyond_what_an_event_may_be() {
    let long = format!("DESCRIPTION:{}", "x".repeat(400_000));
    let instance = |day: u32| {
        let lines = [
            format!("RECURRENCE-ID:202612{day:02}T080000Z"),
            format!("DTSTART:202612{day:02}T100000Z"),
            long.clone(),
        ];
        text("REQUEST", &[version(0, 2, &[&lines[0], &lines[1], &lines[2]])])
    };
    let stored = after(&[
        text("REQUEST", &[version(0, 1, &[WEEK])]),
        instance(1),
        instance(2),
    ]);
    let stored = stored.expect("it is stored");
    assert!(
        matches!(merge(Some(&stored), &instance(3)), Merged::TooLarge(reason) if reason.contains("bytes"))
    );
}

#[test]
fn hundreds_of_instances_are_merged_in_one_message() {
    let instances = |sequence, day| {
        let start = chrono::NaiveDate::from_ymd_opt(2027, 1, 1).expect("a day");
        let instance = |days: i64| {
            let date = (start + chrono::TimeDelta::days(days)).format("%Y%m%d");
            let (id, moved) = (
                format!("RECURRENCE-ID:{date}T080000Z"),
                format!("DTSTART:{date}T100000Z"),
            );
            version(sequence, day, &[&id, &moved])
        };
        (0..450).map(instance).collect::<Vec<String>>()
    };
    let daily = "DTSTART:20270101T080000Z\nRRULE:FREQ=DAILY";
    let whole = |sequence, day| [vec![version(sequence, day, &[daily])], instances(sequence, day)].concat();
    let stored = merged(None, &text("REQUEST", &whole(0, 1)));
    let again = text("REQUEST", &whole(1, 2));
    let after = merged(Some(&stored), &again);
    assert_eq!(after.matches("SEQUENCE:1\r\n").count(), 451);
    is_told_twice(&after, &again);
}

#[test]
fn what_was_stored_under_a_cancel_is_called_off_still() {
    let stored = text("CANCEL", &[version(1, 3, &[WEEK])]);
    let late = text("REQUEST", &[version(0, 1, &[WEEK])]);
    assert_eq!(merge(Some(&stored), &late), Merged::Stale);
    let news = merged(Some(&stored), &text("REQUEST", &[version(2, 4, &[WEEK])]));
    assert_eq!(brief(&news), ["2 - 20261201T090000 -"]);
    assert!(!news.contains("METHOD"));
}

#[test]
fn a_cancel_that_uninvites_others_leaves_the_event_as_it_is() {
    let invited =
        "ORGANIZER:mailto:boss@example.org\nATTENDEE:MAILTO:Me@example.org\nATTENDEE:mailto:eve@example.org";
    let stored = text("", &[version(1, 1, &[WEEK, invited])]);
    let cancel = |lines: &[&str]| {
        let lines = [&["ORGANIZER:mailto:boss@example.org"], lines].concat();
        merge(Some(&stored), &text("CANCEL", &[version(2, 2, &lines)]))
    };
    let eve = "ATTENDEE:mailto:eve@example.org";
    assert!(matches!(cancel(&[eve]), Merged::Nothing(reason) if reason.contains("uninvites")));
    let is_called_off =
        |merged: Merged| matches!(merged, Merged::Text(text) if text.contains("STATUS:CANCELLED"));
    assert!(is_called_off(cancel(&[])), "everybody");
    assert!(is_called_off(cancel(&[ME_TOO])), "the owner");
    assert!(is_called_off(cancel(&[eve, "STATUS:CANCELLED"])), "the event");
    assert!(is_called_off(cancel(&[eve, ME_TOO])), "everybody by name");
}
