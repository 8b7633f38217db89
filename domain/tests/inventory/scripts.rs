//! Runs the golden scripts of `testscripts/`: a situation as commands, then what came of it. After every entry two replicas
//! are compared and all invariants checked. `UPDATE_GOLDENFILES=1` writes what came of it into the scripts.

use crate::parse::{self, Parsed};
use crate::world::{EVENT, World};
use crate::{fixture, say};
use domain::ids::{Attempt, Bucket, Epoch, GroupId, Partition, PaymentId, RefundId, SectionId};
use domain::inventory::command::{
    Begin, BestAvailable, Cart, Checkout, Command, Done, Manage, Participate, Purpose, Request, Spec, Take, Vote,
};
use domain::inventory::record::{EventStatus, SectionKind};
use domain::inventory::{Answer, Outcome, Query, Refusal};
use domain::money::Minor;
use domain::time::WallMs;
use goldenscript::ArgumentConsumer;
use std::collections::BTreeMap;

#[test]
fn every_script_says_what_came_of_it() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testscripts");
    let (mut count, mut failed) = (0, Vec::new());
    for topic in std::fs::read_dir(folder).unwrap() {
        for script in std::fs::read_dir(topic.unwrap().path()).unwrap() {
            let path = script.unwrap().path();
            if let Err(error) = goldenscript::run(&mut Runner::new(), &path) {
                failed.push(format!("{}: {error}", path.display()));
            }
            count += 1;
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(count > 0, "no scripts in {folder}");
}

struct Runner {
    world: World,
    exported: BTreeMap<Partition, Vec<u8>>,
    keys: u32,
}

impl goldenscript::Runner for Runner {
    type Command = goldenscript::Command;

    fn run(&mut self, command: &Self::Command, _: &goldenscript::Context) -> Parsed<String> {
        let mut args = command.consume_args();
        let text = match command.name.as_str() {
            "hall" | "section" | "floor" | "bucket" | "promotion" => self.create(&command.name, &mut args)?,
            "hold" | "best" | "preview" | "answered" => self.begin(&command.name, &mut args)?,
            "accept" | "extend" | "pay" | "cancel" | "refund" | "ledger" => self.checkout(&command.name, &mut args)?,
            "vote" | "ack" => self.answer(&command.name, &mut args)?,
            "prepare" | "release" | "sell" | "return" | "watermark" => self.participate(&command.name, &mut args)?,
            "freeze" | "unfreeze" | "install" | "activate" | "drop" | "ackfeed" => {
                self.manage(&command.name, &mut args)?
            }
            "pass" => {
                self.world.pass(number(&mut args)?);
                String::new()
            }
            "outage" => self.outage(number(&mut args)?),
            "deliver" => self.deliver(),
            "pending" => lines(self.world.pending().iter().map(|message| say::message(&self.world, message))),
            name => self.read(name, &mut args)?,
        };
        args.reject_next()?;
        Ok(text)
    }
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.map(|line| line + "\n").collect()
}

fn word<'a>(args: &mut ArgumentConsumer<'a>) -> Parsed<&'a str> {
    args.next_pos().ok_or_else(|| "a word is missing".into())
}

fn number<T: std::str::FromStr<Err: std::error::Error + 'static>>(args: &mut ArgumentConsumer<'_>) -> Parsed<T> {
    Ok(word(args)?.parse()?)
}

fn key<T: std::str::FromStr<Err: std::error::Error + 'static>>(
    args: &mut ArgumentConsumer<'_>,
    name: &str,
) -> Parsed<Option<T>> {
    Ok(args.take_key(name).map(str::parse).transpose()?)
}

impl Runner {
    fn new() -> Self {
        Self { world: World::new(4), exported: BTreeMap::new(), keys: 0 }
    }

    fn said(&self, outcome: &Outcome) -> String {
        say::outcome(&self.world, outcome) + "\n"
    }

