//! The columns of our tables, by name. Nothing asks for `*`: nodes of the next version may add columns while this one
//! runs, and a statement that was prepared before must go on meaning the same.

/// The columns that are read of a table, under the one alias that it has in every statement that lists them.
macro_rules! columns {
    (owner) => {
        "o.id, o.email, o.addresses, o.phone, o.time_zone, o.locale, o.enabled, o.muted, o.preferences,
             o.webhook_url, o.webhook_failing_since, o.webhook_disabled, o.email_dead_until, o.email_dead_says,
             o.webhook_secrets, o.link_epoch"
    };
    (event) => {
        "e.row_id, e.source, e.key, e.owner, e.uid, e.version, e.deleted_at, e.quarantine, e.changed_at, e.ics"
    };
    (alarm) => {
        "a.owner, a.event_uid, a.identity, a.channel, a.recipient,
             a.served_trigger_at, a.served_occurrence, a.served_repeat"
    };
    (alarm_trigger) => {
        "t.id, t.owner, t.event_uid, t.identity, t.channel, t.recipient,
             t.occurrence, t.trigger_at, t.repeat, t.due_at, t.expires_at, t.has_more, t.state, t.processed,
             t.session, t.generation, t.attempts, t.attempt_token,
             t.attempt_started, t.withdrawn, t.last_error, t.payload, t.moved, t.digest"
    };
    (delivery) => {
        "d.id, d.owner, d.event_uid, d.identity, d.channel, d.recipient,
             d.occurrence, d.trigger_at, d.repeat, d.outcome, d.reason, d.detail,
             d.attempts, d.count, d.handed_over_at, d.recorded_at,
             d.reference, d.started_at, d.await_until, d.report, d.reported_at, d.first_started_at"
    };
    (standalone_alarm) => {
        "s.owner, s.id, s.channel, s.status, s.paused, s.fire_at, s.key, s.request_key, s.request_hash,
             s.created_at, s.updated_at, s.last_fired_at, s.last_error, s.failure_count, s.terms, s.payload"
    };
    (access_token) => {
        "k.name, k.scope, k.owner, k.created_at, k.expires_at, k.last_used_at"
    };
    (outbox) => {
        "m.id, m.owner, m.handed_over_at, m.recipient, m.subject, m.text, m.raw"
    };
}
