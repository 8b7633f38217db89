-- An operator's wish to refund is one refund, however often it is repeated: who asked, under which key, for what.

ALTER TABLE refunds
    ADD COLUMN requested_by text,
    ADD COLUMN request_key text,
    ADD COLUMN request_fingerprint text,
    ADD CONSTRAINT refunds_one_per_request UNIQUE (requested_by, request_key),
    ADD CONSTRAINT refunds_request_in_full CHECK (num_nulls(requested_by, request_key, request_fingerprint) IN (0, 3));
