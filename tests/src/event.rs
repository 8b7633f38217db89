//! A small event for one test, as an organiser would write it.

use serde_json::{Value, json};

/// An event file in the making. Its number is 1 unless said otherwise; every seat costs 20.00 EUR.
#[derive(Clone, Debug)]
pub struct Event(Value);

impl Default for Event {
    fn default() -> Self {
        Self::new()
    }
}

impl Event {
    /// Without sections yet; on sale at once, holds of 120 s, at most 6 seats a fan.
    pub fn new() -> Self {
        Self(json!({
            "id": 1, "title": "Rehearsal", "venue": "Old Mill", "starts_at": "+40d", "on_sale_at": "now",
            "currency": "EUR", "hold_ttl_s": 120, "user_limit": 6,
            "queue": {"capacity": 1000, "mode": "fifo"},
            "tiers": [{"name": "Standard", "price_cents": 2000}],
            "sections": [], "promotions": [],
        }))
    }

    fn push(mut self, list: &str, value: Value) -> Self {
        if let Some(items) = self.0[list].as_array_mut() {
            items.push(value);
        }
        self
    }

    /// With any field of the event file set.
    pub fn with(mut self, field: &str, value: Value) -> Self {
        self.0[field] = value;
        self
    }

    /// With this number.
    pub fn number(self, id: u32) -> Self {
        self.with("id", json!(id))
    }

    /// With a seated section of this name: rows and seats are labelled from 1.
    pub fn section(self, name: &str, rows: u16, seats: u16) -> Self {
        // A generated section is named by a prefix and a number; `Stalls 1` is what is asked for here.
        let (prefix, first) = split(name);
        let generate = json!({
            "prefix": prefix, "first": first, "count": 1, "rows": rows, "seats": seats, "tier": "Standard", "columns": 1,
        });
        self.push("sections", json!({"generate": generate}))
    }

    /// With a standing area.
    pub fn standing(self, name: &str, capacity: u32) -> Self {
        self.push("sections", json!({"standing": {"name": name, "capacity": capacity, "tier": "Standard"}}))
    }

    /// With a promotion code.
    pub fn promotion(self, code: &str, discount_bps: u16, max_uses: u32) -> Self {
        self.push("promotions", json!({"code": code, "discount_bps": discount_bps, "max_uses": max_uses}))
    }

    /// With holds of this length.
    pub fn hold_ttl_s(self, seconds: u32) -> Self {
        self.with("hold_ttl_s", json!(seconds))
    }

    /// With at most this many seats a fan.
    pub fn user_limit(self, seats: u32) -> Self {
        self.with("user_limit", json!(seats))
    }

    /// With at most this many fans in checkout.
    pub fn capacity(mut self, fans: u32) -> Self {
        self.0["queue"]["capacity"] = json!(fans);
        self
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.0["id"].as_u64().and_then(|id| u32::try_from(id).ok()).unwrap_or(1)
    }

    /// The file's text.
    pub fn text(&self) -> String {
        self.0.to_string()
    }
}

/// `Block 12` → (`Block `, 12).
fn split(name: &str) -> (&str, u32) {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (prefix, number) = name.split_at(name.len() - digits);
    match number.parse() {
        Ok(number) => (prefix, number),
        Err(_) => panic!("a section of a test event ends in a number, such as `Block 1`; {name:?} does not"),
    }
}
