//! What attempts teach about where messages go, noted for the next one. What is not noted is learnt again.

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::channel::Report;
use crate::delivery::endpoint;
use crate::delivery::fire;
use crate::delivery::lane::Shared;
use crate::store::AlarmAt;
use crate::store::Candidate;
use crate::store::DeadAddress;
use crate::store::WebhookNews;
use crate::trigger::ChannelKind;

/// Notes what `report` says of where the message of `candidate` went.
pub async fn from(shared: &Shared, kind: ChannelKind, candidate: &Candidate, report: &Report) {
    match kind {
        ChannelKind::Email => of_address(shared, candidate, report).await,
        ChannelKind::Webhook => of_webhook(shared, candidate, report).await,
        ChannelKind::Sms | ChannelKind::Handler => {}
    }
}

/// An address that is refused for good is left alone for a while, if it is that of an owner.
async fn of_address(shared: &Shared, candidate: &Candidate, report: &Report) {
    let (Report::Gone { error }, Some(person)) = (report, fire::receiver(candidate)) else {
        return;
    };
    let suppress_for = shared.config.borrow().delivery.suppress_for;
    let Some(email) = person.email.as_ref().filter(|_| !suppress_for.is_zero()) else {
        return;
    };
    let length = TimeDelta::from_std(suppress_for).ok();
    let until = length.and_then(|length| shared.clock.now().checked_add_signed(length));
    let dead = DeadAddress {
        until: until.unwrap_or(DateTime::<Utc>::MAX_UTC),
        says: error.clone(),
    };
    match shared.store.address_died(&person.id, email, &dead).await {
        Ok(true) => tracing::info!(
            owner = person.id.stand_in(),
            "an address is dead; nothing is sent there for a while, or until its owner is put again"
        ),
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "what was learnt of an address is not noted"),
    }
}

/// A webhook that is gone, or has failed for too long, is disabled.
async fn of_webhook(shared: &Shared, candidate: &Candidate, report: &Report) {
    if let Some(target) = fire::own_target(candidate) {
        return of_target(shared, candidate, report, target).await;
    }
    let Some(webhook) = &candidate.owner.webhook else {
        return;
    };
    let disable_after = shared.config.borrow().delivery.disable_after;
    let Some(news) = endpoint::news(report, webhook, disable_after, shared.clock.now()) else {
        return;
    };
    let owner = &candidate.owner.id;
    match shared.store.webhook_news(owner, &webhook.url, news).await {
        Ok(true) if matches!(news, WebhookNews::Gone(_) | WebhookNews::Disabled(..)) => {
            shared.metrics.endpoint_disabled();
            tracing::warn!(
                owner = owner.stand_in(),
                ?news,
                "a webhook is disabled until its owner is put again"
            );
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "what was learnt of a webhook is not noted"),
    }
}

/// A series that has a target of its own stops when that is gone.
async fn of_target(shared: &Shared, candidate: &Candidate, report: &Report, target: &str) {
    let alarm = candidate
        .standalone
        .as_ref()
        .filter(|alarm| alarm.terms.cron.is_some());
    let (Report::Gone { .. }, Some(alarm)) = (report, alarm) else {
        return;
    };
    let at = AlarmAt {
        owner: alarm.owner.clone(),
        id: alarm.id.clone(),
        key: None,
        request: None,
    };
    let parting = endpoint::Parting { target };
    match shared.store.alter_alarms(&[at], &parting, None).await {
        Ok(_) => tracing::warn!(
            owner = alarm.owner.stand_in(),
            "the target of a series answered 410: the series is paused"
        ),
        Err(error) => tracing::warn!(%error, "a series whose target is gone goes on"),
    }
}
