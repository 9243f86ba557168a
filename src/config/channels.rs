//! `channels`: what all of them have.

use std::collections::BTreeMap;
use std::time::Duration;

use super::pauses;
use super::reader::Reader;
use crate::delivery::ChannelConfig;
use crate::delivery::Detail;
use crate::delivery::OnDoubt;
use crate::trigger::ChannelKind;
use crate::trigger::limit::Limit;
use crate::trigger::limit::OnLimit;
use crate::trigger::retry;

/// Messages a second that a throughput can name: beyond, it limits nothing.
const MOST_A_SECOND: u32 = 100_000;

/// Messages that a limit can count: each fire-check of an owner reads so many.
const MOST_COUNTED: u32 = 10_000;

pub(super) fn read(reader: &mut Reader, send_within: Duration) -> BTreeMap<ChannelKind, ChannelConfig> {
    let of = |kind| (kind, channel(reader, kind, send_within));
    ChannelKind::ALL.into_iter().map(of).collect()
}

fn channel(reader: &mut Reader, kind: ChannelKind, send_within: Duration) -> ChannelConfig {
    let key = |name: &str| format!("channels.{kind}.{name}");
    let time_shift_ms = reader.shift_ms(&key("time_shift"));
    ChannelConfig {
        enabled: reader.flag(&key("enabled")),
        time_shift_ms,
        retry: retry::Policy {
            attempts: reader.number(&key("retry.attempts"), 100),
            schedule: pauses::read(reader, kind),
            backoff: reader.duration(&key("retry.backoff")),
            max_backoff: reader.duration(&key("retry.max_backoff")),
            jitter: reader.fraction(&key("retry.jitter")),
        },
        on_doubt: reader.choice(
            &key("on_doubt"),
            &[("retry", OnDoubt::Retry), ("fail", OnDoubt::Fail)],
        ),
        content: content(reader, kind),
        throughput: reader.rate(&key("throughput"), MOST_A_SECOND),
        domain_throughput: (kind == ChannelKind::Email)
            .then(|| reader.rate(&key("domain_throughput"), MOST_A_SECOND))
            .flatten(),
        limit: limit(reader, kind).map(|limit| Limit {
            send_within,
            time_shift_ms,
            ..limit
        }),
    }
}

/// How much of an event is told; handlers know no events.
fn content(reader: &mut Reader, kind: ChannelKind) -> Detail {
    if kind == ChannelKind::Handler {
        return Detail::Full;
    }
    reader.choice(
        &format!("channels.{kind}.content"),
        &[
            ("full", Detail::Full),
            ("title", Detail::Title),
            ("none", Detail::None),
        ],
    )
}

/// How many messages one owner gets. All keys are read and checked even where there is no limit.
fn limit(reader: &mut Reader, kind: ChannelKind) -> Option<Limit> {
    let key = |name: &str| format!("channels.{kind}.{name}");
    let amount = reader.amount(&key("limit.amount"), MOST_COUNTED);
    let timeframe = reader.duration(&key("limit.timeframe"));
    let over = reader.choice(
        &key("on_limit"),
        &[
            ("defer", OnLimit::Defer),
            ("digest", OnLimit::Digest),
            ("drop", OnLimit::Drop),
        ],
    );
    amount.map(|amount| Limit {
        amount,
        timeframe,
        over,
        send_within: Duration::ZERO,
        time_shift_ms: 0,
    })
}
