-- Epoch and watermark, by which the node notices that the file went back in time: one row.
CREATE TABLE store_epoch (
    one           INTEGER NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    number        INTEGER NOT NULL,           -- Counts the epochs of this file.
    random        INTEGER NOT NULL,           -- Distinguishes epochs of the same number.
    began_at      INTEGER NOT NULL,           -- When this epoch began.
    watermark     INTEGER NOT NULL,           -- Raised by each heartbeat.
    raised_at     INTEGER NOT NULL,           -- When it was last raised.
    lost_after    INTEGER,                    -- What was committed up to here is there; null in the first epoch.
    lost_until    INTEGER,                    -- As late as this the node had seen the file before.
    missed_before INTEGER,                    -- What was to be sent before this is recorded as missed.
    held          INTEGER NOT NULL DEFAULT 0  -- 1: nothing is fired until an operator lets it.
) STRICT;

INSERT INTO store_epoch (number, random, began_at, watermark, raised_at)
SELECT 1, random(), n, 0, n FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS n);
