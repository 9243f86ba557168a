-- What owners answered to their reminders, beside the copies of the event: a later change by its source keeps it.
CREATE TABLE answer (
    owner      TEXT COLLATE "C" NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Who answered.
    event_uid  TEXT COLLATE "C" NOT NULL, -- The UID of the event.
    answers    TEXT NOT NULL,             -- JSON: acknowledgements and snoozes by the identity of their alarm, and whether all is muted.
    changed_at TIMESTAMPTZ NOT NULL,      -- When that was last changed.
    PRIMARY KEY (owner, event_uid)
);
