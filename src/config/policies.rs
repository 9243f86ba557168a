//! `policies` and `sources`: what an alarm means where the standards leave a choice.

use std::collections::BTreeMap;

use super::reader::Reader;
use crate::change::Policies;
use crate::change::Source;
use crate::change::SourceKind;
use crate::trigger::defaults;
use crate::trigger::defaults::DefaultAlarm;
use crate::trigger::defaults::DefaultPolicy;
use crate::trigger::defaults::Defaults;
use crate::trigger::expand::Choices;
use crate::trigger::preferences::Display;
use crate::trigger::recipients::Recipients;

pub(super) fn read(reader: &mut Reader) -> Policies {
    let names = reader.sources();
    Policies {
        display: reader.choice(
            "policies.display",
            &[("skip", Display::Skip), ("deliver", Display::Deliver)],
        ),
        recipients: recipients(reader),
        late_grace: reader.duration("policies.late_grace"),
        choices: choices(reader),
        defaults: DefaultPolicy {
            general: Defaults {
                timed: Some(alarms(reader, "policies.defaults.timed")),
                all_day: Some(alarms(reader, "policies.defaults.all_day")),
            },
            transparent: reader.flag("policies.defaults.transparent"),
            sources: names
                .iter()
                .map(|name| (name.clone(), source_defaults(reader, name)))
                .collect(),
        },
        sources: sources(reader, names),
    }
}

fn choices(reader: &mut Reader) -> Choices {
    let with = [("skip", false), ("deliver", true)];
    Choices {
        with_declined: reader.choice("policies.declined", &with),
        with_delegated: reader.choice("policies.delegated", &with),
        due_is_start: reader.choice("policies.due_only", &[("report", false), ("start", true)]),
    }
}

fn recipients(reader: &mut Reader) -> Recipients {
    let expected = "a list of domains, such as [\"example.org\"]";
    let domains = reader.list("policies.recipient_domains", expected, |domains| {
        let is_domain = |name: &String| !name.is_empty() && !name.contains(['@', ' ', '*']);
        let domains = domains.iter().map(|name| name.to_lowercase());
        Some(domains.collect::<Vec<_>>()).filter(|domains| domains.iter().all(is_domain))
    });
    let names = [("owner", 0), ("verified", 1), ("domains", 2), ("any", 3)];
    match reader.choice("policies.recipients", &names) {
        0 => Recipients::Owner,
        1 => Recipients::Verified,
        2 if domains.is_empty() => {
            let problem = "\"domains\" needs policies.recipient_domains, which is empty: name the domains that alarms may \
                           write to";
            reader.complain("policies.recipients", problem.to_owned());
            Recipients::Owner
        }
        2 => Recipients::Domains(domains),
        _ => Recipients::Any,
    }
}

fn sources(reader: &mut Reader, names: Vec<String>) -> BTreeMap<String, Source> {
    let kinds = [("calendar", SourceKind::Calendar), ("itip", SourceKind::Itip)];
    let read = |name: String| {
        let kind = reader.choice(&format!("sources.{name}.kind"), &kinds);
        (name, Source { kind })
    };
    names.into_iter().map(read).collect()
}

fn source_defaults(reader: &mut Reader, name: &str) -> Defaults {
    let mut stated = |kind: &str| {
        let key = format!("sources.{name}.defaults.{kind}");
        reader.is_set(&key).then(|| alarms(reader, &key))
    };
    Defaults {
        timed: stated("timed"),
        all_day: stated("all_day"),
    }
}

fn alarms(reader: &mut Reader, key: &str) -> Vec<DefaultAlarm> {
    let expected = format!(
        "a list of up to {} durations before the start, such as [\"-PT15M\", \"-P1D\"]",
        defaults::MOST
    );
    reader.list(key, &expected, |items| {
        let alarms = items.iter().map(|item| item.parse().ok());
        let alarms: Vec<DefaultAlarm> = alarms.collect::<Option<_>>()?;
        (alarms.len() <= defaults::MOST).then_some(alarms)
    })
}
