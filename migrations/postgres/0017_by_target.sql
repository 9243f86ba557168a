-- The alarms of one owner that call one target: the URL of a webhook, or the name of a handler.
CREATE INDEX standalone_alarm_target ON standalone_alarm (owner, (terms::jsonb ->> 'target'))
    WHERE (terms::jsonb ->> 'target') IS NOT NULL;
