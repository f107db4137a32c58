//! Plain messages to batches: a stretch of them in one call, each message wholly or not at all.
//!
//! `messages` reads them off the client's objects, and `batch` appends their values to columns, by the
//! `json`, the `lenient` or the `avro` of their `format`; by the last two `given` reads what `produce` gets.
//! What is not surely a row is left: the package judges it, in Python, and has every rule and every error.

mod avro;
pub mod batch;
pub mod fetched;
pub mod format;
pub mod given;
mod json;
mod lenient;
mod lenient_leaves;
pub mod messages;
mod numbers;
mod rest;
mod reversible;
mod times;
