-- The organiser's system of record: venues, their plans, events and prices. Publishing copies a version into the store.

CREATE TABLE venues (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE CHECK (name <> '')
);

CREATE TABLE events (
    id bigint PRIMARY KEY CHECK (id BETWEEN 0 AND 4294967295),
    venue_id bigint NOT NULL REFERENCES venues,
    title text NOT NULL,
    version bigint NOT NULL CHECK (version >= 0),
    starts_at_ms bigint NOT NULL,
    on_sale_at_ms bigint NOT NULL,
    currency char(3) NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    status text NOT NULL CHECK (status IN ('scheduled', 'closed', 'cancelled')),
    seat_map_version bigint NOT NULL,
    record jsonb NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE venue_sections (
    event_id bigint NOT NULL REFERENCES events ON DELETE CASCADE,
    section_id int NOT NULL CHECK (section_id BETWEEN 0 AND 65535),
    seat_map_version bigint NOT NULL,
    name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('seated', 'standing')),
    tier int NOT NULL CHECK (tier >= 0),
    capacity bigint NOT NULL CHECK (capacity > 0),
    plan jsonb NOT NULL,
    PRIMARY KEY (event_id, section_id),
    UNIQUE (event_id, name)
);

CREATE TABLE seats (
    event_id bigint NOT NULL,
    section_id int NOT NULL,
    seat_id bigint NOT NULL CHECK (seat_id >= 0),
    row_label text NOT NULL,
    label text NOT NULL,
    accessible boolean NOT NULL,
    PRIMARY KEY (event_id, section_id, seat_id),
    UNIQUE (event_id, section_id, row_label, label),
    FOREIGN KEY (event_id, section_id) REFERENCES venue_sections ON DELETE CASCADE
);

CREATE TABLE event_pricing (
    event_id bigint NOT NULL REFERENCES events ON DELETE CASCADE,
    tier int NOT NULL CHECK (tier >= 0),
    name text NOT NULL,
    base_minor bigint NOT NULL CHECK (base_minor >= 0),
    PRIMARY KEY (event_id, tier)
);

CREATE TABLE promotions (
    event_id bigint NOT NULL REFERENCES events ON DELETE CASCADE,
    code text NOT NULL CHECK (code <> ''),
    discount_bps int NOT NULL CHECK (discount_bps BETWEEN 0 AND 10000),
    cap bigint NOT NULL CHECK (cap >= 0),
    PRIMARY KEY (event_id, code)
);
