//! What Bora's configuration files share: values written as text, and errors with line and column.
#![forbid(unsafe_code)]

mod locate;
mod ports;
mod text;
mod words;

pub use locate::{Problem, Step, located, wrong};
pub use ports::{port_problem, typed};
pub use text::{TextVisitor, number};
pub use words::{plain, suggestion};
