-- Removing a device from a ticket gives the ticket another secret: what the device kept makes no valid code any more. The
-- version tells the devices that remain, and the gates, that theirs is old. The buy plane may change nothing else of a ticket.

ALTER TABLE tickets ADD COLUMN secret_version int NOT NULL DEFAULT 1 CHECK (secret_version > 0);
ALTER TABLE ticket_devices ADD COLUMN secret_version int NOT NULL DEFAULT 1 CHECK (secret_version > 0);

GRANT UPDATE (sealed_secret, secret_version) ON tickets TO encore_buy;
GRANT DELETE ON ticket_devices TO encore_buy;
