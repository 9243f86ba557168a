//! What a person wants of their alarms, as callers write and see it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;

use super::id;
use super::problem::Flaw;
use crate::calendar::address;
use crate::trigger::ChannelKind;
use crate::trigger::defaults;
use crate::trigger::defaults::DefaultAlarm;
use crate::trigger::defaults::Defaults;
use crate::trigger::preferences::Preferences;
use crate::trigger::preferences::Route;
use crate::trigger::preferences::SourcePreference;

/// Routes of one owner at the most.
const MOST_ROUTES: usize = 20;

/// Sources that one owner wants to be different at the most.
const MOST_SOURCES: usize = 100;

/// Addresses in one list of an owner at the most.
pub(super) const MOST_ADDRESSES: usize = 100;

/// A way for alarms with one ACTION.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteBody {
    /// `EMAIL`, `DISPLAY` or `AUDIO`.
    action: String,
    /// `email`, `sms` or `webhook`.
    channel: String,
}

/// Default alarms; what is left out is as a less specific place says.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DefaultsBody {
    /// Of events at a time of day: durations from the start, such as `-PT15M`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timed: Option<Vec<String>>,
    /// Of events of whole days: durations from their midnight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    all_day: Option<Vec<String>>,
}

/// What is different for the events of one source.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceBody {
    /// Whether they ask for nothing.
    #[serde(default)]
    muted: bool,
    /// Their default alarms.
    #[serde(default)]
    defaults: DefaultsBody,
}

/// The fields of an owner that say what they want of their alarms.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) display: Option<String>,
    pub(super) routes: Vec<RouteBody>,
    pub(super) defaults: DefaultsBody,
    pub(super) sources: BTreeMap<String, SourceBody>,
    pub(super) verified: Vec<String>,
}

/// What is wrong with a body, piece by piece.
#[derive(Debug, Default)]
pub(super) struct Flaws(pub(super) Vec<Flaw>);

impl Flaws {
    /// Notes what is wrong with the value at `pointer`, if anything is.
    pub(super) fn check<T>(&mut self, pointer: String, checked: Result<T, String>) -> Option<T> {
        checked
            .map_err(|detail| {
                self.0.push(Flaw {
                    pointer: Some(pointer),
                    detail,
                    ..Flaw::default()
                });
            })
            .ok()
    }

    /// The addresses of a list.
    pub(super) fn addresses(&mut self, pointer: &str, addresses: &[String]) {
        self.check(
            pointer.to_owned(),
            at_most(addresses.len(), MOST_ADDRESSES, "addresses"),
        );
        for (index, address) in addresses.iter().enumerate() {
            self.check(format!("{pointer}/{index}"), address::check(address));
        }
    }
}

impl Wanted {
    /// What they mean; what is wrong with them is noted.
    pub(super) fn read(self, flaws: &mut Flaws) -> Preferences {
        let display = self
            .display
            .and_then(|name| flaws.check("/display".to_owned(), name.parse()));
        flaws.check(
            "/routes".to_owned(),
            at_most(self.routes.len(), MOST_ROUTES, "routes"),
        );
        let routes = self.routes.iter().enumerate();
        let routes = routes
            .filter_map(|(index, route)| route.read(index, flaws))
            .collect();
        flaws.addresses("/verified", &self.verified);
        Preferences {
            display,
            routes,
            defaults: self.defaults.read("/defaults", flaws),
            sources: sources(self.sources, flaws),
            verified: self.verified,
        }
    }

    /// The fields that say what `preferences` mean.
    pub(super) fn of(preferences: Preferences) -> Self {
        let sources = preferences.sources.into_iter();
        Self {
            display: preferences.display.map(|display| display.as_str().to_owned()),
            routes: preferences.routes.into_iter().map(RouteBody::of).collect(),
            defaults: DefaultsBody::of(&preferences.defaults),
            sources: sources
                .map(|(name, source)| (name, SourceBody::of(&source)))
                .collect(),
            verified: preferences.verified,
        }
    }
}

impl RouteBody {
    fn read(&self, index: usize, flaws: &mut Flaws) -> Option<Route> {
        let action = flaws.check(format!("/routes/{index}/action"), self.action.parse());
        let channel = flaws.check(format!("/routes/{index}/channel"), routed(&self.channel));
        Some(Route {
            action: action?,
            channel: channel?,
        })
    }

    fn of(route: Route) -> Self {
        Self {
            action: route.action.to_string(),
            channel: route.channel.to_string(),
        }
    }
}

/// Handlers know no events.
fn routed(name: &str) -> Result<ChannelKind, String> {
    match name.parse::<ChannelKind>() {
        Ok(ChannelKind::Handler) => {
            Err("a handler takes alarms of programs alone: use email, sms or webhook".to_owned())
        }
        Ok(channel) => Ok(channel),
        Err(_) => Err(format!("unknown channel `{name}`: use email, sms or webhook")),
    }
}

impl DefaultsBody {
    fn read(self, pointer: &str, flaws: &mut Flaws) -> Defaults {
        let mut read =
            |kind: &str, list: Option<Vec<String>>| Some(alarms(&format!("{pointer}/{kind}"), &list?, flaws));
        Defaults {
            timed: read("timed", self.timed),
            all_day: read("all_day", self.all_day),
        }
    }

    fn of(defaults: &Defaults) -> Self {
        let written = |alarms: &Option<Vec<DefaultAlarm>>| {
            let alarms = alarms.as_ref()?;
            Some(alarms.iter().map(ToString::to_string).collect())
        };
        Self {
            timed: written(&defaults.timed),
            all_day: written(&defaults.all_day),
        }
    }
}

fn alarms(pointer: &str, list: &[String], flaws: &mut Flaws) -> Vec<DefaultAlarm> {
    flaws.check(
        pointer.to_owned(),
        at_most(list.len(), defaults::MOST, "default alarms"),
    );
    let alarms = list.iter().enumerate();
    alarms
        .filter_map(|(index, text)| flaws.check(format!("{pointer}/{index}"), text.parse()))
        .collect()
}

impl SourceBody {
    fn of(source: &SourcePreference) -> Self {
        Self {
            muted: source.muted,
            defaults: DefaultsBody::of(&source.defaults),
        }
    }
}

fn sources(sources: BTreeMap<String, SourceBody>, flaws: &mut Flaws) -> BTreeMap<String, SourcePreference> {
    flaws.check(
        "/sources".to_owned(),
        at_most(sources.len(), MOST_SOURCES, "sources"),
    );
    let mut read = |(name, body): (String, SourceBody)| {
        let pointer = format!("/sources/{}", name.replace('~', "~0").replace('/', "~1"));
        let defaults = body.defaults.read(&format!("{pointer}/defaults"), flaws);
        let checked = id::check("source", &name);
        flaws.check(pointer, checked)?;
        let muted = body.muted;
        Some((name, SourcePreference { muted, defaults }))
    };
    sources.into_iter().filter_map(&mut read).collect()
}

fn at_most(number: usize, most: usize, what: &str) -> Result<(), String> {
    if number > most {
        return Err(format!("{number} {what}: {most} are allowed"));
    }
    Ok(())
}
