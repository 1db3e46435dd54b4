-- Scripts of DDL for TestCaptureDDL, each about a table $t (id INT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20),
-- c DECIMAL(10,2), n INT) with rows. Behind every statement rows are inserted, deleted, and their n is changed.
-- "touch" changes every row, where the server fills in values without events. "incomplete" says that the days
-- are incomplete from there on.

-- add
ALTER TABLE $t ADD COLUMN x VARCHAR(10)
-- add, first and after
ALTER TABLE $t ADD x INT FIRST, ADD COLUMN y TEXT AFTER a
-- add, with a default (touch)
ALTER TABLE $t ADD x INT NOT NULL DEFAULT 5
-- add several
ALTER TABLE $t ADD (x INT, y VARCHAR(5)), ADD INDEX (x), ADD COLUMN IF NOT EXISTS x TEXT
-- drop
ALTER TABLE $t DROP COLUMN b
-- drop two, with options
ALTER TABLE $t DROP b, DROP COLUMN IF EXISTS nothing, DROP c, ALGORITHM=COPY
-- rename by CHANGE
ALTER TABLE $t CHANGE a x VARCHAR(20)
-- rename by RENAME COLUMN
ALTER TABLE $t RENAME COLUMN a TO x, RENAME COLUMN c TO `an odd name`
-- rename and lengthen
ALTER TABLE $t CHANGE COLUMN a x VARCHAR(200) NULL COMMENT 'was a, drop b' AFTER c
-- names change places
ALTER TABLE $t CHANGE a b VARCHAR(20), CHANGE b a VARCHAR(20)
-- a name goes round
ALTER TABLE $t RENAME COLUMN a TO x
ALTER TABLE $t RENAME COLUMN x TO y
ALTER TABLE $t RENAME COLUMN y TO a
-- a name is used again
ALTER TABLE $t RENAME COLUMN a TO x
ALTER TABLE $t ADD a VARCHAR(20)
-- dropped and added in one
ALTER TABLE $t DROP b, ADD b VARCHAR(9)
-- dropped, and added later
ALTER TABLE $t DROP b
ALTER TABLE $t ADD b VARCHAR(20)
-- longer text
ALTER TABLE $t MODIFY a VARCHAR(100), MODIFY b MEDIUMTEXT
-- narrower types (touch)
ALTER TABLE $t MODIFY a VARCHAR(19), MODIFY c DECIMAL(9,2)
-- reordered
ALTER TABLE $t MODIFY b VARCHAR(20) FIRST, MODIFY n INT AFTER b
-- another charset
ALTER TABLE $t CONVERT TO CHARACTER SET latin1
ALTER TABLE $t DEFAULT CHARSET utf8mb4
-- another default
ALTER TABLE $t ALTER a SET DEFAULT 'x', ALTER COLUMN b DROP DEFAULT, MODIFY c DECIMAL(10,2) DEFAULT 1.5
-- indexes
CREATE UNIQUE INDEX k ON $t (n, id)
ALTER TABLE $t ADD INDEX i (a), ADD CONSTRAINT u UNIQUE (b, id)
ALTER TABLE $t RENAME INDEX i TO j, DROP KEY k
DROP INDEX j ON $t
-- the table goes and comes back (incomplete)
RENAME TABLE $t TO $t_away; RENAME TABLE $t_away TO $t
-- truncated
TRUNCATE TABLE $t
-- gh-ost
CREATE TABLE _$t_gho LIKE $t
ALTER TABLE _$t_gho ADD x INT, DROP b
INSERT INTO _$t_gho (id, a, c, n) SELECT id, a, c, n FROM $t; RENAME TABLE $t TO _$t_del, _$t_gho TO $t
DROP TABLE IF EXISTS _$t_del
-- gh-ost, with a rename
CREATE TABLE _$t_gho LIKE $t; ALTER TABLE _$t_gho CHANGE b x VARCHAR(30); INSERT INTO _$t_gho SELECT * FROM $t; RENAME TABLE $t TO _$t_del, _$t_gho TO $t
DROP TABLE _$t_del
-- pt-online-schema-change
CREATE TABLE _$t_new (`id` int(11) NOT NULL, `a` varchar(20), `b` varchar(20), `c` decimal(10,2), `n` int(11), PRIMARY KEY (`id`)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
ALTER TABLE _$t_new DROP b, ADD x VARCHAR(7)
INSERT LOW_PRIORITY IGNORE INTO _$t_new (id, a, c, n) SELECT id, a, c, n FROM $t; RENAME TABLE `$t` TO `_$t_old`, `_$t_new` TO `$t`; DROP TABLE IF EXISTS `_$t_old`
-- rebuilds
ALTER TABLE $t ENGINE=InnoDB
ALTER TABLE $t FORCE
OPTIMIZE TABLE $t
-- comments that run
ALTER /* drop a */ TABLE $t /*!50100 ADD x INT, */ /*M!100100 ADD y INT, */ COMMENT='drop a, rename b'
-- invisible
ALTER TABLE $t ADD x INT INVISIBLE, ALTER COLUMN b SET DEFAULT 'b'
-- generated (touch)
ALTER TABLE $t ADD g INT AS (n * 2) STORED
-- partitions of the source
ALTER TABLE $t PARTITION BY HASH (id) PARTITIONS 3
ALTER TABLE $t ADD PARTITION PARTITIONS 2
ALTER TABLE $t REMOVE PARTITIONING
-- a partition is dropped (incomplete)
ALTER TABLE $t PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (0), PARTITION p1 VALUES LESS THAN MAXVALUE)
ALTER TABLE $t DROP PARTITION p0
-- a key that is made anew
ALTER TABLE $t DROP PRIMARY KEY, ADD PRIMARY KEY (id)
