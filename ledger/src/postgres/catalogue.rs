//! The catalogue in SQL.

use super::rows::{get, json, ms, to_json};
use super::{Postgres, error, transaction};
use crate::catalogue::{Catalogue, Promotion, Publication, PublishOutcome};
use crate::{LedgerError, Result};
use domain::ids::{EventId, SeatIndex};
use domain::inventory::record::SectionKind;
use domain::inventory::{EventRecord, SectionPlan};
use sqlx::PgConnection;

impl Catalogue for Postgres {
    async fn publish(&self, publication: &Publication) -> Result<PublishOutcome> {
        let publication = publication.clone();
        transaction!(self, |connection| publish(connection, &publication).await?)
    }

    async fn events(&self) -> Result<Vec<EventRecord>> {
        let found = sqlx::query("SELECT record FROM events ORDER BY id").fetch_all(&self.pool).await.map_err(error)?;
        found.iter().map(|row| json(row, "record")).collect()
    }

    async fn publication(&self, event: EventId) -> Result<Option<Publication>> {
        let id = i64::from(event.0);
        let record = sqlx::query("SELECT record FROM events WHERE id = $1")
            .bind(id)
            .fetch_optional(&self.pool)
            .await
            .map_err(error)?;
        let Some(record) = record else { return Ok(None) };
        let plans = sqlx::query("SELECT plan FROM venue_sections WHERE event_id = $1 ORDER BY section_id")
            .bind(id)
            .fetch_all(&self.pool)
            .await
            .map_err(error)?;
        let promotions = sqlx::query("SELECT * FROM promotions WHERE event_id = $1 ORDER BY code")
            .bind(id)
            .fetch_all(&self.pool)
            .await
            .map_err(error)?;
        let promotion = |row| {
            Ok(Promotion {
                code: super::rows::parsed(row, "code")?,
                discount_bps: u16::try_from(get::<i32>(row, "discount_bps")?).map_err(LedgerError::inconsistent)?,
                cap: u32::try_from(get::<i64>(row, "cap")?).map_err(LedgerError::inconsistent)?,
            })
        };
        Ok(Some(Publication {
            event: json(&record, "record")?,
            plans: plans.iter().map(|row| json(row, "plan")).collect::<Result<_>>()?,
            promotions: promotions.iter().map(promotion).collect::<Result<_>>()?,
        }))
    }
}

async fn publish(connection: &mut PgConnection, publication: &Publication) -> Result<PublishOutcome> {
    let event = &publication.event;
    let version = i64::try_from(event.version).map_err(LedgerError::inconsistent)?;
    let current = sqlx::query("SELECT version FROM events WHERE id = $1 FOR UPDATE")
        .bind(i64::from(event.id.0))
        .fetch_optional(&mut *connection)
        .await
        .map_err(error)?;
    if let Some(row) = current {
        let current: i64 = get(&row, "version")?;
        if current == version {
            return Ok(PublishOutcome::Unchanged);
        }
        if current > version {
            return Ok(PublishOutcome::Older { current: u64::try_from(current).map_err(LedgerError::inconsistent)? });
        }
    }
    write_event(connection, event, version).await?;
    write_prices(connection, publication).await?;
    for plan in &publication.plans {
        write_section(connection, event, plan).await?;
    }
    Ok(PublishOutcome::Published)
}

