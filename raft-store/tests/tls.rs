//! Who may speak to whom: nodes and clients with certificates of one authority, and what is refused in which words.

mod served;

use domain::ids::{GroupId, NodeId};
use domain::inventory::{Outcome, Status};
use raft_store::client::{Client, ClientConfig, ClientError, OperateError};
use raft_store::operate::Step;
use raft_store::tls::{Role, STORE_NAME, TlsFiles, node_name, serial};
use raft_store::transport::{Lane, PeerCall, PeerRequest, Transport};
use raft_store::wire::frames::WatchRequest;
use raft_store::wire::frames::store_client::StoreClient;
use raft_store::{NodeConfig, ServeError, Server, network};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use served::{EVENT, IDS, Store, begin, event, plan};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// An authority that issues what a test needs, faults included.
struct Authority(Issuer<'static, KeyPair>);

impl Authority {
    /// Writes its certificate into the folder.
    fn new(folder: &Path) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        std::fs::write(folder.join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self(Issuer::new(params, key))
    }

    fn issue(&self, folder: &Path, holder: &str, names: &[String], days: i64) {
        let mut params = CertificateParams::new(names.to_vec()).unwrap();
        params.not_before = OffsetDateTime::now_utc() - time::Duration::days(30);
        params.not_after = OffsetDateTime::now_utc() + time::Duration::days(days);
        let key = KeyPair::generate().unwrap();
        std::fs::write(folder.join(format!("{holder}.pem")), params.signed_by(&key, &self.0).unwrap().pem()).unwrap();
        std::fs::write(folder.join(format!("{holder}.key")), key.serialize_pem()).unwrap();
    }

    fn issue_all(&self, folder: &Path) {
        for id in IDS {
            self.issue(folder, &format!("node-{id}"), &[node_name(id), STORE_NAME.to_owned()], 1);
        }
        for role in Role::ALL {
            self.issue(folder, role.word(), &[role.name()], 1);
        }
    }
}

/// Why this client is not served.
async fn refused(store: &Store, tls: Option<TlsFiles>) -> String {
    let config = ClientConfig::with_endpoints(store.endpoints());
    let client = Client::connect(ClientConfig { request_timeout_ms: 2_000, tls, ..config });
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let said = client.placement().await.expect_err("it must be refused").to_string();
        // A busy machine may be too slow to say why.
        let slow = said.contains("no answer in time") || said.contains("took too long");
        if !slow || Instant::now() > deadline {
            return said;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_and_clients_with_certificates_sell_and_each_role_does_what_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path());
    authority.issue_all(folder.path());
    let store = Store::secured(folder.path()).await;
    let plans = vec![plan(0, 2)];
    let operator = store.client_as("operator");
    operator.publish(event(&plans), plans.clone(), Vec::new(), Vec::new()).await.unwrap();

    let service = store.client_as("service");
    let held = service.begin(EVENT, begin(1, &[(0, 3)])).await.unwrap();
    assert!(matches!(held, Outcome::Reservation(view) if view.status == Status::Held));
    let publishing = service.publish(event(&plans), plans, Vec::new(), Vec::new()).await.unwrap_err().to_string();
    assert!(publishing.contains("a service's certificate does not allow"), "{publishing}");

    // An order that is not allowed ends at once, and not with the patience that elections need.
    let topology = service.topology().await;
    let shape = &topology.groups[&GroupId::META];
    let to = *shape.voters.iter().find(|voter| shape.leader != Some(**voter)).unwrap();
    let ordered = service.carry_out(&Step::TransferLeader { group: GroupId::META, to }, &mut |_| {}).await;
    match ordered {
        Err(error @ OperateError::Store(ClientError::Denied(_))) => assert!(!error.is_passing()),
        other => panic!("{other:?}"),
    }

    let reader = store.client_as("reader");
    assert_eq!(reader.stock(EVENT).await.unwrap().held, 1);
    match reader.begin(EVENT, begin(2, &[(0, 4)])).await {
        Err(ClientError::Denied(reason)) => assert!(reason.contains("reading only"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(reader.stock(EVENT).await.unwrap().held, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path());
    authority.issue_all(folder.path());
    let store = Store::secured(folder.path()).await;
    store.client_as("reader").placement().await.unwrap();

    let none = refused(&store, None).await;
    assert!(none.contains("shows no certificate"), "{none}");
    authority.issue(folder.path(), "old", &[Role::Operator.name()], -1);
    let expired = refused(&store, Some(TlsFiles::of(folder.path(), "old"))).await;
    assert!(expired.to_lowercase().contains("expired"), "{expired}");
    authority.issue(folder.path(), "nobody", &["somebody.example".to_owned()], 1);
    let nobody = refused(&store, Some(TlsFiles::of(folder.path(), "nobody"))).await;
    assert!(nobody.contains("neither a node nor a client's role"), "{nobody}");
    let missing = refused(&store, Some(TlsFiles::of(folder.path(), "missing"))).await;
    assert!(missing.contains("missing.pem cannot be used"), "{missing}");

    let elsewhere = tempfile::tempdir().unwrap();
    Authority::new(elsewhere.path()).issue_all(elsewhere.path());
    // Trusts another authority: does not believe that these are the nodes.
    let other = refused(&store, Some(TlsFiles::of(elsewhere.path(), "operator"))).await;
    assert!(other.contains("invalid peer certificate"), "{other}");
    // Believes the nodes, and shows a certificate of another authority.
    let forged = TlsFiles { ca: folder.path().join("ca.pem"), ..TlsFiles::of(elsewhere.path(), "operator") };
    let said = refused(&store, Some(forged.clone())).await;
    assert!(said.contains("not of this authority"), "{said}");

    // The client knows before it asks; the nodes do not rely on that.
    assert!(is_served(&store, &TlsFiles::of(folder.path(), "operator")).await);
    assert!(!is_served(&store, &forged).await, "a forged certificate");
    assert!(!is_served(&store, &TlsFiles::of(folder.path(), "old")).await, "an expired certificate");
}

/// Whether a client that does not look at its own certificate is answered.
async fn is_served(store: &Store, tls: &TlsFiles) -> bool {
    let read = |file: &Path| std::fs::read(file).unwrap();
    let config = ClientTlsConfig::new()
        .identity(Identity::from_pem(read(&tls.cert), read(&tls.key)))
        .ca_certificate(Certificate::from_pem(read(&tls.ca)))
        .domain_name(STORE_NAME);
    let address = format!("https://{}", store.peers[&NodeId(1)]);
    let Ok(channel) = Endpoint::from_shared(address).unwrap().tls_config(config).unwrap().connect().await else {
        return false;
    };
    StoreClient::new(channel).watch(WatchRequest { event: 1 }).await.is_ok()
}

fn vote(to: NodeId, address: &str) -> PeerRequest {
    let body = vec![0xff; 7].into();
    let (lane, group, timeout) = (Lane::Log, GroupId(1), Duration::from_secs(5));
    PeerRequest { to, address: address.to_owned(), lane, group, call: PeerCall::Vote, body, timeout }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_who_its_certificate_says_at_both_ends() {
    let folder = tempfile::tempdir().unwrap();
    Authority::new(folder.path()).issue_all(folder.path());
    let store = Store::secured(folder.path()).await;
    let address = &store.peers[&NodeId(2)];
    let call = |own: u64, holder: &str, to: u64| {
        let own = network::Identity { id: NodeId(own), life: 0 };
        let tls = Some(TlsFiles::of(folder.path(), holder));
        let transport = network::GrpcTransport::new(own, network::Lives::default(), BTreeMap::new(), tls);
        let request = vote(NodeId(to), address);
        async move { transport.call(request).await.expect_err("garbage is never answered").to_string() }
    };
    // Which life it leads is another question, and the first one to be asked is who it is.
    let honest = call(1, "node-1", 2).await;
    assert!(honest.contains("unreadable message") || honest.contains("lost its data folder"), "{honest}");
    let claims = call(3, "node-1", 2).await;
    assert!(claims.contains("the certificate is node 1's, not node 3's"), "{claims}");
    let client = call(1, "operator", 2).await;
    assert!(client.contains("operator's certificate is no node's"), "{client}");
    // Node 2 answers where node 3 was meant.
    let meant = call(1, "node-1", 3).await;
    assert!(meant.contains("node-3.encore.internal"), "{meant}");
}

#[tokio::test]
async fn without_certificates_a_node_is_for_this_machine_only() {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("node");
    let config = NodeConfig { data: data.clone(), peers: [(NodeId(1), address)].into(), ..NodeConfig::default() };
    match Server::start(config, listener, CancellationToken::new()).await {
        Err(error @ ServeError::Open(_)) => assert!(error.to_string().contains("encore admin certs"), "{error}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it listens for everybody"),
    }
    assert!(!data.exists(), "nothing was begun");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_certificate_is_good_for_nothing_from_then_on_and_the_others_are() {
    let folder = tempfile::tempdir().unwrap();
    Authority::new(folder.path()).issue_all(folder.path());
    let list = folder.path().join("revoked");
    std::fs::write(&list, "# nobody yet\n").unwrap();
    let store = Store::secured(folder.path()).await;
    let plans = vec![plan(0, 2)];
    store.client_as("operator").publish(event(&plans), plans, Vec::new(), Vec::new()).await.unwrap();
    let service = store.client_as("service");
    service.begin(EVENT, begin(1, &[(0, 3)])).await.unwrap();

    let serial = |holder: &str| serial(&folder.path().join(format!("{holder}.pem"))).unwrap();
    std::fs::write(&list, format!("{} service\n{} node-3\n", serial("service"), serial("node-3"))).unwrap();
    // Also on the conversation that is open; a request of before the nodes have looked may still be answered.
    let config = ClientConfig::with_endpoints(store.endpoints());
    let tls = Some(TlsFiles::of(folder.path(), "service"));
    let impatient = Client::connect(ClientConfig { request_timeout_ms: 2_000, tls, ..config });
    let deadline = Instant::now() + Duration::from_secs(60);
    let said = loop {
        match impatient.placement().await {
            Err(error) if error.to_string().contains("revoked") => break error.to_string(),
            other => assert!(Instant::now() < deadline, "it is still answered: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(said.contains(&serial("service")), "{said}");
    let open = tokio::time::timeout(Duration::from_secs(5), service.begin(EVENT, begin(2, &[(0, 4)]))).await;
    assert!(!matches!(open, Ok(Ok(_))), "its open conversation goes on: {open:?}");

    // Nobody listens to the node, either; two of three go on, and so do other clients.
    let own = network::Identity { id: NodeId(3), life: 0 };
    let tls = Some(TlsFiles::of(folder.path(), "node-3"));
    let transport = network::GrpcTransport::new(own, network::Lives::default(), BTreeMap::new(), tls);
    let refused = transport.call(vote(NodeId(2), &store.peers[&NodeId(2)])).await.unwrap_err().to_string();
    assert!(refused.contains("revoked"), "{refused}");
    let held = store.client_as("operator").begin(EVENT, begin(4, &[(0, 5)])).await.unwrap();
    assert!(matches!(held, Outcome::Reservation(view) if view.status == Status::Held));
}

/// What nodes tell one another on behalf of partitions is within what their certificates allow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_certificates_carts_go_over_groups_and_partitions_move() {
    let folder = tempfile::tempdir().unwrap();
    Authority::new(folder.path()).issue_all(folder.path());
    let store = Store::secured(folder.path()).await;
    let (operator, service) = (store.client_as("operator"), store.client_as("service"));
    let plans = vec![plan(0, 2), plan(1, 2)];
    operator.publish(event(&plans), plans, Vec::new(), vec![GroupId(1), GroupId(2)]).await.unwrap();
    // Each group is led by another node, so that what is owed goes from node to node.
    store.let_lead(GroupId(1), IDS[0]).await;
    store.let_lead(GroupId(2), IDS[1]).await;
    let hold = async |fan: usize| {
        let held = service.begin(EVENT, begin(fan, &[(0, fan as u32), (1, fan as u32)])).await.unwrap();
        assert!(matches!(&held, Outcome::Reservation(view) if view.status == Status::Held), "{held:?}");
    };
    for fan in 0..6 {
        hold(fan).await;
    }
    for partition in operator.partitions(EVENT).await.unwrap() {
        operator.move_partition(&partition, GroupId(2), &mut |_| {}).await.unwrap();
    }
    hold(6).await;
    let placement = operator.placement().await.unwrap();
    assert_eq!(placement.groups.len(), 3, "every group is registered by the node that leads it");
}