    fn create(&mut self, name: &str, args: &mut ArgumentConsumer<'_>) -> Parsed<String> {
        let group = key(args, "group")?.unwrap_or(GroupId(1));
        let mut price = fixture::price(key(args, "price")?.unwrap_or(5_000));
        if let Some(days) = key::<u64>(args, "dynamic")? {
            price.dynamic = true;
            price.event_starts_at = WallMs(self.world.wall + days * fixture::DAY);
        }
        let mut specs = Vec::new();
        match name {
            "hall" => {
                specs.push((Partition::Seats { event: EVENT, section: SectionId(1) }, plan_spec(1, "A8/B8", price)?));
                let bucket = Partition::Checkouts { event: EVENT, bucket: Bucket(0) };
                specs.push((bucket, Spec::Checkouts(fixture::rules())));
            }
            "section" | "floor" => {
                let section: u16 = number(args)?;
                let shape = word(args)?;
                specs.push((
                    Partition::Seats { event: EVENT, section: SectionId(section) },
                    plan_spec(section, shape, price)?,
                ));
            }
            "promotion" => {
                let code = number(args)?;
                let discount_bps = key(args, "off")?.unwrap_or(1_000);
                let cap = key(args, "cap")?.unwrap_or(1);
                specs.push((Partition::Promotion { event: EVENT, code }, Spec::Promotion { discount_bps, cap }));
            }
            _ => {
                let bucket = parse::bucket(word(args)?)?;
                let mut rules = fixture::rules();
                rules.version = key(args, "version")?.unwrap_or(rules.version);
                rules.hold_ttl_ms = key(args, "hold")?.unwrap_or(rules.hold_ttl_ms);
                rules.user_limit = key(args, "limit")?.unwrap_or(rules.user_limit);
                rules.incarnation = key(args, "incarnation")?.unwrap_or(0);
                rules.currency = key(args, "currency")?.unwrap_or(rules.currency);
                rules.on_sale_at = WallMs(key::<u64>(args, "sale_in")?.map_or(0, |ms| self.world.wall + ms));
                if args.take_key("closed").is_some() {
                    rules.status = EventStatus::Closed;
                }
                specs.push((Partition::Checkouts { event: EVENT, bucket }, Spec::Checkouts(rules)));
            }
        }
        let mut said = String::new();
        for (partition, spec) in specs {
            if let Spec::Seats { plan, .. } = &spec {
                self.world.plans.entry(plan.section).or_insert_with(|| plan.clone());
            }
            let outcome = self.world.manage(group, &partition, Manage::Create(Box::new(spec)));
            if outcome != Outcome::Done {
                said += &self.said(&outcome);
            }
        }
        Ok(said)
    }

    fn begin(&mut self, name: &str, args: &mut ArgumentConsumer<'_>) -> Parsed<String> {
        let user = word(args)?;
        let bucket = args.take_key("bucket").map(parse::bucket).transpose()?;
        self.keys += 1;
        let own_key = format!("k{}", self.keys);
        let key_text = args.take_key("key").unwrap_or(&own_key);
        let sent_at = key(args, "sent")?.unwrap_or(self.world.wall);
        let options = (args.take_key("promotion"), args.take_key("pass_id"), key(args, "ttl")?);
        let (purpose, note) = (args.take_key("as"), args.take_key("note"));
        let cart = self.cart(name == "best" || args.take_key("of").is_some_and(|of| of == "best"), args)?;
        let mut begin: Begin = fixture::begin(user, key_text, cart, sent_at);
        begin.promotion = options.0.map(str::parse).transpose()?;
        begin.pass = options.1.map(str::parse).transpose()?;
        begin.hold_ttl_ms = options.2;
        begin.purpose = match purpose {
            None => Purpose::Checkout,
            Some("offer") => Purpose::Offer,
            Some("block") => Purpose::Block,
            Some(other) => return Err(format!("{other} is no purpose").into()),
        };
        begin.note = note.map(str::to_owned);
        let bucket = bucket.unwrap_or_else(|| begin.bucket(1));
        let partition = Partition::Checkouts { event: EVENT, bucket };
        if name == "answered" {
            let Begin { user, key, fingerprint, .. } = begin;
            return match self.world.query(&partition, &Query::Answered { user, key, fingerprint }) {
                Answer::Answered(Some(outcome)) => Ok(self.said(&outcome)),
                Answer::Answered(None) => Ok("never asked\n".into()),
                other => Ok(format!("{other:?}\n")),
            };
        }
        let command = Command::Checkout(Checkout::Begin(Box::new(begin)));
        if name == "preview" {
            let request = Request { partition, command };
            let group = &self.world.groups[&self.world.locate(&request.partition)];
            let advice = group.preview(&request, WallMs(self.world.wall));
            return Ok(advice.map_or("propose it".into(), |why| say::refusal(&self.world, &why)));
        }
        let outcome = self.world.command(partition, command);
        Ok(self.said(&outcome))
    }

    fn cart(&self, best: bool, args: &mut ArgumentConsumer<'_>) -> Parsed<Cart> {
        if best {
            let sections = args.take_key("sections").unwrap_or("1");
            let sections: Result<Vec<SectionId>, _> = sections.split('/').map(str::parse).collect();
            return Ok(Cart::Best(BestAvailable {
                sections: sections?,
                count: number(args)?,
                contiguous: args.take_key("contiguous").is_some(),
                accessible: key(args, "accessible")?.unwrap_or(0),
                max_price: key(args, "max")?.map(Minor),
            }));
        }
        let mut places = Vec::new();
        for text in args.take_key("places").iter().flat_map(|text| text.split('/')) {
            let (section, count) = text.split_once('x').ok_or("places are SECTIONxCOUNT")?;
            places.push((section.parse()?, count.parse()?));
        }
        let mut seats = Vec::new();
        while let Some(name) = args.next_pos() {
            seats.push(parse::seat(&self.world, name)?);
        }
        Ok(Cart::Chosen { seats, places })
    }

