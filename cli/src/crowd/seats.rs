//! How a fan looks at the hall: picks a section, sees what is free, and wants neighbours.

use crate::fan::{Fan, Seat, read};
use anyhow::{Context, Result};
use rand::Rng;
use rand::rngs::StdRng;
use reqwest::Client;
use serde_json::Value;

/// The hall as its layout says.
pub struct Hall {
    /// Its event.
    pub event: u32,
    sections: Vec<Section>,
}

struct Section {
    name: String,
    /// Seats in plan order; true where the next seat of the list is no neighbour.
    seats: Vec<(Seat, bool)>,
}

impl Hall {
    /// Ask the browse plane.
    pub async fn load(http: &Client, browse: &str, event: u32) -> Result<Self> {
        let layout =
            read(http.get(format!("{browse}/api/v1/events/{event}/layout")).send().await?).await?.expect(200)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut sections = Vec::new();
        for section in list(&layout.body["sections"]) {
            let name = text(&section["section"]);
            let mut seats = Vec::new();
            for row in list(&section["rows"]) {
                let places = list(&row["seats"]);
                let last = places.len().saturating_sub(1);
                for (at, place) in places.iter().enumerate() {
                    let seat = (name.clone(), text(&row["row"]), text(&place["seat"]));
                    seats.push((seat, at == last || place["aisle_after"] == true));
                }
            }
            if !seats.is_empty() {
                sections.push(Section { name, seats });
            }
        }
        anyhow::ensure!(!sections.is_empty(), "the layout of event {event} has no seats");
        Ok(Self { event, sections })
    }

    /// Look at one section and choose `count` free neighbours, or fewer when there are not so many. `None`: nothing
    /// free was seen.
    pub async fn choose(&self, fan: &Fan, count: usize, random: &mut StdRng) -> Result<Option<Vec<Seat>>> {
        let first = random.random_range(0..self.sections.len());
        for offset in 0..self.sections.len() {
            let section = &self.sections[(first + offset) % self.sections.len()];
            let name = section.name.replace(' ', "%20").replace('&', "%26");
            let path = format!("/api/v1/events/{}/seats?section={name}", self.event);
            let answer = fan.browse(&path).await?.expect(200)?;
            let states = answer.body["seats"].as_array().context("a section lists its seats")?;
            let free: Vec<bool> = states.iter().map(|seat| seat["status"] == "free").collect();
            if let Some(seats) = section.pick(&free, count, random) {
                return Ok(Some(seats));
            }
        }
        Ok(None)
    }
}

impl Section {
    fn pick(&self, free: &[bool], count: usize, random: &mut StdRng) -> Option<Vec<Seat>> {
        let mut runs: Vec<Vec<usize>> = Vec::new();
        let mut run = Vec::new();
        for (at, (_, ends)) in self.seats.iter().enumerate() {
            if free.get(at) == Some(&true) {
                run.push(at);
            }
            if *ends || free.get(at) != Some(&true) {
                runs.push(std::mem::take(&mut run));
            }
        }
        let most = runs.iter().map(Vec::len).max().unwrap_or(0).min(count);
        if most == 0 {
            return None;
        }
        let fitting: Vec<&Vec<usize>> = runs.iter().filter(|run| run.len() >= most).collect();
        // Everybody wants the front: the first rows collide most, as they do in life.
        let bias = random.random::<f64>().powi(2);
        let run = fitting[((fitting.len() - 1) as f64 * bias) as usize];
        let start = random.random_range(0..=run.len() - most);
        Some(run[start..start + most].iter().map(|at| self.seats[*at].0.clone()).collect())
    }
}
