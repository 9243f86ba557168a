//! Everything Prometheus can ask us. A metric's doc comment is its help text; names follow the Prometheus conventions;
//! labels come from enums, so that no owner, address or event can become one. The name of a source is the one label
//! that callers choose, and it is bounded.
//!
//! The stages call the verbs at the end and know no metric by name.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use prometheus::Gauge;
use prometheus::GaugeVec;
use prometheus::Histogram;
use prometheus::HistogramOpts;
use prometheus::HistogramVec;
use prometheus::IntCounter;
use prometheus::IntCounterVec;
use prometheus::IntGauge;
use prometheus::Opts;
use prometheus::Registry;
use prometheus::TextEncoder;

use crate::calendar::zone;
use crate::change::ChangeResult;
use crate::channel::Blame;
use crate::channel::Report;
use crate::store::Backlog;
use crate::store::Rescued;
use crate::store::Room;
use crate::trigger::ChannelKind;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// How many sources get a label of their own; the others share `other`.
const MOST_SOURCES: usize = 50;

const LATENESS: &[f64] = &[
    0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 7200.0,
];
const ATTEMPT: &[f64] = &[0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0, 120.0];
const RUN: &[f64] = &[0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0];

/// Declares the metrics: `doc comment, field: type = name [labels] buckets`.
macro_rules! metrics {
    ($($(#[doc = $help:literal])+ $field:ident: $kind:ty = $name:literal $labels:tt $buckets:expr;)+) => {
        /// All metrics of this process.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            sources: Mutex<HashSet<String>>,
            $($(#[doc = $help])+ $field: $kind,)+
        }

        impl Metrics {
            /// Metrics of a process that has done nothing yet.
            pub fn new() -> Self {
                let registry = Registry::new();
                $(let $field = <$kind>::declare(concat!("carillon_", $name), concat!($($help),+).trim(), &$labels, $buckets);
                registry.register(Box::new($field.clone())).expect("names are distinct");)+
                let metrics = Self { registry, sources: Mutex::default(), $($field,)+ };
                metrics.start_at_zero();
                metrics
            }
        }
    };
}

metrics! {
    /// Time from the instant that was promised to the hand-over.
    lateness: HistogramVec = "delivery_lateness_seconds" ["channel", "kind"] LATENESS;
    /// Triggers that ended, by what became of them; those ended by a rescue are counted by in_doubt_total. What awaits a report
    /// is counted as awaiting, and not again when the report comes: reports_total says what became of it.
    deliveries: IntCounterVec = "deliveries_total" ["channel", "outcome", "reason"] &[];
    /// What became of messages after they were handed over, by what was reported; timeout_unknown: no report came in time.
    /// A report that comes later still counts as well.
    reports: IntCounterVec = "reports_total" ["channel", "outcome", "reason"] &[];
    /// Messages whose attempts are over, by the kind of target that they went to: an address or endpoint of the owner's, or
    /// the URL that an alarm names; and whether it took them (ok) or not (failed).
    target_deliveries: IntCounterVec = "target_deliveries_total" ["channel", "target", "result"] &[];
    /// Callers who follow what happens to alarms, on this node.
    followers: IntGauge = "feed_followers" [] &[];
    /// Attempts to send, by what they came to.
    attempts: IntCounterVec = "delivery_attempts_total" ["channel", "provider", "class"] &[];
    /// How long the stages of an attempt took.
    attempt_duration: HistogramVec = "attempt_duration_seconds" ["channel", "provider", "stage"] ATTEMPT;
    /// Attempts whose end nobody knows, by what was decided.
    in_doubt: IntCounterVec = "in_doubt_total" ["decision"] &[];
    /// Free triggers due within the look-ahead.
    planned: IntGauge = "triggers_planned" [] &[];
    /// Claimed triggers due within the look-ahead.
    claimed: IntGauge = "triggers_claimed" [] &[];
    /// Triggers past due, in whatever state.
    overdue: IntGauge = "triggers_overdue" [] &[];
    /// How long the oldest trigger is past due; 0 if none is.
    oldest_overdue: Gauge = "oldest_overdue_seconds" [] &[];
    /// Claims taken, and claims that somebody else had taken by the fire-check.
    claims: IntCounterVec = "claims_total" ["result"] &[];
    /// Claims taken away from their holder, by cause.
    rescued: IntCounterVec = "rescued_total" ["cause"] &[];
    /// When the planner last finished a run.
    planner_last_run: Gauge = "planner_last_run_timestamp_seconds" [] &[];
    /// How long the planner's runs took.
    planner_run_duration: Histogram = "planner_run_duration_seconds" [] RUN;
    /// Bytes free on the disk of a store that is a file; 0 where it is none.
    store_free: IntGauge = "store_free_bytes" [] &[];
    /// Changes are refused while fewer bytes are free (store.min_free); 0 where the store is no file.
    store_min_free: IntGauge = "store_min_free_bytes" [] &[];
    /// Whether this node is ready, as /readyz says.
    ready: IntGauge = "ready" [] &[];
    /// Whether this node leads.
    leader: IntGauge = "leader" [] &[];
    /// Changes taken in, by what became of them.
    changes: IntCounterVec = "changes_total" ["source", "result"] &[];
    /// Mails put to a relay and text messages put to a provider, by what it made of them. One attempt may ask several.
    submissions: IntCounterVec = "submissions_total" ["channel", "provider", "class"] &[];
    /// Connections to mail relays.
    smtp_connections: GaugeVec = "smtp_connections" ["relay", "state"] &[];
    /// Whether the other side counts as down: it gets one probe every few seconds, and what is due waits.
    breaker_open: GaugeVec = "breaker_open" ["target"] &[];
    /// This node's clock less the store's; on SQLite, the jump of the wall clock that is held.
    clock_offset: Gauge = "clock_offset_seconds" [] &[];
    /// Whether the last reload of the configuration succeeded.
    config_last_reload_successful: IntGauge = "config_last_reload_successful" [] &[];
    /// A number that is equal on nodes with the same configuration.
    config_hash: Gauge = "config_hash" [] &[];
    /// The version of this build and of its time zone data; always 1.
    build_info: GaugeVec = "build_info" ["version", "tzdata"] &[];
    /// Firings that were stepped over, or dropped, since nobody was there to send them.
    missed: IntCounter = "missed_total" [] &[];
    /// How often a trigger had to wait since its owner got as many messages as the limit of the channel allows.
    deferred: IntCounterVec = "deferred_total" ["channel"] &[];
    /// Webhooks of owners that were disabled: gone, or failing for too long.
    endpoints_disabled: IntCounter = "endpoints_disabled_total" [] &[];
    /// Requests that were not let in: without a token, with one that nobody made or that was revoked, with one that has expired,
    /// with one whose scope is too small, or from a page or a machine that is not served without one.
    access_refused: IntCounterVec = "access_refused_total" ["reason"] &[];
    /// How often this node found that the database had gone back in time.
    rewinds: IntCounter = "store_rewinds_total" [] &[];
    /// Transactions and reads that the database interrupted, or that lost their connection, and that were done again.
    store_repeats: IntCounter = "store_repeats_total" [] &[];
}

/// Why a request was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessRefusal {
    /// It shows no token, and one is asked for.
    Missing,
    /// Nobody made its token, or it was revoked.
    Unknown,
    /// Its token has expired.
    Expired,
    /// Its token is good for less.
    Scope,
    /// It comes from elsewhere, without a token where none is asked for.
    Foreign,
}

impl AccessRefusal {
    const ALL: [Self; 5] = [
        Self::Missing,
        Self::Unknown,
        Self::Expired,
        Self::Scope,
        Self::Foreign,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Unknown => "unknown",
            Self::Expired => "expired",
            Self::Scope => "scope",
            Self::Foreign => "foreign",
        }
    }
}

/// What kind of hand-over a lateness belongs to: only `Regular` ones measure how punctual we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatenessKind {
    /// The trigger was known before its instant and the first attempt was accepted.
    Regular,
    /// It took more than one attempt, or waited for a slot in the limit of its owner.
    Postponed,
    /// It was asked for after its instant, or found after an outage.
    Late,
}

