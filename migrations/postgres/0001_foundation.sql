-- The twin of the SQLite schema: same tables, same columns. Names and identities compare bytewise (COLLATE "C"), as there.

CREATE TABLE owner (
    id         TEXT COLLATE "C" PRIMARY KEY, -- The name the caller gave them.
    email      TEXT,                         -- Where e-mail goes.
    addresses  TEXT        NOT NULL,         -- Further addresses by which calendars know them: a JSON list.
    phone      TEXT,                         -- E.164 number.
    time_zone  TEXT        NOT NULL,         -- IANA name.
    locale     TEXT        NOT NULL,         -- BCP 47 tag.
    enabled    BOOLEAN     NOT NULL,         -- False: they get nothing.
    muted      TEXT        NOT NULL,         -- Channels they switched off: a JSON list.
    changed_at TIMESTAMPTZ NOT NULL          -- When this row was last written.
);

CREATE TABLE event (
    row_id     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,                  -- For the janitor and for complaints.
    source     TEXT COLLATE "C" NOT NULL,                                        -- The source.
    key        TEXT COLLATE "C" NOT NULL,                                        -- What the event is called there.
    owner      TEXT COLLATE "C" NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Whose copy it is.
    uid        TEXT COLLATE "C" NOT NULL,                                        -- The UID of the event; empty on the tombstone of one never seen.
    version    TEXT,                                                             -- The source's version, if it names one.
    deleted_at TIMESTAMPTZ,                                                      -- Set on a tombstone: a late older version stays dead.
    quarantine TEXT,                                                             -- Why it is set aside, if it cannot be followed.
    changed_at TIMESTAMPTZ NOT NULL,                                             -- When this row was last changed by its source.
    ics        TEXT NOT NULL,                                                    -- The iCalendar text; empty on a tombstone.
    UNIQUE (source, key, owner)
);

-- The copies of one group; also the order in which groups are walked, without touching a text.
CREATE INDEX event_group ON event (owner, uid, deleted_at);
-- Tombstones by age, for the janitor.
CREATE INDEX event_tombstone ON event (deleted_at) WHERE deleted_at IS NOT NULL;

-- Wishes, and how far they have been served.
CREATE TABLE alarm (
    owner             TEXT COLLATE "C" NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Whose alarm it is.
    event_uid         TEXT COLLATE "C" NOT NULL, -- The UID of the event.
    identity          TEXT COLLATE "C" NOT NULL, -- Which alarm of the event.
    channel           TEXT COLLATE "C" NOT NULL, -- The way out.
    recipient         TEXT COLLATE "C" NOT NULL, -- Whom it is for.
    served_trigger_at TIMESTAMPTZ,               -- Trigger instant of the last place served; null before the first.
    served_occurrence TIMESTAMPTZ,               -- Occurrence of that place.
    served_repeat     BIGINT,                    -- Repeat index of that place.
    PRIMARY KEY (owner, event_uid, identity, channel, recipient)
);

-- Firings owed. What changes between claim and settle (state, processed, session, generation, attempts, attempt) is in
-- no index and in no index predicate, and half of every page is left free: so claim and fire-check are HOT, write no
-- index, and leave nothing for vacuum but what pruning takes in passing.
CREATE TABLE alarm_trigger (
    id              BYTEA PRIMARY KEY CHECK (octet_length(id) = 16), -- Derived from what the trigger is.
    owner           TEXT COLLATE "C" NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Whose alarm it is.
    event_uid       TEXT COLLATE "C" NOT NULL, -- The UID of the event.
    identity        TEXT COLLATE "C" NOT NULL, -- Which alarm of the event.
    channel         TEXT COLLATE "C" NOT NULL, -- The way out.
    recipient       TEXT COLLATE "C" NOT NULL, -- Whom it is for.
    occurrence      TIMESTAMPTZ NOT NULL,      -- RECURRENCE-ID instant of the occurrence.
    trigger_at      TIMESTAMPTZ NOT NULL,      -- The instant that was promised.
    repeat          BIGINT      NOT NULL,      -- 0, or k for the k-th repeat.
    due_at          TIMESTAMPTZ NOT NULL,      -- When to fire: trigger_at at first, later a retry or deferral instant.
    expires_at      TIMESTAMPTZ NOT NULL,      -- From here on it is recorded as expired.
    has_more        BOOLEAN     NOT NULL,      -- False only where no firing can follow.
    state           TEXT COLLATE "C" NOT NULL, -- planned, claimed or sending.
    processed       TIMESTAMPTZ,               -- When it was claimed; null while it is free.
    session         BIGINT,                    -- Who holds it; without a foreign key, which would need an index.
    generation      BIGINT      NOT NULL DEFAULT 0,     -- Raised by every claim and every release.
    attempts        BIGINT      NOT NULL DEFAULT 0,     -- Attempts that counted.
    attempt_token   BIGINT,                             -- The attempt under way, while sending.
    attempt_started TIMESTAMPTZ,                        -- When that attempt passed its fire-check.
    withdrawn       BOOLEAN     NOT NULL DEFAULT false, -- No longer owed, but it was sending when that was decided.
    last_error      TEXT                                -- Why the last attempt failed.
) WITH (
    fillfactor = 50,
    -- Rows come and go all day: vacuum a little and often, and at full speed, since a bloated due index slows every look.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0,
    -- The plans of the scans depend on how much is due, which changes by the minute.
    autovacuum_analyze_scale_factor = 0.05
);

