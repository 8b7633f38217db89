-- What follows from money: facts on their way (outbox, deliveries), facts that were handled (inbox), messages, incidents.

CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text NOT NULL,
    key text NOT NULL,
    payload jsonb NOT NULL,
    created_at_ms bigint NOT NULL,
    published_at_ms bigint
);
CREATE INDEX outbox_unpublished ON outbox (id) WHERE published_at_ms IS NULL;

-- PostgreSQL as the carrier: what each consumer still has to handle.
CREATE TABLE deliveries (
    consumer text NOT NULL,
    outbox_id bigint NOT NULL REFERENCES outbox,
    PRIMARY KEY (consumer, outbox_id)
);

CREATE TABLE inbox (
    consumer text NOT NULL,
    message_id bigint NOT NULL CHECK (message_id >= 0),
    handled_at_ms bigint NOT NULL,
    PRIMARY KEY (consumer, message_id)
);

CREATE TABLE notifications (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- One message about one thing.
    dedupe text NOT NULL UNIQUE,
    user_id text NOT NULL,
    email text,
    kind text NOT NULL,
    payload jsonb NOT NULL,
    state text NOT NULL DEFAULT 'PENDING' CHECK (state IN ('PENDING', 'SENT', 'DEAD')),
    tries int NOT NULL DEFAULT 0 CHECK (tries >= 0),
    due_at_ms bigint NOT NULL,
    error text,
    created_at_ms bigint NOT NULL,
    sent_at_ms bigint
);
CREATE INDEX notifications_due ON notifications (due_at_ms) WHERE state = 'PENDING';
CREATE INDEX notifications_dead ON notifications (id) WHERE state = 'DEAD';
CREATE INDEX notifications_of_user ON notifications (user_id, id DESC);

CREATE TABLE incidents (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    subject text NOT NULL,
    detail jsonb NOT NULL,
    -- An unknown reference becomes an incident only when it stays unknown.
    opens_at_ms bigint NOT NULL,
    closed_at_ms bigint
);
CREATE UNIQUE INDEX incidents_one_open ON incidents (kind, subject) WHERE closed_at_ms IS NULL;