async fn write_event(connection: &mut PgConnection, event: &EventRecord, version: i64) -> Result<()> {
    sqlx::query("INSERT INTO venues (name) VALUES ($1) ON CONFLICT DO NOTHING")
        .bind(&event.venue)
        .execute(&mut *connection)
        .await
        .map_err(error)?;
    let status = to_json(&event.status)?;
    sqlx::query(
        "INSERT INTO events (id, venue_id, title, version, starts_at_ms, on_sale_at_ms, currency, status,
             seat_map_version, record)
         SELECT $1, v.id, $3, $4, $5, $6, $7, $8, $9, $10 FROM venues v WHERE v.name = $2
         ON CONFLICT (id) DO UPDATE SET venue_id = EXCLUDED.venue_id, title = EXCLUDED.title,
             version = EXCLUDED.version, starts_at_ms = EXCLUDED.starts_at_ms,
             on_sale_at_ms = EXCLUDED.on_sale_at_ms, currency = EXCLUDED.currency, status = EXCLUDED.status,
             seat_map_version = EXCLUDED.seat_map_version, record = EXCLUDED.record, published_at = now()",
    )
    .bind(i64::from(event.id.0))
    .bind(&event.venue)
    .bind(&event.title)
    .bind(version)
    .bind(ms(event.starts_at))
    .bind(ms(event.on_sale_at))
    .bind(event.currency.code())
    .bind(status.as_str().unwrap_or_default())
    .bind(i64::from(event.plan_version))
    .bind(to_json(event)?)
    .execute(connection)
    .await
    .map_err(error)?;
    Ok(())
}

async fn write_prices(connection: &mut PgConnection, publication: &Publication) -> Result<()> {
    let id = i64::from(publication.event.id.0);
    for statement in [
        "DELETE FROM event_pricing WHERE event_id = $1",
        "DELETE FROM promotions WHERE event_id = $1",
        "DELETE FROM venue_sections WHERE event_id = $1",
    ] {
        sqlx::query(statement).bind(id).execute(&mut *connection).await.map_err(error)?;
    }
    for (tier, price) in (0_i32..).zip(&publication.event.tiers) {
        sqlx::query("INSERT INTO event_pricing (event_id, tier, name, base_minor) VALUES ($1, $2, $3, $4)")
            .bind(id)
            .bind(tier)
            .bind(&price.name)
            .bind(price.base.0)
            .execute(&mut *connection)
            .await
            .map_err(error)?;
    }
    for promotion in &publication.promotions {
        sqlx::query("INSERT INTO promotions (event_id, code, discount_bps, cap) VALUES ($1, $2, $3, $4)")
            .bind(id)
            .bind(promotion.code.as_str())
            .bind(i32::from(promotion.discount_bps))
            .bind(i64::from(promotion.cap))
            .execute(&mut *connection)
            .await
            .map_err(error)?;
    }
    Ok(())
}

async fn write_section(connection: &mut PgConnection, event: &EventRecord, plan: &SectionPlan) -> Result<()> {
    let (id, section) = (i64::from(event.id.0), i32::from(plan.section.0));
    sqlx::query(
        "INSERT INTO venue_sections (event_id, section_id, seat_map_version, name, kind, tier, capacity, plan)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(id)
    .bind(section)
    .bind(i64::from(event.plan_version))
    .bind(&plan.name)
    .bind(if plan.kind == SectionKind::Standing { "standing" } else { "seated" })
    .bind(i32::from(plan.tier))
    .bind(i64::from(plan.capacity))
    .bind(to_json(plan)?)
    .execute(&mut *connection)
    .await
    .map_err(error)?;
    let (mut ids, mut rows, mut labels, mut accessible) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut flags = plan.rows.iter().flat_map(|row| &row.seats).map(|seat| seat.accessible);
    for index in 0..plan.capacity {
        let Some((row, label)) = plan.labels(SeatIndex(index)) else {
            return Err(LedgerError::Inconsistent(format!("section {} has fewer seats than it says", plan.name)));
        };
        ids.push(i64::from(index));
        rows.push(row.to_owned());
        labels.push(label);
        accessible.push(flags.next().unwrap_or(false));
    }
    sqlx::query(
        "INSERT INTO seats (event_id, section_id, seat_id, row_label, label, accessible)
         SELECT $1, $2, s.* FROM unnest($3::bigint[], $4::text[], $5::text[], $6::boolean[]) AS s",
    )
    .bind(id)
    .bind(section)
    .bind(&ids)
    .bind(&rows)
    .bind(&labels)
    .bind(&accessible)
    .execute(connection)
    .await
    .map_err(error)?;
    Ok(())
}