-- The one index that every repeated scan walks.
CREATE INDEX alarm_trigger_due ON alarm_trigger (due_at, id);
-- The triggers of one group.
CREATE INDEX alarm_trigger_group ON alarm_trigger (owner, event_uid);

-- History: what became of a trigger, and the ledger that nothing is sent twice.
CREATE TABLE delivery (
    row_id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id             BYTEA NOT NULL UNIQUE CHECK (octet_length(id) = 16), -- The trigger's id.
    owner          TEXT COLLATE "C" NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Whose alarm it was.
    event_uid      TEXT COLLATE "C" NOT NULL, -- The UID of the event.
    identity       TEXT COLLATE "C" NOT NULL, -- Which alarm of the event.
    channel        TEXT COLLATE "C" NOT NULL, -- The way out.
    recipient      TEXT COLLATE "C" NOT NULL, -- Whom it was for.
    occurrence     TIMESTAMPTZ NOT NULL,      -- RECURRENCE-ID instant of the occurrence.
    trigger_at     TIMESTAMPTZ NOT NULL,      -- The instant that was promised.
    repeat         BIGINT      NOT NULL,      -- 0, or k for the k-th repeat.
    outcome        TEXT COLLATE "C" NOT NULL, -- What became of it.
    rank           BIGINT      NOT NULL,      -- How much the outcome knows; 2 and more: it was or may have been handed over.
    reason         TEXT COLLATE "C" NOT NULL, -- Why, as a label; empty if there is nothing to add.
    detail         TEXT        NOT NULL,      -- What the other side said, without personal data.
    attempts       BIGINT      NOT NULL,      -- Attempts that counted.
    count          BIGINT      NOT NULL,      -- How many firings this row stands for.
    handed_over_at TIMESTAMPTZ,               -- When the other side had it.
    recorded_at    TIMESTAMPTZ NOT NULL       -- When this row was last written.
) WITH (
    -- Append-only but for upgrades: what the janitor deletes is a small part, so the default of a fifth comes too late.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05
);

-- History, newest first, and by age for the janitor.
CREATE INDEX delivery_recorded ON delivery (recorded_at, id);
-- What of a group was handed over lately; also the history of one owner.
CREATE INDEX delivery_group ON delivery (owner, event_uid, trigger_at);

-- Messages that stay with us, where no relay is configured.
CREATE TABLE outbox (
    id             BYTEA PRIMARY KEY REFERENCES delivery (id) ON DELETE CASCADE, -- The trigger's id.
    owner          TEXT COLLATE "C" NOT NULL, -- Whose.
    handed_over_at TIMESTAMPTZ NOT NULL,      -- When it was handed over.
    recipient      TEXT NOT NULL,             -- The address it is for.
    subject        TEXT NOT NULL,             -- Its subject.
    text           TEXT NOT NULL,             -- Its plain text.
    raw            TEXT NOT NULL              -- The whole message (RFC 5322).
);

-- The outbox, newest first: of everybody, and of one owner.
CREATE INDEX outbox_handed_over ON outbox (handed_over_at, id);
CREATE INDEX outbox_owner ON outbox (owner, handed_over_at, id);

-- One start of one node. A few rows, each written once a second: pages are kept half free, so that a beat is HOT.
CREATE TABLE session (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- Never used twice: claims outlive their session.
    node       TEXT COLLATE "C" NOT NULL, -- The node's name.
    started_at TIMESTAMPTZ NOT NULL,      -- When it started.
    beat_at    TIMESTAMPTZ NOT NULL,      -- Its last sign of life.
    held_until TIMESTAMPTZ NOT NULL       -- It holds nothing due later: bounds the search for what it held.
) WITH (fillfactor = 50);

-- Values that outlive a process, such as the zone data by which everything was planned.
CREATE TABLE memory (
    name  TEXT COLLATE "C" PRIMARY KEY, -- What it is.
    value TEXT NOT NULL                 -- Its value.
);
