//! How a packet comes and goes: AF_XDP sockets and the XDP program in front of Linux.

pub mod af_xdp;
pub mod inject;
pub mod xdp;
