//! Growing and shrinking groups while they are on sale: nodes join, take another one's place, leave, and leaders go where they
//! are sent. Each command is a plan that is carried out as an operator's is.

mod served;

use domain::ids::{GroupId, NodeId, Partition, SectionId};
use domain::inventory::{Outcome, Status};
use raft_store::client::{Client, Role};
use raft_store::operate::{self, Plan, Refusal, Topology};
use served::{EVENT, IDS, Store, begin, event, eventually, plan};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const META: GroupId = GroupId::META;
const HOME: GroupId = GroupId(1);
const FOURTH: NodeId = NodeId(4);
const FIFTH: NodeId = NodeId(5);

async fn carry_out(client: &Client, plan: Result<Plan, Refusal>) {
    let plan = plan.unwrap();
    for step in &plan.steps {
        println!("{step}");
        client.carry_out(step, &mut |text| println!("    {text}")).await.unwrap();
    }
}

/// The cluster once it has leaders and nothing hangs in the air.
async fn settled(client: &Client) -> Topology {
    for _ in 0..600 {
        let topology = client.topology().await;
        if topology.groups.len() >= 3 && topology.groups.values().all(|shape| shape.leader.is_some()) {
            return topology;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("a group has no leader: {:?}", client.topology().await)
}

struct Sale {
    client: Client,
    held: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    selling: tokio::task::JoinHandle<()>,
}

impl Sale {
    /// Fan after fan takes a seat; any error fails the test.
    async fn begin(store: &Store) -> Self {
        let client = store.client();
        let plans = vec![plan(0, 1_000)];
        client.publish(event(&plans), plans, Vec::new(), vec![HOME]).await.unwrap();
        let (held, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let selling = tokio::spawn({
            let (client, held, stop) = (client.clone(), held.clone(), stop.clone());
            async move {
                while !stop.load(Ordering::Relaxed) {
                    let fan = held.load(Ordering::Relaxed);
                    let outcome = client.begin(EVENT, begin(fan, &[(0, fan as u32)])).await;
                    let outcome = outcome.unwrap_or_else(|error| panic!("fan {fan}: {error}"));
                    assert!(
                        matches!(&outcome, Outcome::Reservation(view) if view.status == Status::Held),
                        "{outcome:?}"
                    );
                    held.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { client, held, stop, selling }
    }

    async fn goes_on(&self) {
        let so_far = self.held.load(Ordering::Relaxed);
        eventually("the sale goes on", || self.held.load(Ordering::Relaxed) > so_far + 5).await;
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.selling.await.expect("no error reaches a caller");
        let owners = self.client.owners(EVENT, SectionId(0)).await.unwrap();
        assert_eq!(owners.len(), self.held.load(Ordering::Relaxed), "every acknowledged hold is there");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_join_replace_and_leave_under_load() {
    let mut store = Store::start().await;
    let sale = Sale::begin(&store).await;
    sale.goes_on().await;

    // A fourth node joins: it learns, then it votes; then it serves alone with one other.
    store.join_node(FOURTH).await;
    let client = store.client();
    carry_out(&client, operate::add_node(&settled(&client).await, HOME, FOURTH)).await;
    sale.goes_on().await;
    let shape = settled(&client).await.groups[&HOME].clone();
    assert_eq!(shape.voters, [IDS[0], IDS[1], IDS[2], FOURTH].into());
    assert!(operate::add_node(&settled(&client).await, HOME, FOURTH).unwrap().steps.is_empty(), "given again");

    // It restarts, and is still what it was.
    store.stop_node(FOURTH).await;
    sale.goes_on().await;
    store.start_node(FOURTH).await;
    eventually("the joined node is back", || store.server(FOURTH).node().is_ready()).await;

    // The leader leaves its group, after handing over.
    let leader = settled(&client).await.groups[&HOME].leader.unwrap();
    carry_out(&client, operate::remove_node(&settled(&client).await, HOME, leader)).await;
    let shape = settled(&client).await.groups[&HOME].clone();
    assert!(!shape.has(leader) && shape.voters.len() == 3, "{shape:?}");
    sale.goes_on().await;

    // A node dies for good, and a fifth takes its place everywhere.
    let dead = *IDS.iter().find(|id| **id != leader).unwrap();
    store.stop_node(dead).await;
    store.join_node(FIFTH).await;
    let client = store.client();
    carry_out(&client, operate::replace_node(&settled(&client).await, None, dead, FIFTH)).await;
    let topology = settled(&client).await;
    assert!(topology.groups.values().all(|shape| !shape.has(dead) && !shape.joint), "{topology:?}");
    assert!(topology.groups[&META].voters.contains(&FIFTH), "{topology:?}");
    sale.goes_on().await;
    let fifth = store.server(FIFTH).node().clone();
    let caught_up = || fifth.group(HOME).is_some_and(|group| group.status().applied >= group.status().last_log);
    eventually("the new node has the sale", caught_up).await;
    // A client that knows only the founders finds the others.
    let stock = Client::connect(raft_store::client::ClientConfig::with_endpoints(store.peers.values().cloned()));
    assert!(stock.stock(EVENT).await.unwrap().held > 0);
    sale.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_are_spread_and_go_where_they_are_sent() {
    let store = Store::start().await;
    let sale = Sale::begin(&store).await;
    let client = store.client();
    let topology = settled(&client).await;
    let target = *IDS.iter().find(|id| Some(**id) != topology.groups[&HOME].leader).unwrap();
    carry_out(&client, operate::transfer_leader(&topology, HOME, target)).await;
    sale.goes_on().await;
    assert_eq!(settled(&client).await.groups[&HOME].leader, Some(target));
    // One node leads everything; then the leaders are evened out; then one node is drained of them.
    for group in [META, GroupId(2)] {
        carry_out(&client, operate::transfer_leader(&settled(&client).await, group, target)).await;
    }
    carry_out(&client, Ok(operate::rebalance(&settled(&client).await))).await;
    let topology = settled(&client).await;
    assert!(topology.leading().values().all(|leads| *leads == 1), "{topology:?}");
    carry_out(&client, operate::drain(&topology, target)).await;
    let topology = settled(&client).await;
    assert_eq!(topology.leading()[&target], 0, "{topology:?}");
    sale.goes_on().await;
    sale.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_made_filled_and_outlives_a_restart() {
    let mut store = Store::start().await;
    let sale = Sale::begin(&store).await;
    store.join_node(FOURTH).await;
    let client = store.client();
    let registered = client.placement().await.unwrap().groups;
    let nodes = [IDS[1], IDS[2], FOURTH];
    let plan = operate::create_group(&settled(&client).await, &registered, None, &nodes);
    carry_out(&client, plan.clone()).await;
    // Given again in the same words, it changes nothing; with other nodes, the number is refused.
    carry_out(&client, plan).await;
    let made = GroupId(3);
    let topology = settled(&client).await;
    assert_eq!(topology.groups[&made].voters, nodes.into());
    let partition = Partition::Seats { event: EVENT, section: SectionId(0) };
    client.move_partition(&partition, made, &mut |text| println!("{text}")).await.unwrap();
    sale.goes_on().await;
    for id in nodes {
        store.stop_node(id).await;
        store.start_node(id).await;
    }
    sale.goes_on().await;
    sale.end().await;
    // A replica that lost its quorum refuses to lose more.
    let topology = settled(&client).await;
    let mut two_down = topology;
    for id in [IDS[1], IDS[2]] {
        two_down.nodes.get_mut(&id).unwrap().up = false;
    }
    let refused = operate::remove_node(&two_down, made, FOURTH).unwrap_err();
    assert!(refused.to_string().contains("would lose its quorum"), "{refused}");
}

/// openraft may refuse a learner right after an election. The step is ordered again until it is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_is_taken_in_right_after_an_election() {
    let mut store = Store::start().await;
    store.leader(HOME).await;
    store.join_node(FOURTH).await;
    let client = store.client();
    for leader in served::IDS {
        let topology = settled(&client).await;
        let address = store.joined[&FOURTH].clone();
        store.let_lead(HOME, leader).await;
        let step = operate::Step::AddLearner { group: HOME, node: FOURTH, address };
        client.carry_out(&step, &mut |text| println!("    {text}")).await.unwrap();
        assert!(topology.groups[&HOME].voters.len() == 3);
        let plan = operate::remove_node(&settled(&client).await, HOME, FOURTH);
        carry_out(&client, plan).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_joined_one_group_reaches_the_others_after_a_restart() {
    let mut store = Store::start().await;
    store.join_node(FOURTH).await;
    let client = store.client();
    let plans = vec![plan(0, 10), plan(1, 10)];
    client.publish(event(&plans), plans, Vec::new(), vec![HOME, GroupId(2)]).await.unwrap();
    carry_out(&client, operate::add_node(&settled(&client).await, HOME, FOURTH)).await;
    // It hosts no replica of the meta group and none of the other section's group, and has forgotten whom it met.
    store.stop_node(FOURTH).await;
    store.start_node(FOURTH).await;
    eventually("the joined node is back", || store.server(FOURTH).node().is_ready()).await;
    carry_out(&client, operate::transfer_leader(&settled(&client).await, HOME, FOURTH)).await;
    // It leads the judge, so that it has to ask the other section.
    let held = client.begin(EVENT, begin(1, &[(0, 1), (1, 1)])).await.unwrap();
    assert!(matches!(&held, Outcome::Reservation(view) if view.status == Status::Held), "{held:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_taken_out_while_it_was_away_rests_and_may_come_back() {
    let mut store = Store::start().await;
    let sale = Sale::begin(&store).await;
    let (client, away) = (store.client(), NodeId(3));
    settled(&client).await;
    store.stop_node(away).await;
    for group in [META, HOME] {
        settled(&client).await;
        carry_out(&client, operate::remove_node(&client.topology().await, group, away)).await;
    }
    store.start_node(away).await;
    let replica = |store: &Store, group| {
        let server = store.servers().find(|server| server.node().id() == away).expect("it runs");
        server.node().group(group).expect("it has a replica")
    };
    let rests = || [META, HOME].iter().all(|group| replica(&store, *group).has_departed());
    eventually("it knows that these groups go on without it", rests).await;
    let ready = || store.servers().any(|server| server.node().id() == away && server.node().is_ready());
    eventually("it is ready for its other group", ready).await;
    let shown = client.status().await;
    let shown = shown.replicas().find(|(node, replica)| *node == away && replica.group == HOME).expect("it answers");
    assert_eq!(shown.1.role, Role::Outside);
    sale.goes_on().await;

    carry_out(&client, operate::add_node(&client.topology().await, HOME, away)).await;
    eventually("it is in the group again", || !replica(&store, HOME).has_departed()).await;
    sale.goes_on().await;
    sale.end().await;
}
