-- Slots in the limits of owners: each message of a limited channel takes one for a timeframe, so that what an owner gets
-- is counted by all nodes alike, through crashes and without reading history.
CREATE TABLE limit_slot (
    id      BYTEA PRIMARY KEY CHECK (octet_length(id) = 16), -- The trigger's id.
    owner   TEXT COLLATE "C" NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Whose limit.
    channel TEXT COLLATE "C" NOT NULL, -- Of which way out.
    state   TEXT COLLATE "C" NOT NULL, -- waiting until `at`, granted at `at` and under way, or spent: handed over by `at`.
    token   BIGINT,                    -- The attempt that gives it back where nothing was handed over.
    at      TIMESTAMPTZ NOT NULL
);

-- What one owner got lately, and waits for.
CREATE INDEX limit_slot_owner ON limit_slot (owner, channel, state, at, id);
-- By age, for the janitor.
CREATE INDEX limit_slot_at ON limit_slot (at, id);
