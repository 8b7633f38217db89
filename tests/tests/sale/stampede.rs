//! A stampede through two processes of the buy plane: no seat twice, no partial cart, as many holds as seats allow, and
//! every refusal names the seats that were taken.

use anyhow::{Context, Result};
use encore_tests::{Event, Sale, Seat};
use futures::future::try_join_all;
use std::collections::BTreeMap;

/// 200 fans ask at once for two neighbours each, among 60 seats: pair `n % 30`, so that every seat is wanted and most
/// are wanted by many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_fans_on_sixty_seats() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 6, 10)).start().await?;
    let fans = sale.fans_with_passes("fan", 200).await?;
    let wanted = |number: usize| -> Vec<Seat> {
        let pair = number % 30;
        let (row, first) = (pair / 5 + 1, (pair % 5) * 2 + 1);
        sale.row("Block 1", &row.to_string(), first as u32..=first as u32 + 1)
    };
    let asked = fans.iter().enumerate().map(|(number, (fan, pass))| {
        let seats = wanted(number);
        async move {
            let answer = fan.hold(1, &seats, pass, &format!("key-{number}")).await?;
            anyhow::Ok((fan, seats, answer))
        }
    });
    let answers = try_join_all(asked).await?;

    let mut owners: BTreeMap<Seat, &str> = BTreeMap::new();
    let mut granted = 0;
    for (fan, seats, answer) in &answers {
        match answer.status {
            201 => {
                granted += 1;
                assert_eq!(answer.body["seats"].as_array().map(Vec::len), Some(2), "a whole cart: {}", answer.body);
                assert_eq!(answer.text("status"), "held");
                for seat in seats {
                    let other = owners.insert(seat.clone(), &fan.name);
                    assert_eq!(other, None, "{seat:?} was given to {} as well", fan.name);
                }
            }
            409 => {
                assert_eq!(answer.error(), "SEAT_UNAVAILABLE", "{}", answer.body);
                let named = answer.body["unavailable_seats"].as_array().context("the refusal names seats")?;
                assert!(!named.is_empty(), "{}", answer.body);
                for seat in named {
                    assert!(
                        seats.iter().any(|(section, row, label)| {
                            seat["section"] == **section && seat["row"] == **row && seat["seat"] == **label
                        }),
                        "{seat} was not asked for: {seats:?}"
                    );
                }
                assert!(!answer.text("message").is_empty());
            }
            _ => panic!("{} was answered {}: {}", fan.name, answer.status, answer.body),
        }
    }
    assert_eq!(granted, 30, "every pair of seats finds a buyer");
    sale.shows("Block 1", (0, 60, 0, 0)).await?;
    sale.audit().await
}
