//! PostgreSQL with row locks: the transaction that a careful engineer would write for the same promise. An idempotency row
//! that keeps the answer, seats locked in one order, one open checkout a fan and one live owner a seat by partial unique
//! indexes, and an outbox row, committed synchronously.

use crate::contender::{Contender, Failure, Verdict};
use crate::workload::{Attempt, Hall};
use futures::future::BoxFuture;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Executor, Row};
use std::fmt::Display;
use std::time::Duration;

const SCHEMA: &str = "
CREATE TABLE seats (sale int, section int, seat int, state text NOT NULL DEFAULT 'free', PRIMARY KEY (sale, section, seat));
CREATE TABLE keys (sale int, fan text, key text, fingerprint bytea NOT NULL, answer text, PRIMARY KEY (sale, fan, key));
CREATE TABLE reservations (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sale int NOT NULL, fan text NOT NULL,
    status text NOT NULL, deadline timestamptz NOT NULL, pass text NOT NULL, total_minor bigint NOT NULL, UNIQUE (sale, pass));
CREATE UNIQUE INDEX one_open_checkout ON reservations (sale, fan) WHERE status = 'held';
CREATE TABLE reservation_seats (reservation bigint NOT NULL REFERENCES reservations, sale int NOT NULL, section int NOT NULL,
    seat int NOT NULL, price_minor bigint NOT NULL, live boolean NOT NULL DEFAULT true,
    PRIMARY KEY (reservation, section, seat));
CREATE UNIQUE INDEX one_live_owner ON reservation_seats (sale, section, seat) WHERE live;
CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text NOT NULL, payload jsonb NOT NULL);
";

const PRICE_MINOR: i64 = 5_000;

/// A PostgreSQL server.
pub struct Postgres {
    pool: PgPool,
}

impl Postgres {
    /// Over an empty database, with so many connections.
    pub async fn connect(url: &str, connections: u32) -> Result<Self, Failure> {
        let options = PgPoolOptions::new().max_connections(connections).acquire_timeout(Duration::from_secs(60));
        let pool = options.connect(url).await.map_err(failure)?;
        pool.execute(SCHEMA).await.map_err(failure)?;
        Ok(Self { pool })
    }

    async fn fill(&self, sale: u32, hall: Hall) -> Result<(), Failure> {
        let fill = "INSERT INTO seats (sale, section, seat) SELECT $1, section, seat \
                    FROM generate_series(0, $2) section, generate_series(0, $3) seat";
        let (sale, section, seat) = (sale as i32, i32::from(hall.sections) - 1, hall.seats as i32 - 1);
        sqlx::query(fill).bind(sale).bind(section).bind(seat).execute(&self.pool).await.map_err(failure)?;
        self.pool.execute("ANALYZE seats").await.map_err(failure)?;
        Ok(())
    }

    async fn transact(&self, sale: u32, attempt: Attempt) -> Result<Verdict, sqlx::Error> {
        let sale = sale as i32;
        let (fan, key) = (format!("fan-{}", attempt.number), format!("key-{}", attempt.number));
        let sections: Vec<i32> = attempt.seats.iter().map(|place| i32::from(place.section)).collect();
        let seats: Vec<i32> = attempt.seats.iter().map(|place| place.seat as i32).collect();
        let mut transaction = self.pool.begin().await?;
        let claim = "INSERT INTO keys (sale, fan, key, fingerprint) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        sqlx::query(claim)
            .bind(sale)
            .bind(&fan)
            .bind(&key)
            .bind([0u8; 16].as_slice())
            .execute(&mut *transaction)
            .await?;
        let lock = "SELECT state FROM seats WHERE sale = $1 AND (section, seat) IN \
                    (SELECT * FROM unnest($2::int[], $3::int[])) ORDER BY section, seat FOR UPDATE";
        let locked = sqlx::query(lock).bind(sale).bind(&sections).bind(&seats).fetch_all(&mut *transaction).await?;
        let free = locked.len() == seats.len() && locked.iter().all(|row| row.get::<&str, _>(0) == "free");
        if free {
            let reserve = "INSERT INTO reservations (sale, fan, status, deadline, pass, total_minor) \
                           VALUES ($1, $2, 'held', now() + interval '10 minutes', $3, $4) RETURNING id";
            let pass = format!("pass-{}", attempt.number);
            let total = PRICE_MINOR * seats.len() as i64;
            let reserve = sqlx::query(reserve).bind(sale).bind(&fan).bind(&pass).bind(total);
            let reservation: i64 = reserve.fetch_one(&mut *transaction).await?.get(0);
            let items = "INSERT INTO reservation_seats (reservation, sale, section, seat, price_minor) \
                         SELECT $1, $2, section, seat, $5 FROM unnest($3::int[], $4::int[]) AS wanted (section, seat)";
            let items = sqlx::query(items).bind(reservation).bind(sale).bind(&sections).bind(&seats).bind(PRICE_MINOR);
            items.execute(&mut *transaction).await?;
            let take = "UPDATE seats SET state = 'held' WHERE sale = $1 AND (section, seat) IN \
                        (SELECT * FROM unnest($2::int[], $3::int[]))";
            sqlx::query(take).bind(sale).bind(&sections).bind(&seats).execute(&mut *transaction).await?;
            let tell =
                "INSERT INTO outbox (topic, payload) VALUES ('held', jsonb_build_object('reservation', $1::bigint))";
            sqlx::query(tell).bind(reservation).execute(&mut *transaction).await?;
        }
        let answer = if free { "held" } else { "taken" };
        let keep = "UPDATE keys SET answer = $4 WHERE sale = $1 AND fan = $2 AND key = $3";
        sqlx::query(keep).bind(sale).bind(&fan).bind(&key).bind(answer).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(if free { Verdict::Granted } else { Verdict::Refused })
    }
}

impl Contender for Postgres {
    fn name(&self) -> String {
        "PostgreSQL row locks".to_owned()
    }

    fn open(&self, sale: u32, hall: Hall) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.fill(sale, hall))
    }

    fn hold(&self, sale: u32, attempt: Attempt) -> BoxFuture<'_, Result<Verdict, Failure>> {
        Box::pin(async move { self.transact(sale, attempt).await.map_err(failure) })
    }
}

fn failure(error: impl Display) -> Failure {
    Failure { contender: "PostgreSQL", reason: error.to_string() }
}