/// What a message goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// An address or an endpoint of its owner's.
    Owner,
    /// A URL that a stand-alone alarm names.
    Url,
}

/// A stage of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// From the granted fire-check to the finished message.
    Render,
    /// From the first byte to the answer.
    Send,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimResult {
    /// It was taken.
    Claimed,
    /// Somebody else had it by the time of the fire-check.
    Lost,
}

/// What was decided about an attempt whose end nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoubtDecision {
    /// Send again, with the same id.
    Retry,
    /// Record it as in doubt.
    Record,
}

/// What a connection to a relay does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// A message is on it.
    Busy,
    /// It waits for the next one.
    Idle,
}

impl Metrics {
    /// All metrics in the text format of Prometheus.
    pub fn render(&self) -> String {
        let rendered = TextEncoder::new().encode_to_string(&self.registry.gather());
        rendered.unwrap_or_else(|error| {
            tracing::error!(%error, "the metrics cannot be rendered");
            String::new()
        })
    }

    /// A message was handed over, `lateness` after the instant that was promised.
    pub fn handed_over(&self, channel: ChannelKind, kind: LatenessKind, lateness: TimeDelta) {
        let kind = match kind {
            LatenessKind::Regular => "regular",
            LatenessKind::Postponed => "postponed",
            LatenessKind::Late => "late",
        };
        // A time shift sends early; a sum that shrinks would read as a restart.
        let seconds = seconds_of(lateness).max(0.0);
        self.lateness
            .with_label_values(&[channel.as_str(), kind])
            .observe(seconds);
    }

