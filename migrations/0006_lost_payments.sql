-- A payment that was given up while the provider was silent may have been charged nevertheless. Since when that is not
-- known; empty again once the provider has said what became of it.

ALTER TABLE payments ADD COLUMN lost_since_ms bigint;
CREATE INDEX payments_lost ON payments (lost_since_ms) WHERE lost_since_ms IS NOT NULL;
