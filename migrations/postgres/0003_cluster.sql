-- What nodes tell of themselves with every beat, so that work can be spread.
ALTER TABLE session ADD COLUMN delivers BOOLEAN NOT NULL DEFAULT true; -- Whether it may be given claims.
ALTER TABLE session ADD COLUMN peer     BIGINT;                        -- Its number in the cluster, where it has one.
ALTER TABLE session ADD COLUMN pending  BIGINT NOT NULL DEFAULT 0;     -- How many triggers it holds.

-- The cluster that this database brings together: at most one row.
CREATE TABLE raft_cluster (
    one        BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    cluster    UUID   NOT NULL DEFAULT gen_random_uuid(), -- Its name, which no other has.
    generation BIGINT NOT NULL DEFAULT 1,                 -- Raised by an operator who founds it anew: terms start over.
    founder    BIGINT NOT NULL                            -- The one node that may bring it into being.
);

-- Nodes that were numbered. A number is never given twice.
CREATE TABLE raft_node (
    node_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    addr    TEXT        NOT NULL,              -- Where its peers reach it.
    seen    TIMESTAMPTZ NOT NULL DEFAULT now() -- When it last said so.
);

-- The fence: the latest leader. Each transaction of a leader shares this row and so holds off the next.
CREATE TABLE leader_epoch (
    one        BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    generation BIGINT NOT NULL,
    term       BIGINT NOT NULL,
    node       BIGINT NOT NULL
) WITH (fillfactor = 10);

INSERT INTO leader_epoch (generation, term, node) VALUES (0, 0, 0);
