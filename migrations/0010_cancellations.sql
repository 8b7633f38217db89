-- Events that were called off, for good. What is owed for one is not listed here: it is every booking of it that is live,
-- until none is. The relay carries that out; nobody takes it back.

CREATE TABLE cancellations (
    event_id bigint PRIMARY KEY,
    requested_by text NOT NULL,
    requested_at_ms bigint NOT NULL,
    holds_ended boolean NOT NULL DEFAULT false
);
CREATE INDEX bookings_of_event ON bookings (event_id);

GRANT SELECT, INSERT ON cancellations TO encore_owner;
GRANT SELECT, UPDATE (holds_ended) ON cancellations TO encore_relay;
