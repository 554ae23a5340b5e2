//! What the tester finds, against a router whose behaviour is known.

mod counts;
mod interruptions;
mod latency;
mod methods;
mod model;
