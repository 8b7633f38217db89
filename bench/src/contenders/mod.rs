//! Encore's store, and what a user would pick instead.

pub mod etcd;
pub mod postgres;
pub mod redis;
pub mod store;
