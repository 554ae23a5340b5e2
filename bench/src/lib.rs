//! Side-by-side measurements; see `make bench`.