    fn checkout(&mut self, name: &str, args: &mut ArgumentConsumer<'_>) -> Parsed<String> {
        let refund = if name == "refund" { Some(RefundId(number(args)?)) } else { None };
        let reservation = parse::id(word(args)?)?;
        let view = self.world.reservation(reservation);
        let command = match (name, refund) {
            (_, Some(refund)) => {
                let mut seats = Vec::new();
                while let Some(name) = args.next_pos() {
                    seats.push(parse::seat(&self.world, name)?);
                }
                Checkout::Refund { refund, reservation, seats }
            }
            ("accept", _) => Checkout::Accept { reservation, user: number(args)? },
            ("extend", _) => Checkout::Extend { reservation, payment: PaymentId(1) },
            ("pay", _) => {
                let amount = key(args, "amount")?.map(Minor);
                let currency = key(args, "currency")?;
                Checkout::Pay {
                    reservation,
                    payment: PaymentId(number(args)?),
                    amount: amount.or(view.as_ref().map(|v| v.total)).unwrap_or_default(),
                    currency: currency.or(view.map(|v| v.currency)).unwrap_or(domain::money::Currency::EUR),
                }
            }
            ("cancel", _) => Checkout::Cancel { reservation, user: args.next_pos().map(str::parse).transpose()? },
            _ => Checkout::LedgerAck { reservation },
        };
        let outcome = self.world.checkout(reservation.bucket, command);
        Ok(self.said(&outcome))
    }

    /// A vote or an acknowledgement that was made up, to see what a stray one does.
    fn answer(&mut self, name: &str, args: &mut ArgumentConsumer<'_>) -> Parsed<String> {
        let reservation = parse::id(word(args)?)?;
        let participant = parse::partition(word(args)?)?;
        let answer = word(args)?;
        let command = if name == "vote" {
            let vote = match answer {
                "yes" => Vote::Yes { seats: Vec::new(), discount_bps: 0, together: false },
                _ => Vote::No(Refusal::ParticipantGone),
            };
            Checkout::Vote { reservation, participant, vote }
        } else {
            let done = match answer {
                "sold" => Done::Sold,
                "released" => Done::Released,
                seat => Done::Returned(vec![parse::seat(&self.world, seat)?.seat]),
            };
            Checkout::Ack { reservation, participant, done }
        };
        let outcome = self.world.checkout(reservation.bucket, command);
        Ok(self.said(&outcome))
    }

    fn participate(&mut self, name: &str, args: &mut ArgumentConsumer<'_>) -> Parsed<String> {
        let partition = parse::partition(word(args)?)?;
        if name == "watermark" {
            let bucket = args.take_key("bucket").map_or(Ok(Bucket(0)), parse::bucket)?;
            let incarnation = key(args, "incarnation")?.unwrap_or(0);
            let command = Participate::Watermark { bucket, incarnation, below: number(args)? };
            let outcome = self.world.command(partition, Command::Participate(command));
            return Ok(self.said(&outcome));
        }
        let reservation = parse::id(word(args)?)?;
        let user = if name == "prepare" { Some(number(args)?) } else { None };
        let mut seats = Vec::new();
        while let Some(seat) = args.next_pos() {
            seats.push(parse::seat(&self.world, seat)?.seat);
        }
        let command = match (name, user) {
            (_, Some(user)) => {
                let take = if seats.is_empty() { Take::Use } else { Take::Seats(seats) };
                Participate::Prepare { reservation, user, take, purpose: Purpose::Checkout }
            }
            ("release", _) => Participate::Release { reservation },
            ("sell", _) => Participate::Sell { reservation },
            _ => Participate::Return { reservation, seats },
        };
        let outcome = self.world.command(partition, Command::Participate(command));
        Ok(self.said(&outcome))
    }

