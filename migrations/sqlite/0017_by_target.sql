-- The alarms of one owner that call one target: the URL of a webhook, or the name of a handler.
CREATE INDEX standalone_alarm_target ON standalone_alarm (owner, terms ->> 'target') WHERE terms ->> 'target' IS NOT NULL;
