-- What is sent though its instant is past.
ALTER TABLE alarm_trigger ADD COLUMN moved BOOLEAN NOT NULL DEFAULT false; -- A notice that its event was moved past its alarms.