    fn manage(&mut self, name: &str, args: &mut ArgumentConsumer<'_>) -> Parsed<String> {
        let partition = parse::partition(word(args)?)?;
        let group = key(args, "group")?.unwrap_or_else(|| self.world.locate(&partition));
        let epoch = key(args, "epoch")?.map_or(Epoch(2), Epoch);
        let number: u64 = number(args)?;
        let attempt = Attempt(number);
        let command = match name {
            "freeze" => Manage::Freeze { attempt },
            "unfreeze" => Manage::Unfreeze { attempt },
            "install" => {
                let exported = self.exported.get(&partition).cloned().ok_or("nothing was exported")?;
                Manage::Install { attempt, epoch, exported }
            }
            "activate" => Manage::Activate { attempt },
            "drop" => Manage::Drop { attempt },
            _ => Manage::AckFeed { upto: number },
        };
        let outcome = self.world.manage(group, &partition, command);
        if let Outcome::Exported(bytes) = &outcome {
            self.exported.insert(partition, bytes.clone());
        }
        Ok(self.said(&outcome))
    }

    /// Nobody serves for a while; the next entry carries all of it.
    fn outage(&mut self, ms: u64) -> String {
        self.world.outage(ms);
        String::new()
    }

    /// Sends what is owed until nothing is.
    fn deliver(&mut self) -> String {
        let mut said = String::new();
        for _ in 0..20 {
            let messages = self.world.pending();
            if messages.is_empty() {
                return said;
            }
            let mut heard = false;
            for message in messages {
                let sent = say::message(&self.world, &message);
                let outcome = self.world.deliver(message);
                said += &format!("{sent}: {}", self.said(&outcome));
                heard |= !matches!(outcome, Outcome::Moved { .. });
            }
            if !heard {
                return said;
            }
        }
        said + "and so on\n"
    }

    fn read(&mut self, name: &str, args: &mut ArgumentConsumer<'_>) -> Parsed<String> {
        let section = |args: &mut ArgumentConsumer<'_>| args.next_pos().map_or(Ok(SectionId(1)), str::parse);
        match name {
            "show" => {
                let id = parse::id(word(args)?)?;
                let view = self.world.reservation(id);
                Ok(view.map_or("unknown".into(), |view| say::view(&self.world, &view)))
            }
            "owners" => {
                let section = section(args)?;
                match self.world.query(&Partition::Seats { event: EVENT, section }, &Query::Owners) {
                    Answer::Owners(owners) if owners.is_empty() => Ok("nobody".into()),
                    Answer::Owners(owners) => Ok(lines(owners.iter().map(|o| say::owner(&self.world, section, o)))),
                    other => Ok(format!("{other:?}")),
                }
            }
            "map" | "stock" => {
                let query = if name == "map" { Query::SeatMap } else { Query::Stock };
                let section = section(args)?;
                match self.world.query(&Partition::Seats { event: EVENT, section }, &query) {
                    Answer::SeatMap(map) => {
                        let states = (0..map.count).map(|s| map.state(s).map_or('?', letter));
                        Ok(format!("version {}: {}", map.version, states.collect::<String>()))
                    }
                    other => Ok(format!("{other:?}")),
                }
            }
            "feed" => {
                let partition = parse::partition(word(args)?)?;
                let after = key(args, "after")?.unwrap_or(0);
                match self.world.query(&partition, &Query::Feed { after, max: 100 }) {
                    Answer::Feed(facts) => Ok(lines(facts.iter().map(|fact| say::fact(&self.world, fact)))),
                    other => Ok(format!("{other:?}")),
                }
            }
            "uses" => match self.world.query(&parse::partition(word(args)?)?, &Query::PromotionUses) {
                Answer::PromotionUses(ids) if ids.is_empty() => Ok("nobody".into()),
                Answer::PromotionUses(ids) => Ok(ids.iter().map(say::id).collect::<Vec<_>>().join(" ") + "\n"),
                other => Ok(format!("{other:?}")),
            },
            "alarms" => {
                let hosted = self.world.groups.values().flat_map(domain::inventory::Group::partitions);
                Ok(lines(hosted.filter(|h| h.alarms > 0).map(|h| format!("{}: {}", h.partition, h.alarms))))
            }
            other => Err(format!("{other} is no command").into()),
        }
    }
}

fn letter(state: domain::inventory::query::SeatState) -> char {
    use domain::inventory::query::SeatState;
    match state {
        SeatState::Free => '.',
        SeatState::Held => 'h',
        SeatState::Sold => 'S',
        SeatState::Blocked => 'b',
    }
}

/// `A8/B8` for rows, a number for a standing area.
fn plan_spec(section: u16, shape: &str, price: domain::inventory::command::PriceRule) -> Parsed<Spec> {
    let plan = match shape.parse::<u32>() {
        Ok(capacity) => fixture::floor(section, capacity),
        Err(_) => {
            let rows: Result<Vec<u32>, _> =
                shape.split('/').map(|row| row.trim_start_matches(char::is_alphabetic).parse()).collect();
            fixture::hall(section, &rows?)
        }
    };
    assert!(plan.kind == SectionKind::Standing || !plan.rows.is_empty());
    Ok(Spec::Seats { plan, price })
}
