//! What must hold whatever a peer does; called by the property tests and by the fuzz targets.
#![allow(dead_code, unreachable_pub)] // each user takes its part; fuzz/ is one, by the path

pub mod peer;
mod play;

pub use play::{memif_client, memif_server};
