//! How fast a FIB answers and follows: tables, keys and methods, the same for every subject.
//!
//! A subject implements [`Fib`] (the writer's side) and [`Reader`] (a worker's side); Bora's own is
//! [`bora::Bora`]. Look-ups are measured by [`measure`], updates by [`churn`], and [`check`]
//! compares the subjects' answers before anything is timed. [`run`] does all of it in turn.
#![forbid(unsafe_code)]

pub mod bora;
pub mod check;
pub mod churn;
pub mod family;
pub mod keys;
pub mod measure;
pub mod random;
pub mod run;
pub mod subject;
pub mod tables;

pub use family::Prefix;
pub use subject::{Fib, Memory, Reader};
pub use tables::Route;
