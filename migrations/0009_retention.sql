-- What was handled long ago is removed, a little at a time, by the relay. How long each is kept stands in domain/src/limits.rs.

GRANT DELETE ON outbox, inbox, processed_webhooks TO encore_relay;

CREATE INDEX outbox_published ON outbox (published_at_ms) WHERE published_at_ms IS NOT NULL;
CREATE INDEX deliveries_of_fact ON deliveries (outbox_id);
CREATE INDEX inbox_handled ON inbox (handled_at_ms);
CREATE INDEX processed_webhooks_received ON processed_webhooks (received_at_ms);
