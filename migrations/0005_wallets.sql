-- Devices that were given a ticket's secret: each once, a few a ticket, and any of them can be removed.

CREATE TABLE ticket_devices (
    ticket_id text NOT NULL REFERENCES tickets,
    device text NOT NULL CHECK (length(device) BETWEEN 1 AND 64),
    given_at_ms bigint NOT NULL,
    revoked_at_ms bigint,
    PRIMARY KEY (ticket_id, device)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON ticket_devices TO encore_owner;
GRANT SELECT, INSERT, UPDATE ON ticket_devices TO encore_buy;
