-- What comes back after a hand-over: reports of those who took a message, and receipts of providers.
ALTER TABLE delivery ADD COLUMN reference   TEXT;        -- By what name the other side knows the message.
ALTER TABLE delivery ADD COLUMN started_at  TIMESTAMPTZ; -- When the attempt that handed it over passed its fire-check.
ALTER TABLE delivery ADD COLUMN await_until TIMESTAMPTZ; -- Until when a report was expected, where one was.
ALTER TABLE delivery ADD COLUMN report      TEXT;        -- What the report said, beside the outcome.
ALTER TABLE delivery ADD COLUMN reported_at TIMESTAMPTZ; -- When it came.

-- What awaits a report, by when it is given up.
CREATE INDEX delivery_awaiting ON delivery (await_until, id) WHERE outcome = 'awaiting';
