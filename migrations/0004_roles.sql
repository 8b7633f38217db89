-- Who may do what. Roles belong to the whole server, so they are made only once, and each has its time-outs: a forgotten
-- transaction must not hold a lock that a webhook waits for. The role that runs the migrations owns the tables; `encore_owner`
-- is for operators.

DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['encore_owner', 'encore_buy', 'encore_webhook', 'encore_relay', 'encore_browse'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I LOGIN', wanted);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- another database of this server was first
            END;
        END IF;
        EXECUTE format('ALTER ROLE %I IN DATABASE %I SET statement_timeout = %L', wanted, current_database(),
            CASE wanted WHEN 'encore_owner' THEN '30s' WHEN 'encore_relay' THEN '10s' ELSE '3s' END);
        EXECUTE format('ALTER ROLE %I IN DATABASE %I SET lock_timeout = %L', wanted, current_database(),
            CASE wanted WHEN 'encore_owner' THEN '10s' ELSE '2s' END);
        EXECUTE format('ALTER ROLE %I IN DATABASE %I SET idle_in_transaction_session_timeout = %L', wanted,
            current_database(), '5s');
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), wanted);
        EXECUTE format('GRANT USAGE ON SCHEMA public TO %I', wanted);
    END LOOP;
END
$$;

REVOKE CREATE ON SCHEMA public FROM PUBLIC;

GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO encore_owner;

-- buy: begins payments and reads what fans own.
GRANT SELECT, INSERT ON payments, outbox TO encore_buy;
GRANT SELECT ON refunds, bookings, booking_seats, tickets, notifications TO encore_buy;

-- webhook: writes down what the provider says.
GRANT SELECT, UPDATE ON payments TO encore_webhook;
GRANT SELECT, INSERT ON processed_webhooks, payment_outcomes, outbox TO encore_webhook;
GRANT SELECT, INSERT, UPDATE ON refunds, incidents TO encore_webhook;
GRANT SELECT, UPDATE ON bookings, booking_seats, tickets TO encore_webhook;

-- relay: settles, issues, refunds, tells. It never invents a payment and never touches the catalogue.
GRANT SELECT, UPDATE ON payments TO encore_relay;
GRANT SELECT, INSERT ON processed_webhooks, payment_outcomes, bookings, inbox TO encore_relay;
GRANT SELECT, INSERT, UPDATE ON booking_seats, tickets, refunds, outbox, notifications, incidents TO encore_relay;
GRANT SELECT, INSERT, DELETE ON deliveries TO encore_relay;
GRANT SELECT ON events, venue_sections, seats, event_pricing, promotions, venues TO encore_relay;

-- browse: looks.
GRANT SELECT ON venues, events, venue_sections, seats, event_pricing, promotions TO encore_browse;
