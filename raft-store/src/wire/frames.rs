//! Protobuf frames, generated from `proto/store.proto`.
#![allow(missing_docs, clippy::all)]

tonic::include_proto!("encore.store.v1");
