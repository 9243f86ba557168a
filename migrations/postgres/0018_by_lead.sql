-- Who else was part of a message of several.
CREATE INDEX alarm_trigger_digest ON alarm_trigger (digest) WHERE digest IS NOT NULL;
