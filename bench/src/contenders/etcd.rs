//! etcd: one transaction that compares seats, fan, pass and key with "does not exist" and puts all or nothing. Replicated
//! over its members and synced by each, as Encore's store is; leases, which would end the holds, are left out in its favour.

mod wire {
    #![allow(missing_docs, reason = "generated from the protocol")]
    tonic::include_proto!("etcdserverpb");
}

use crate::contender::{Contender, Failure, Verdict};
use crate::workload::{Attempt, Hall};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::fmt::Display;
use tonic::transport::{Channel, Endpoint};
use wire::kv_client::KvClient;
use wire::{Compare, PutRequest, RequestOp, TxnRequest, compare, request_op};

/// An etcd cluster.
pub struct Etcd {
    members: Vec<KvClient<Channel>>,
}

impl Etcd {
    /// Over these members' client addresses; attempts go to them in turn.
    pub async fn connect(urls: &[String]) -> Result<Self, Failure> {
        let mut members = Vec::new();
        for url in urls {
            let endpoint = Endpoint::from_shared(url.clone()).map_err(failure)?;
            members.push(KvClient::new(endpoint.connect().await.map_err(failure)?));
        }
        Ok(Self { members })
    }

    async fn transact(&self, sale: u32, attempt: Attempt) -> Result<Verdict, Failure> {
        let number = attempt.number;
        let names = ["key", "pass", "fan"].into_iter().map(|kind| format!("{sale}/{kind}/{number}"));
        let seats = attempt.seats.iter().map(|place| format!("{sale}/seat/{}/{}", place.section, place.seat));
        let keys: Vec<Bytes> = names.chain(seats).map(Bytes::from).collect();
        let value = Bytes::from(number.to_string());
        let request = TxnRequest {
            compare: keys.iter().cloned().map(absent).collect(),
            success: keys.iter().cloned().map(|key| put(key, value.clone())).collect(),
            failure: vec![put(keys[0].clone(), Bytes::from_static(b"taken"))],
        };
        let member = number as usize % self.members.len();
        let answer = self.members[member].clone().txn(request).await.map_err(failure)?;
        Ok(if answer.into_inner().succeeded { Verdict::Granted } else { Verdict::Refused })
    }
}

fn absent(key: Bytes) -> Compare {
    Compare {
        result: compare::CompareResult::Equal.into(),
        target: compare::CompareTarget::Version.into(),
        key,
        target_union: Some(compare::TargetUnion::Version(0)),
    }
}

fn put(key: Bytes, value: Bytes) -> RequestOp {
    RequestOp { request: Some(request_op::Request::RequestPut(PutRequest { key, value })) }
}

impl Contender for Etcd {
    fn name(&self) -> String {
        format!("etcd, {} members", self.members.len())
    }

    fn open(&self, _sale: u32, _hall: Hall) -> BoxFuture<'_, Result<(), Failure>> {
        // A seat is free while no key has its name.
        Box::pin(std::future::ready(Ok(())))
    }

    fn hold(&self, sale: u32, attempt: Attempt) -> BoxFuture<'_, Result<Verdict, Failure>> {
        Box::pin(self.transact(sale, attempt))
    }
}

fn failure(error: impl Display) -> Failure {
    Failure { contender: "etcd", reason: error.to_string() }
}
