-- Everything Carillon remembers. Instants are integer milliseconds since 1970 UTC; names of enumerations are those of
-- the code (`as_str`), read back by `store/row.rs` alone, so that a value of a newer version is a complaint about one
-- row and not a failed migration.

-- The people alarms belong to.
CREATE TABLE owner (
    id         TEXT    NOT NULL PRIMARY KEY, -- The name the caller gave them.
    email      TEXT,                         -- Where e-mail goes.
    addresses  TEXT    NOT NULL,             -- JSON array of further addresses, to find their own ATTENDEE.
    phone      TEXT,                         -- E.164 number.
    time_zone  TEXT    NOT NULL,             -- IANA name in which floating times are understood.
    locale     TEXT    NOT NULL,             -- BCP 47 tag.
    enabled    INTEGER NOT NULL,             -- 0: they get nothing.
    muted      TEXT    NOT NULL,             -- JSON array of the channels they switched off.
    changed_at INTEGER NOT NULL              -- When this row was last written.
) STRICT, WITHOUT ROWID;

-- One copy of an event: one object of one source for one owner.
CREATE TABLE event (
    row_id     INTEGER PRIMARY KEY,          -- Keeps the long text out of every index.
    source     TEXT    NOT NULL,             -- Where it comes from.
    key        TEXT    NOT NULL,             -- Its identity there (href or UID).
    owner      TEXT    NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Whose copy it is.
    uid        TEXT    NOT NULL,             -- The UID in the text; empty for a tombstone of what was never seen.
    version    TEXT,                         -- The source's version, if it names one.
    deleted_at INTEGER,                      -- Set on a tombstone: a late older version stays dead.
    quarantine TEXT,                         -- Why it is set aside, if it cannot be followed.
    changed_at INTEGER NOT NULL,             -- When this row was last changed by its source.
    ics        TEXT    NOT NULL,             -- The iCalendar text; empty on a tombstone. Last: reads of the rest skip it.
    UNIQUE (source, key, owner)
) STRICT;

-- The copies of one group; also the order in which groups are walked, without touching a text.
CREATE INDEX event_group ON event (owner, uid, deleted_at);
-- Tombstones by age, for the janitor.
CREATE INDEX event_tombstone ON event (deleted_at) WHERE deleted_at IS NOT NULL;

-- Wishes, and how far they have been served.
CREATE TABLE alarm (
    owner             TEXT NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Whose alarm it is.
    event_uid         TEXT NOT NULL, -- The UID of the event.
    identity          TEXT NOT NULL, -- Which alarm of the event.
    channel           TEXT NOT NULL, -- The way out.
    recipient         TEXT NOT NULL, -- Whom it is for.
    served_trigger_at INTEGER,       -- Trigger instant of the last place served; null before the first.
    served_occurrence INTEGER,       -- Occurrence of that place.
    served_repeat     INTEGER,       -- Repeat index of that place.
    PRIMARY KEY (owner, event_uid, identity, channel, recipient)
) STRICT, WITHOUT ROWID;

-- Firings owed. What changes between claim and settle (state, processed, session, generation, attempts, attempt) is in
-- no index and in no index predicate. `session` refers to a session without a foreign key: such a key needs an index,
-- and the row of a dead session may go before what it held is freed.
CREATE TABLE alarm_trigger (
    id              BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16), -- Derived from what the trigger is.
    owner           TEXT    NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Whose alarm it is.
    event_uid       TEXT    NOT NULL,           -- The UID of the event.
    identity        TEXT    NOT NULL,           -- Which alarm of the event.
    channel         TEXT    NOT NULL,           -- The way out.
    recipient       TEXT    NOT NULL,           -- Whom it is for.
    occurrence      INTEGER NOT NULL,           -- RECURRENCE-ID instant of the occurrence.
    trigger_at      INTEGER NOT NULL,           -- The instant that was promised.
    repeat          INTEGER NOT NULL,           -- 0, or k for the k-th repeat.
    due_at          INTEGER NOT NULL,           -- When to fire: trigger_at at first, later a retry or deferral instant.
    expires_at      INTEGER NOT NULL,           -- From here on it is recorded as expired.
    has_more        INTEGER NOT NULL,           -- 0 only where no firing can follow.
    state           TEXT    NOT NULL,           -- planned, claimed or sending.
    processed       INTEGER,                    -- When it was claimed; null while it is free.
    session         INTEGER,                    -- Who holds it.
    generation      INTEGER NOT NULL DEFAULT 0, -- Raised by every claim and every release.
    attempts        INTEGER NOT NULL DEFAULT 0, -- Attempts that counted.
    attempt_token   INTEGER,                    -- The attempt under way, while sending.
    attempt_started INTEGER,                    -- When that attempt passed its fire-check.
    withdrawn       INTEGER NOT NULL DEFAULT 0, -- 1: no longer owed, but it was sending when that was decided.
    last_error      TEXT                        -- Why the last attempt failed.
) STRICT, WITHOUT ROWID;

