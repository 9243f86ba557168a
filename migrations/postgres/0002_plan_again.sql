-- Owners whose events must be planned again: their zone or addresses changed, or a trigger of theirs was lost.
ALTER TABLE owner ADD COLUMN plan_asked BIGINT NOT NULL DEFAULT 0; -- Raised whenever that is asked for.
ALTER TABLE owner ADD COLUMN plan_done BIGINT NOT NULL DEFAULT 0;  -- How far it has been done.

CREATE INDEX owner_to_plan ON owner (id) WHERE plan_done < plan_asked;