    /// The webhook of an owner was disabled.
    pub fn endpoint_disabled(&self) {
        self.endpoints_disabled.inc();
    }

    /// A history row was written.
    pub fn concluded(&self, channel: ChannelKind, outcome: Outcome, reason: Reason) {
        let labels = [channel.as_str(), outcome.as_str(), reason.as_str()];
        self.deliveries.with_label_values(&labels).inc();
    }

    /// The attempts of a message to a target of this kind are over. What was not sent, for whatever reason, says nothing of it.
    pub fn reached(&self, channel: ChannelKind, target: TargetKind, outcome: Outcome) {
        let target = match target {
            TargetKind::Owner => "owner",
            TargetKind::Url => "url",
        };
        let result = match outcome {
            Outcome::Failed | Outcome::Expired => "failed",
            outcome if outcome.is_hand_over() => "ok",
            _ => return,
        };
        let labels = [channel.as_str(), target, result];
        self.target_deliveries.with_label_values(&labels).inc();
    }

    /// So many callers follow what happens to alarms.
    pub fn followers(&self, count: usize) {
        self.followers.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Of `count` messages that were handed over it is known by now what became of them, or that nobody will say it.
    pub fn reported(&self, channel: ChannelKind, outcome: Outcome, reason: Reason, count: u64) {
        let labels = [channel.as_str(), outcome.as_str(), reason.as_str()];
        self.reports.with_label_values(&labels).inc_by(count);
    }

    /// An attempt through `provider` (the channel's implementation: `smtp`, `outbox`) ended.
    pub fn attempted(&self, channel: ChannelKind, provider: &'static str, report: &Report) {
        self.attempts
            .with_label_values(&[channel.as_str(), provider, class(report)])
            .inc();
    }

    /// A message was put to `provider`, one of the relays or providers that are configured.
    pub fn submitted(&self, channel: ChannelKind, provider: &str, report: &Report) {
        self.submissions
            .with_label_values(&[channel.as_str(), provider, class(report)])
            .inc();
    }

    /// A stage of an attempt took `duration`.
    pub fn took(&self, channel: ChannelKind, provider: &'static str, stage: Stage, duration: Duration) {
        let stage = match stage {
            Stage::Render => "render",
            Stage::Send => "send",
        };
        let labels = [channel.as_str(), provider, stage];
        self.attempt_duration
            .with_label_values(&labels)
            .observe(duration.as_secs_f64());
    }

    /// The end of an attempt is unknown.
    pub fn doubted(&self, decision: DoubtDecision, count: u64) {
        let decision = match decision {
            DoubtDecision::Retry => "retry",
            DoubtDecision::Record => "record",
        };
        self.in_doubt.with_label_values(&[decision]).inc_by(count);
    }

    /// Where the backlog stands at `now`.
    pub fn backlog(&self, backlog: &Backlog, now: DateTime<Utc>) {
        let gauge = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.planned.set(gauge(backlog.planned));
        self.claimed.set(gauge(backlog.claimed));
        self.overdue.set(gauge(backlog.overdue));
        let age = backlog.oldest_due.map_or(0.0, |due| seconds_of(now - due));
        self.oldest_overdue.set(age.max(0.0));
    }

    /// `count` claims were taken or found lost.
    pub fn claims(&self, result: ClaimResult, count: usize) {
        let result = match result {
            ClaimResult::Claimed => "claimed",
            ClaimResult::Lost => "lost",
        };
        self.claims.with_label_values(&[result]).inc_by(count as u64);
    }

    /// Claims were taken away from their holders.
    pub fn rescued(&self, rescued: &Rescued) {
        let by_cause = [
            ("dead_session", rescued.dead_session),
            ("overdue", rescued.overdue),
            ("in_doubt", rescued.in_doubt_retried + rescued.in_doubt_recorded),
        ];
        for (cause, count) in by_cause {
            self.rescued.with_label_values(&[cause]).inc_by(count);
        }
        self.doubted(DoubtDecision::Retry, rescued.in_doubt_retried);
        self.doubted(DoubtDecision::Record, rescued.in_doubt_recorded);
    }

    /// The planner finished a run at `now` that took `duration`.
    pub fn planner_ran(&self, now: DateTime<Utc>, duration: Duration) {
        self.planner_last_run.set(seconds_of(now - DateTime::UNIX_EPOCH));
        self.planner_run_duration.observe(duration.as_secs_f64());
    }

    /// The database went back in time.
    pub fn rewound(&self) {
        self.rewinds.inc();
    }

    /// This node leads, or no longer does.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// A change of `source` was answered.
    pub fn changed(&self, source: &str, result: &ChangeResult) {
        let result = match result {
            ChangeResult::Applied => "applied",
            ChangeResult::Unchanged => "unchanged",
            ChangeResult::Stale => "stale",
            ChangeResult::Conflict(_) => "conflict",
            ChangeResult::Rejected(_) => "rejected",
        };
        let source = if self.has_label(source) { source } else { "other" };
        self.changes.with_label_values(&[source, result]).inc();
    }

    /// A request was not let in.
    pub fn access_refused(&self, why: AccessRefusal) {
        self.access_refused.with_label_values(&[why.as_str()]).inc();
    }

    /// How many connections to `relay` do what.
    pub fn smtp_connections(&self, relay: &str, state: ConnectionState, count: usize) {
        let state = match state {
            ConnectionState::Busy => "busy",
            ConnectionState::Idle => "idle",
        };
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.smtp_connections
            .with_label_values(&[relay, state])
            .set(f64::from(count));
    }

    /// Whether the breaker of `target` is open.
    pub fn breaker(&self, target: &str, is_open: bool) {
        let open = f64::from(u8::from(is_open));
        self.breaker_open.with_label_values(&[target]).set(open);
    }

    /// Whether this node is ready.
    pub fn ready(&self, is_ready: bool) {
        self.ready.set(i64::from(is_ready));
    }

    /// Room on the disk of the store.
    pub fn store_room(&self, room: Room) {
        let gauge = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.store_free.set(gauge(room.free));
        self.store_min_free.set(gauge(room.min_free));
    }

    /// This node's clock is ahead of the store's by `offset`.
    pub fn clock_offset(&self, offset: TimeDelta) {
        self.clock_offset.set(seconds_of(offset));
    }

    /// The configuration with this hash applies from now on.
    pub fn config_applied(&self, hash: u64) {
        #[expect(clippy::cast_precision_loss, reason = "the hash is made to fit: 48 bits")]
        self.config_hash.set(hash as f64);
        self.config_last_reload_successful.set(1);
    }

    /// A reload was refused; what applied before still does.
    pub fn config_refused(&self) {
        self.config_last_reload_successful.set(0);
    }

    /// `count` firings were stepped over.
    pub fn missed(&self, count: u64) {
        self.missed.inc_by(count);
    }

    /// `count` triggers wait for a slot in the limit of their owner.
    pub fn deferred(&self, channel: ChannelKind, count: usize) {
        self.deferred
            .with_label_values(&[channel.as_str()])
            .inc_by(count as u64);
    }

    /// The store has been interrupted and done its work again so often in all.
    pub fn store_repeated(&self, total: u64) {
        let more = total.saturating_sub(self.store_repeats.get());
        self.store_repeats.inc_by(more);
    }

    /// Makes the series exist whose absence would break an alert.
    fn start_at_zero(&self) {
        self.claims(ClaimResult::Claimed, 0);
        self.claims(ClaimResult::Lost, 0);
        self.rescued(&Rescued::default());
        self.doubted(DoubtDecision::Retry, 0);
        self.doubted(DoubtDecision::Record, 0);
        for why in AccessRefusal::ALL {
            self.access_refused.with_label_values(&[why.as_str()]).inc_by(0);
        }
        let versions = [env!("CARGO_PKG_VERSION"), zone::data_version()];
        self.build_info.with_label_values(&versions).set(1.0);
    }

    /// Whether `source` has a label of its own, or gets one now.
    fn has_label(&self, source: &str) -> bool {
        let mut sources = self.sources.lock().expect("no holder panics");
        sources.contains(source) || (sources.len() < MOST_SOURCES && sources.insert(source.to_owned()))
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn seconds_of(delta: TimeDelta) -> f64 {
    delta.as_seconds_f64()
}

/// A metric that can be declared in one line.
trait Declare {
    fn declare(name: &str, help: &str, labels: &[&str], buckets: &[f64]) -> Self;
}

macro_rules! declare {
    ($($kind:ty: |$name:ident, $help:ident, $labels:ident, $buckets:ident| $make:expr;)+) => {
        $(impl Declare for $kind {
            fn declare($name: &str, $help: &str, $labels: &[&str], $buckets: &[f64]) -> Self {
                $make.expect("the declaration is valid: a test makes it")
            }
        })+
    };
}

declare! {
    IntCounter: |name, help, _labels, _buckets| Self::new(name, help);
    IntCounterVec: |name, help, labels, _buckets| Self::new(Opts::new(name, help), labels);
    IntGauge: |name, help, _labels, _buckets| Self::new(name, help);
    Gauge: |name, help, _labels, _buckets| Self::new(name, help);
    GaugeVec: |name, help, labels, _buckets| Self::new(Opts::new(name, help), labels);
    Histogram: |name, help, _labels, buckets| Self::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()));
    HistogramVec: |name, help, labels, buckets|
        Self::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels);
}

