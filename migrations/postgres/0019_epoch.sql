-- Epoch and watermark, by which nodes notice that the database went back in time: one row.
CREATE TABLE store_epoch (
    one           BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    number        BIGINT      NOT NULL,              -- Counts the epochs of this database.
    random        BIGINT      NOT NULL,              -- Distinguishes epochs of the same number.
    began_at      TIMESTAMPTZ NOT NULL,              -- When this epoch began.
    watermark     BIGINT      NOT NULL,              -- Raised by each heartbeat.
    raised_at     TIMESTAMPTZ NOT NULL,              -- When it was last raised.
    lost_after    TIMESTAMPTZ,                       -- What was committed up to here is there; null in the first epoch.
    lost_until    TIMESTAMPTZ,                       -- As late as this a node had seen the database before.
    missed_before TIMESTAMPTZ,                       -- What was to be sent before this is recorded as missed.
    held          BOOLEAN     NOT NULL DEFAULT false -- Whether nothing is fired until an operator lets it.
) WITH (fillfactor = 10);

INSERT INTO store_epoch (number, random, began_at, watermark, raised_at)
VALUES (1, (random() * 9e15)::bigint, date_trunc('milliseconds', now()), 0, date_trunc('milliseconds', now()));
