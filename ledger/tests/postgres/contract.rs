//! Both twins keep one contract.

use crate::support::Server;

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_the_contract() {
    let server = Server::start(false).await;
    ledger::contract::run_all(&server.ledger("postgres")).await;
}

#[tokio::test]
async fn memory_keeps_the_contract() {
    ledger::contract::run_all(&ledger::Memory::default()).await;
}
