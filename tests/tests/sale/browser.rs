//! The three pages in a real browser, by keyboard: look and wait, choose and pay, show the code at the gate.

use anyhow::{Context, Result, bail, ensure};
use encore_tests::{Event, Part, Sale, eventually};
use fantoccini::elements::Element;
use fantoccini::key::Key;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::json;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

const SOON: Duration = Duration::from_secs(20);

/// A browser that ends with this value.
struct Browser {
    page: Client,
    _driver: Child,
    _profile: tempfile::TempDir,
}

impl Browser {
    async fn open() -> Result<Self> {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("chromedriver did not start (on Debian: apt-get install chromium-driver)")?;
        let mut lines = BufReader::new(driver.stdout.take().context("its output")?).lines();
        let port = loop {
            let Some(line) = lines.next_line().await? else { bail!("chromedriver ended at once") };
            if let Some((_, rest)) = line.split_once("started successfully on port ") {
                break rest.trim_end_matches('.').trim().to_owned();
            }
        };
        let profile = tempfile::TempDir::with_prefix("encore-browser-")?;
        let options = json!({
            "args": [
                "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1200,1000",
                "--no-first-run", "--disable-background-networking",
                format!("--user-data-dir={}", profile.path().display()),
            ],
        });
        let capabilities = json!({"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}});
        let capabilities = capabilities.as_object().cloned().context("an object")?;
        let page = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await?;
        Ok(Self { page, _driver: driver, _profile: profile })
    }

    async fn at(&self, css: &str) -> Result<Element> {
        let found = self.page.wait().at_most(SOON).for_element(Locator::Css(css)).await;
        found.with_context(|| format!("{css} is not on the page"))
    }

    /// The page draws parts of itself anew whenever it likes, so what was found is looked up again until it holds still.
    async fn text(&self, css: &str) -> Result<String> {
        eventually(css, SOON, || async { Ok(self.at(css).await?.text().await?) }).await
    }

    async fn attr(&self, css: &str, name: &str) -> Result<Option<String>> {
        eventually(css, SOON, || async { Ok(self.at(css).await?.attr(name).await?) }).await
    }

    /// Wait until the text of an element says this.
    async fn says(&self, css: &str, words: &str) -> Result<()> {
        eventually(&format!("{css} says {words:?}"), SOON, || async {
            let text = self.text(css).await?;
            ensure!(text.contains(words), "it says {text:?}");
            Ok(())
        })
        .await
    }

    /// Wait until an attribute is this.
    async fn is(&self, css: &str, attribute: &str, wanted: &str) -> Result<()> {
        eventually(&format!("{css} has {attribute}={wanted:?}"), SOON, || async {
            let value = self.at(css).await?.attr(attribute).await?;
            ensure!(value.as_deref() == Some(wanted), "it is {value:?}");
            Ok(())
        })
        .await
    }

    /// Focus by script, act by keyboard, as somebody without a mouse does.
    async fn press(&self, css: &str, key: Key) -> Result<()> {
        eventually(&format!("{css} can be used"), SOON, || async {
            let element = self.at(css).await?;
            ensure!(element.is_enabled().await? && element.is_displayed().await?, "it cannot");
            Ok(())
        })
        .await?;
        // An element that was replaced between the two steps got no key, so that they can be done again.
        let mut tries = 3;
        loop {
            self.page.execute("document.querySelector(arguments[0]).focus()", vec![json!(css)]).await?;
            let focused = self.page.active_element().await?;
            tries -= 1;
            match focused.send_keys(&char::from(key).to_string()).await {
                Err(error) if tries > 0 && error.is_stale_element_reference() => {}
                sent => return Ok(sent?),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_the_seat_map_to_the_gate_by_keyboard() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 2, 6)).start().await?;
    let browser = Browser::open().await?;
    let (alice, bob) = (sale.fan("alice"), sale.fan("bob"));
    let home = sale.stack.url(Part::Browse);

    // The list, the event, its live map.
    browser.page.goto(&format!("{home}/#token={}", alice.token)).await?;
    browser.says("#events", "Rehearsal").await?;
    browser.press("#events a", Key::Enter).await?;
    browser.says("#title", "Rehearsal").await?;
    browser.is("#map", "aria-busy", "false").await?;
    browser.is("#live", "data-live", "on").await?;
    let seats = browser.page.find_all(Locator::Css("#map .seat")).await?;
    assert_eq!(seats.len(), 12);

    // Somebody else takes a seat, and the map shows it without being asked.
    let pass = sale.pass(&bob).await?;
    bob.hold(1, &sale.row("Block 1", "2", 6..=6), &pass, "bob").await?.expect(201)?;
    browser.is("#map .seat[aria-label*=\"row 2\"][aria-label*=\"seat 6\"]", "data-state", "held").await?;

    // The line, and two neighbours.
    browser.press("#join", Key::Enter).await?;
    browser.is("#queue", "data-state", "admitted").await?;
    browser.press("#map .seat[tabindex=\"0\"]", Key::Enter).await?;
    browser.page.active_element().await?.send_keys(&char::from(Key::Right).to_string()).await?;
    browser.page.active_element().await?.send_keys(" ").await?;
    eventually("two seats are chosen", SOON, || async {
        let chosen = browser.page.find_all(Locator::Css("#cart-seats li")).await?.len();
        ensure!(chosen == 2, "{chosen}");
        Ok(())
    })
    .await?;
    browser.press("#hold", Key::Enter).await?;

    // The checkout counts down.
    browser.is("#checkout", "data-state", "held").await?;
    let first = browser.text("#countdown").await?;
    eventually("the countdown moves", SOON, || async {
        let now = browser.text("#countdown").await?;
        ensure!(now != first && now.contains(':'), "{now}");
        Ok(())
    })
    .await?;
    browser.says("#total", "40").await?;
    browser.press("#pay-button", Key::Enter).await?;
    eventually("the order is done", Duration::from_secs(40), || async {
        ensure!(browser.at("#done").await?.is_displayed().await?, "{}", browser.text("#state").await?);
        Ok(())
    })
    .await?;
    browser.press("#done-link", Key::Enter).await?;

    // The tickets and their codes.
    eventually("two tickets with codes", Duration::from_secs(40), || async {
        let codes = browser.page.find_all(Locator::Css(".ticket .qr[data-code] svg")).await?.len();
        if codes != 2 {
            browser.page.refresh().await?;
            bail!("{codes} codes");
        }
        Ok(())
    })
    .await?;
    let code = browser.attr(".ticket .qr[data-code]", "data-code").await?.context("a code")?;
    eventually("the gate knows the ticket", SOON, || async {
        let answer = sale.scan(1, &code, "North").await?;
        ensure!(answer.error() != "TICKET_UNKNOWN", "{}", answer.body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        Ok(())
    })
    .await?;
    eventually("the code rotates", Duration::from_secs(25), || async {
        let now = browser.attr(".ticket .qr[data-code]", "data-code").await?;
        ensure!(now.is_some_and(|now| now != code), "still the same");
        Ok(())
    })
    .await?;
    browser.page.clone().close().await?;
    sale.audit().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fan_who_lost_the_answer_to_a_hold_is_shown_the_way_to_checkout() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 2, 6)).start().await?;
    let alice = sale.fan("alice");
    let pass = sale.pass(&alice).await?;
    alice.hold(1, &sale.row("Block 1", "1", 1..=2), &pass, "lost").await?.expect(201)?;
    // Another browser knows the login, and neither pass nor reservation.
    let browser = Browser::open().await?;
    let home = sale.stack.url(Part::Browse);
    browser.page.goto(&format!("{home}/events.html?id=1#token={}", alice.token)).await?;
    browser.press("#join", Key::Enter).await?;
    browser.is("#queue", "data-state", "checkout").await?;
    browser.press("#resume", Key::Enter).await?;
    browser.is("#checkout", "data-state", "held").await?;
    browser.says("#total", "40").await?;
    browser.page.clone().close().await?;
    Ok(())
}
