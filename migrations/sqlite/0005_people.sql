-- What people want of their alarms, where that is not what everybody gets.
ALTER TABLE owner ADD COLUMN preferences TEXT NOT NULL DEFAULT '{}'; -- Display, routes, defaults, sources, verified: JSON.

-- Whose an address is, to which an alarm of somebody else writes.
CREATE INDEX owner_email ON owner (lower(email)) WHERE email IS NOT NULL;
-- What other owners' copies of an event send, or sent, to an address.
CREATE INDEX alarm_trigger_address ON alarm_trigger (event_uid, recipient) WHERE recipient <> 'owner';
CREATE INDEX delivery_address ON delivery (event_uid, recipient) WHERE recipient <> 'owner';
