-- What nodes tell of themselves with every beat, so that work can be spread. Here there is one node, and no cluster.
ALTER TABLE session ADD COLUMN delivers INTEGER NOT NULL DEFAULT 1; -- Whether it may be given claims.
ALTER TABLE session ADD COLUMN peer     INTEGER;                    -- Its number in the cluster, where it has one.
ALTER TABLE session ADD COLUMN pending  INTEGER NOT NULL DEFAULT 0; -- How many triggers it holds.
