-- Links and signatures that are of one owner alone.
ALTER TABLE owner ADD COLUMN link_epoch BIGINT NOT NULL DEFAULT 0; -- Raised when an address changes or the owner is disabled: links in messages are good for the epoch that made them.
ALTER TABLE owner ADD COLUMN webhook_secrets TEXT; -- The secrets that sign calls of this owner, one a line; none or empty: those of the configuration do.
