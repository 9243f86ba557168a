-- What is sent though its instant is past.
ALTER TABLE alarm_trigger ADD COLUMN moved INTEGER NOT NULL DEFAULT 0; -- 1: a notice that its event was moved past its alarms.