-- The one index that every repeated scan walks.
CREATE INDEX alarm_trigger_due ON alarm_trigger (due_at, id);
-- The triggers of one group.
CREATE INDEX alarm_trigger_group ON alarm_trigger (owner, event_uid);

-- History: what became of a trigger, and the ledger that nothing is sent twice.
CREATE TABLE delivery (
    row_id         INTEGER PRIMARY KEY,        -- Rows are appended in the order they are recorded.
    id             BLOB    NOT NULL UNIQUE CHECK (length(id) = 16), -- The trigger's id.
    owner          TEXT    NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Whose alarm it was.
    event_uid      TEXT    NOT NULL,           -- The UID of the event.
    identity       TEXT    NOT NULL,           -- Which alarm of the event.
    channel        TEXT    NOT NULL,           -- The way out.
    recipient      TEXT    NOT NULL,           -- Whom it was for.
    occurrence     INTEGER NOT NULL,           -- RECURRENCE-ID instant of the occurrence.
    trigger_at     INTEGER NOT NULL,           -- The instant that was promised.
    repeat         INTEGER NOT NULL,           -- 0, or k for the k-th repeat.
    outcome        TEXT    NOT NULL,           -- What became of it.
    rank           INTEGER NOT NULL,           -- How much the outcome knows; 2 and more: it was or may have been handed over.
    reason         TEXT    NOT NULL,           -- Why, as a label; empty if there is nothing to add.
    detail         TEXT    NOT NULL,           -- What the other side said, without personal data.
    attempts       INTEGER NOT NULL,           -- Attempts that counted.
    count          INTEGER NOT NULL,           -- How many firings this row stands for.
    handed_over_at INTEGER,                    -- When the other side had it.
    recorded_at    INTEGER NOT NULL            -- When this row was last written.
) STRICT;

-- History, newest first, and by age for the janitor.
CREATE INDEX delivery_recorded ON delivery (recorded_at, id);
-- What of a group was handed over lately; also the history of one owner.
CREATE INDEX delivery_group ON delivery (owner, event_uid, trigger_at);

-- Messages that stay with us, where no relay is configured.
CREATE TABLE outbox (
    id             BLOB    NOT NULL PRIMARY KEY REFERENCES delivery (id) ON DELETE CASCADE, -- The trigger's id.
    owner          TEXT    NOT NULL, -- Whose.
    handed_over_at INTEGER NOT NULL, -- When it was handed over.
    recipient      TEXT    NOT NULL, -- The address it is for.
    subject        TEXT    NOT NULL, -- Its subject.
    text           TEXT    NOT NULL, -- Its plain text.
    raw            TEXT    NOT NULL  -- The whole message (RFC 5322).
) STRICT;

-- The outbox, newest first: of everybody, and of one owner.
CREATE INDEX outbox_handed_over ON outbox (handed_over_at, id);
CREATE INDEX outbox_owner ON outbox (owner, handed_over_at, id);

-- One start of one node.
CREATE TABLE session (
    id         INTEGER PRIMARY KEY AUTOINCREMENT, -- Never used twice: claims outlive their session.
    node       TEXT    NOT NULL,                  -- The node's name.
    started_at INTEGER NOT NULL,                  -- When it started.
    beat_at    INTEGER NOT NULL,                  -- Its last sign of life.
    held_until INTEGER NOT NULL                   -- It holds nothing due later: bounds the search for what it held.
) STRICT;

-- Values that outlive a process, such as the zone data by which everything was planned.
CREATE TABLE memory (
    name  TEXT NOT NULL PRIMARY KEY, -- What it is.
    value TEXT NOT NULL              -- Its value.
) STRICT, WITHOUT ROWID;
