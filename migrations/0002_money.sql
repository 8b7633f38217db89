-- Payments, bookings, tickets and refunds. The constraints carry the promises: a seat has one live booking, a booking one
-- payment, a payment one outcome, a seat of a booking one ticket. Amounts are minor units of their currency.

CREATE TABLE payments (
    id text PRIMARY KEY,
    reservation text NOT NULL,
    event_id bigint NOT NULL,
    user_id text NOT NULL,
    email text,
    idempotency_key text NOT NULL,
    fingerprint text NOT NULL,
    method text NOT NULL,
    token text,
    amount_minor bigint NOT NULL CHECK (amount_minor >= 0),
    currency char(3) NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    lines jsonb NOT NULL,
    retry_declined boolean NOT NULL,
    state text NOT NULL CHECK (state IN
        ('INITIALIZING', 'PENDING', 'CAPTURED', 'SUCCEEDED', 'FAILED', 'REFUND_REQUIRED', 'REFUNDED')),
    reference text UNIQUE,
    client_secret text,
    captured_minor bigint CHECK (captured_minor >= 0),
    captured_currency char(3),
    failure text,
    tries int NOT NULL DEFAULT 0 CHECK (tries >= 0),
    due_at_ms bigint NOT NULL,
    release_due boolean NOT NULL DEFAULT false,
    created_at_ms bigint NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (user_id, idempotency_key),
    CHECK ((captured_minor IS NULL) = (captured_currency IS NULL)),
    CHECK (state NOT IN ('CAPTURED', 'SUCCEEDED', 'REFUND_REQUIRED', 'REFUNDED') OR captured_minor IS NOT NULL),
    CHECK (state <> 'PENDING' OR reference IS NOT NULL)
);

-- Two attempts for one reservation at the same time would be two charges.
CREATE UNIQUE INDEX payments_one_open_per_reservation ON payments (reservation)
    WHERE state IN ('INITIALIZING', 'PENDING');
CREATE INDEX payments_of_reservation ON payments (reservation, created_at_ms);
CREATE INDEX payments_of_event ON payments (event_id);
CREATE INDEX payments_open ON payments (created_at_ms) WHERE state IN ('INITIALIZING', 'PENDING', 'CAPTURED');
CREATE INDEX payments_to_release ON payments (created_at_ms) WHERE release_due;

-- The first outcome wins: this key is the constraint.
CREATE TABLE payment_outcomes (
    payment_id text PRIMARY KEY REFERENCES payments,
    outcome text NOT NULL CHECK (outcome IN ('PAID', 'REFUND')),
    decided_at_ms bigint NOT NULL,
    UNIQUE (payment_id, outcome)
);

CREATE TABLE processed_webhooks (
    event_id text PRIMARY KEY,
    kind text NOT NULL,
    fingerprint text NOT NULL,
    payment_id text REFERENCES payments,
    received_at_ms bigint NOT NULL
);

CREATE TABLE bookings (
    id text PRIMARY KEY,
    reservation text NOT NULL UNIQUE,
    payment_id text NOT NULL UNIQUE,
    outcome text NOT NULL DEFAULT 'PAID' CHECK (outcome = 'PAID'),
    event_id bigint NOT NULL,
    user_id text NOT NULL,
    amount_minor bigint NOT NULL CHECK (amount_minor >= 0),
    currency char(3) NOT NULL,
    created_at_ms bigint NOT NULL,
    FOREIGN KEY (payment_id, outcome) REFERENCES payment_outcomes (payment_id, outcome)
);
CREATE INDEX bookings_of_user ON bookings (user_id);

CREATE TABLE booking_seats (
    booking_id text NOT NULL REFERENCES bookings,
    event_id bigint NOT NULL,
    section_id int NOT NULL,
    seat_id bigint NOT NULL,
    section text NOT NULL,
    row_label text NOT NULL,
    label text NOT NULL,
    price_minor bigint NOT NULL CHECK (price_minor >= 0),
    live boolean NOT NULL DEFAULT true,
    PRIMARY KEY (booking_id, section_id, seat_id)
);

-- The second guard of "one live owner"; the first is the store.
CREATE UNIQUE INDEX booking_seats_one_live_owner ON booking_seats (event_id, section_id, seat_id) WHERE live;

CREATE TABLE tickets (
    id text PRIMARY KEY,
    booking_id text NOT NULL,
    section_id int NOT NULL,
    seat_id bigint NOT NULL,
    user_id text NOT NULL,
    sealed_secret bytea NOT NULL,
    issued_at_ms bigint NOT NULL,
    revoked_at_ms bigint,
    UNIQUE (booking_id, section_id, seat_id),
    FOREIGN KEY (booking_id, section_id, seat_id) REFERENCES booking_seats
);
CREATE INDEX tickets_of_user ON tickets (user_id, issued_at_ms DESC);

CREATE TABLE refunds (
    id text PRIMARY KEY,
    payment_id text NOT NULL REFERENCES payments,
    sequence int NOT NULL CHECK (sequence > 0),
    amount_minor bigint NOT NULL CHECK (amount_minor >= 0),
    currency char(3) NOT NULL,
    reason text NOT NULL,
    state text NOT NULL CHECK (state IN ('REQUIRED', 'SENT', 'SUCCEEDED', 'FAILED')),
    reference text UNIQUE,
    seats jsonb,
    return_due boolean NOT NULL DEFAULT false,
    tries int NOT NULL DEFAULT 0 CHECK (tries >= 0),
    due_at_ms bigint NOT NULL,
    created_at_ms bigint NOT NULL,
    UNIQUE (payment_id, sequence),
    CHECK (NOT return_due OR seats IS NOT NULL)
);
CREATE INDEX refunds_unfinished ON refunds (due_at_ms) WHERE state IN ('REQUIRED', 'SENT');
CREATE INDEX refunds_to_return ON refunds (created_at_ms) WHERE return_due;
