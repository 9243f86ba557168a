//! How many stand-alone alarms an owner has, and how their firings went: from counters that are kept.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde::Serialize;

use crate::http::Shared;
use crate::http::alarms::OfOwner;
use crate::http::alarms::owner_of;
use crate::http::alarms::reading::status;
use crate::http::caller::Caller;
use crate::http::problem::Asked;
use crate::http::problem::Problem;
use crate::store::AlarmCount;
use crate::store::AlarmStatus;
use crate::store::FiringCount;
use crate::trigger::outcome::Outcome;

/// Which alarms are counted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Counted {
    owner: Option<String>,
    status: Option<String>,
}

/// How many there are.
#[derive(Debug, Default, Serialize)]
struct Numbers {
    /// Alarms.
    total: i64,
    pending: i64,
    fired: i64,
    failed: i64,
    cancelled: i64,
    /// Firings whose target says that they are done, and of which it said nothing in time.
    completed: i64,
    timeout_unknown: i64,
    /// From the first attempt to that report.
    #[serde(skip_serializing_if = "Option::is_none")]
    average_duration_ms: Option<i64>,
    /// All firings that are over, by what became of them.
    firings: BTreeMap<String, i64>,
    /// Which part of the firings that were tried failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_rate: Option<f64>,
}

/// How firings went that called the same kind of target.
#[derive(Debug, Serialize)]
struct OfTarget {
    channel: &'static str,
    /// `owner`: an address or endpoint of the owner's; `url`: one that the alarm names.
    target: String,
    firings: BTreeMap<String, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_rate: Option<f64>,
}

/// How many an owner has.
#[derive(Debug, Serialize)]
pub(in crate::http) struct Stats {
    owner: String,
    #[serde(flatten)]
    all: Numbers,
    by_channel: BTreeMap<&'static str, Numbers>,
    by_target: Vec<OfTarget>,
}

/// A number of alarms.
#[derive(Debug, Serialize)]
pub(in crate::http) struct Count {
    count: i64,
}

/// `GET /v1/alarms/stats?owner=…`: from counters that are kept, whatever there is.
pub(in crate::http) async fn stats(
    State(shared): State<Shared>,
    caller: Caller,
    Asked(of): Asked<OfOwner>,
) -> Result<Json<Stats>, Problem> {
    let owner = owner_of(&shared, caller.owner(of.owner)?).await?.id;
    let counts = shared.store.alarm_counts(&owner).await?;
    let mut by_channel: BTreeMap<&'static str, Vec<&AlarmCount>> = BTreeMap::new();
    for count in &counts {
        by_channel.entry(count.channel.as_str()).or_default().push(count);
    }
    let by_channel = by_channel
        .into_iter()
        .map(|(channel, counts)| (channel, numbers(counts)))
        .collect();
    let by_target = targets(shared.store.firing_counts(&owner).await?);
    Ok(Json(Stats {
        owner: owner.0,
        all: numbers(&counts),
        by_channel,
        by_target,
    }))
}

/// `GET /v1/alarms/count?owner=&status=`.
pub(in crate::http) async fn count(
    State(shared): State<Shared>,
    caller: Caller,
    Asked(which): Asked<Counted>,
) -> Result<Json<Count>, Problem> {
    let owner = caller.owner(which.owner)?;
    let name = status(which.status.as_deref())?.map_or("total", AlarmStatus::as_str);
    let counts = shared.store.alarm_counts(&owner).await?;
    let counts = counts.iter().filter(|it| !it.of_firings && it.name == name);
    Ok(Json(Count {
        count: counts.map(|it| it.amount).sum(),
    }))
}

fn numbers<'a>(counts: impl IntoIterator<Item = &'a AlarmCount>) -> Numbers {
    let mut numbers = Numbers::default();
    let (mut duration, mut durations) = (0, 0);
    for count in counts {
        let amount = count.amount;
        match (count.of_firings, count.name.as_str()) {
            (false, "total") => numbers.total += amount,
            (false, "active") => numbers.pending += amount,
            (false, "fired") => numbers.fired += amount,
            (false, "failed") => numbers.failed += amount,
            (false, "cancelled") => numbers.cancelled += amount,
            (true, "duration_ms") => duration += amount,
            (true, "durations") => durations += amount,
            (true, outcome) => *numbers.firings.entry(outcome.to_owned()).or_default() += amount,
            (false, _) => {}
        }
    }
    let of = |outcome| numbers.firings.get(outcome).copied().unwrap_or_default();
    numbers.completed = of("completed");
    numbers.timeout_unknown = of("timeout_unknown");
    numbers.firings.retain(|_, amount| *amount != 0);
    numbers.failure_rate = failure_rate(&numbers.firings);
    numbers.average_duration_ms = (durations > 0).then(|| duration / durations);
    numbers
}

fn targets(counts: Vec<FiringCount>) -> Vec<OfTarget> {
    let mut targets: Vec<OfTarget> = Vec::new();
    // They come in this order.
    for count in counts.into_iter().filter(|count| count.amount != 0) {
        let channel = count.channel.as_str();
        let known = targets.last_mut();
        let known = known.filter(|it| it.channel == channel && it.target == count.target);
        let firings = BTreeMap::from([(count.outcome, count.amount)]);
        match known {
            Some(known) => known.firings.extend(firings),
            None => targets.push(OfTarget {
                channel,
                target: count.target,
                firings,
                failure_rate: None,
            }),
        }
    }
    for target in &mut targets {
        target.failure_rate = failure_rate(&target.firings);
    }
    targets
}

/// Which part of the firings failed, of those that were tried and of which it is known; to four digits.
fn failure_rate(firings: &BTreeMap<String, i64>) -> Option<f64> {
    let sum =
        |outcomes: &[Outcome]| -> i64 { outcomes.iter().filter_map(|it| firings.get(it.as_str())).sum() };
    let failed = sum(&[Outcome::Failed, Outcome::Expired]);
    let tried = failed
        + sum(&[
            Outcome::Sent,
            Outcome::Completed,
            Outcome::TimeoutUnknown,
            Outcome::InDoubt,
        ]);
    let rate = (failed * 10_000).checked_div(tried)?;
    i32::try_from(rate).ok().map(|rate| f64::from(rate) / 10_000.0)
}
