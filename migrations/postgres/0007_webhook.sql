-- Where an owner's calls go, and how that has been going.
ALTER TABLE owner ADD COLUMN webhook_url TEXT; -- Where calls go.
ALTER TABLE owner ADD COLUMN webhook_failing_since TIMESTAMPTZ; -- When a call failed, if none has succeeded since.
ALTER TABLE owner ADD COLUMN webhook_disabled TEXT; -- Why nothing is sent there until the owner is put again.
-- What the target of a call asked to be given back with the next one: a JSON document.
ALTER TABLE alarm_trigger ADD COLUMN payload TEXT;
