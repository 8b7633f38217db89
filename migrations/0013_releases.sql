-- That a failed payment took its reservation with it. A fact that stays: what is left to be done about it (`release_due`) ends
-- with the release, and nothing may be paid for after that.

ALTER TABLE payments ADD COLUMN released boolean NOT NULL DEFAULT false;
UPDATE payments SET released = true WHERE release_due OR (state = 'FAILED' AND NOT retry_declined);
