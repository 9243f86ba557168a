-- Which triggers go out as one message.
ALTER TABLE alarm_trigger ADD COLUMN digest BYTEA; -- The trigger whose message the last attempt was part of, where that stood for several: maybe itself.
