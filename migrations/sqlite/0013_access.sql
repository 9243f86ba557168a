-- Access tokens: what programs present to be let in.
CREATE TABLE access_token (
    hash         BLOB    NOT NULL PRIMARY KEY, -- SHA-256 of the token, which itself is kept nowhere.
    name         TEXT    NOT NULL UNIQUE,      -- What the operator calls it.
    scope        TEXT    NOT NULL,             -- read, write or admin.
    owner        TEXT REFERENCES owner (id) ON DELETE CASCADE, -- Whose things it opens; null: everybody's.
    created_at   INTEGER NOT NULL,             -- When it was made.
    expires_at   INTEGER,                      -- From when on it opens nothing; null: until it is revoked.
    last_used_at INTEGER                       -- When it was last presented, to the minute.
) STRICT, WITHOUT ROWID;
