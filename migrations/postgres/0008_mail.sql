-- The address of an owner to which the relay says that no mail can go.
ALTER TABLE owner ADD COLUMN email_dead_until TIMESTAMPTZ; -- Until when nothing is sent there; none: it is not known to be dead.
ALTER TABLE owner ADD COLUMN email_dead_says TEXT; -- What the relay said.
