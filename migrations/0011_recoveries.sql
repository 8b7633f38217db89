-- Each time that a lost store was brought back: which incarnation its new reservations have, and from what. The store cannot
-- know: it is lost. A number is never given twice, so that no reservation's id is.

CREATE TABLE recoveries (
    incarnation integer PRIMARY KEY CHECK (incarnation BETWEEN 1 AND 65535),
    source bytea NOT NULL,
    begun_at_ms bigint NOT NULL
);

GRANT SELECT, INSERT ON recoveries TO encore_owner;
