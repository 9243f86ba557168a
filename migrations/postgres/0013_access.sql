-- Access tokens: what programs present to be let in.
CREATE TABLE access_token (
    hash         BYTEA       PRIMARY KEY, -- SHA-256 of the token, which itself is kept nowhere.
    name         TEXT COLLATE "C" NOT NULL UNIQUE, -- What the operator calls it.
    scope        TEXT        NOT NULL,    -- read, write or admin.
    owner        TEXT COLLATE "C" REFERENCES owner (id) ON DELETE CASCADE, -- Whose things it opens; null: everybody's.
    created_at   TIMESTAMPTZ NOT NULL,    -- When it was made.
    expires_at   TIMESTAMPTZ,             -- From when on it opens nothing; null: until it is revoked.
    last_used_at TIMESTAMPTZ              -- When it was last presented, to the minute.
);
