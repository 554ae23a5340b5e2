//! Benchmarks of look-ups and updates of FIBs: tables, keys and methods, the same for every
//! subject.
//!
//! A subject is a FIB under test. It implements [`Fib`] (the writer's side) and [`Reader`] (a
//! worker's side); Bora's own is [`bora::Bora`]. Look-ups are measured by [`measure`], updates by
//! [`churn`], and [`check`] compares the subjects' answers before anything is timed. [`run`] does
//! all of it in turn.
#![forbid(unsafe_code)]

pub mod bora;
pub mod check;
pub mod churn;
pub mod ends;
pub mod family;
pub mod keys;
pub mod measure;
pub mod random;
pub mod report;
pub mod results;
pub mod run;
pub mod subject;
pub mod synthetic;
pub mod tables;

pub use family::Prefix;
pub use subject::{Fib, Memory, Reader};
pub use tables::Route;