/// What an attempt came to, as a label.
const fn class(report: &Report) -> &'static str {
    match report {
        Report::Accepted { .. } => "accepted",
        Report::Transient {
            of: Blame::Target, ..
        } => "transient_target",
        Report::Transient {
            of: Blame::Message, ..
        } => "transient_message",
        Report::Permanent { .. } => "permanent",
        Report::InDoubt { .. } => "in_doubt",
        Report::Gone { .. } => "gone",
        Report::Busy { .. } => "busy",
        Report::Again { .. } => "again",
        Report::Abandoned => "abandoned",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;
    use std::process::Stdio;

    use super::*;

    fn busy() -> Metrics {
        let metrics = Metrics::new();
        metrics.handed_over(
            ChannelKind::Email,
            LatenessKind::Regular,
            TimeDelta::milliseconds(-20),
        );
        metrics.concluded(ChannelKind::Email, Outcome::Sent, Reason::None);
        metrics.reached(ChannelKind::Webhook, TargetKind::Url, Outcome::Failed);
        metrics.concluded(ChannelKind::Sms, Outcome::Failed, Reason::NoAddress);
        metrics.attempted(ChannelKind::Email, "smtp", &Report::Abandoned);
        metrics.reported(ChannelKind::Sms, Outcome::Failed, Reason::Undelivered, 1);
        metrics.took(ChannelKind::Email, "smtp", Stage::Send, Duration::from_millis(3));
        metrics.changed("nextcloud", &ChangeResult::Applied);
        metrics.smtp_connections("relay:25", ConnectionState::Idle, 2);
        metrics.breaker("relay:25", true);
        let refused = Report::Permanent { error: String::new() };
        metrics.submitted(ChannelKind::Sms, "main", &refused);
        metrics.planner_ran(DateTime::UNIX_EPOCH, Duration::from_millis(4));
        metrics
    }

    #[test]
    fn promtool_finds_nothing_to_complain_about() {
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool is installed: apt-get install prometheus");
        let mut stdin = promtool.stdin.take().expect("it is piped");
        stdin.write_all(busy().render().as_bytes()).unwrap();
        drop(stdin);
        let output = promtool.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    #[test]
    fn a_flood_of_sources_shares_one_label() {
        let metrics = Metrics::new();
        for source in 0..200 {
            metrics.changed(&source.to_string(), &ChangeResult::Applied);
        }
        let text = metrics.render();
        assert_eq!(text.matches("carillon_changes_total{").count(), MOST_SOURCES + 1);
        assert!(text.contains(r#"carillon_changes_total{result="applied",source="other"} 150"#));
    }

    #[test]
    fn sending_early_never_shrinks_the_sum() {
        assert!(
            busy()
                .render()
                .contains(r#"lateness_seconds_sum{channel="email",kind="regular"} 0"#)
        );
    }

    #[test]
    fn repeats_are_told_as_a_sum_and_counted_once() {
        let metrics = Metrics::new();
        for total in [2, 2, 5] {
            metrics.store_repeated(total);
        }
        assert!(metrics.render().contains("carillon_store_repeats_total 5"));
    }

    #[test]
    fn an_idle_process_reports_zeros_and_what_it_is() {
        let text = Metrics::new().render();
        assert!(text.contains(r#"carillon_rescued_total{cause="overdue"} 0"#));
        assert!(text.contains("carillon_missed_total 0"));
        assert!(text.contains("carillon_store_repeats_total 0"));
        assert!(text.contains("carillon_build_info{"));
    }
}
