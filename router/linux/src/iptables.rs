//! The tables of legacy iptables, which has no netlink: socket options of a raw socket.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketType, ipproto, socket};

/// struct ipt_getinfo and struct ip6t_getinfo have the same size.
const INFO: usize = 84;
/// Where the size of all entries is in them.
const SIZE: usize = 80;
/// Where the entries begin in struct ipt_get_entries and struct ip6t_get_entries.
const ENTRIES: usize = 40;
/// Longest name of a table, with its NUL (XT_TABLE_MAXNAMELEN).
const NAME: usize = 32;
const IPT_BASE_CTL: libc::c_int = 64; // IPT_SO_GET_INFO, IP6T_SO_GET_INFO; the next one is _GET_ENTRIES

/// A table as Linux has it in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IptablesTable {
    /// struct ipt_getinfo or struct ip6t_getinfo.
    pub info: Vec<u8>,
    /// All struct ipt_entry or struct ip6t_entry.
    pub entries: Vec<u8>,
}

/// Reads a table of legacy iptables in the network namespace of the calling thread. Linux makes a table that is read and
/// not there yet, if it can: ask only for those in `/proc/net/ip_tables_names` or `ip6_tables_names`.
///
/// # Errors
/// There is no such table, no CAP_NET_ADMIN, or the table changed in between (EAGAIN).
pub fn read(v6: bool, table: &str) -> io::Result<IptablesTable> {
    if table.len() >= NAME {
        return Err(io::Error::other(format!("{table}: no name of a table")));
    }
    let family = if v6 {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let socket = socket(family, SocketType::RAW, Some(ipproto::RAW))?;
    let mut info = vec![0; INFO];
    info[..table.len()].copy_from_slice(table.as_bytes());
    let mut request = info[..NAME].to_vec();
    get(&socket, v6, IPT_BASE_CTL, &mut info)?;
    let size = [info[SIZE], info[SIZE + 1], info[SIZE + 2], info[SIZE + 3]];
    request.extend(size);
    request.resize(ENTRIES + u32::from_ne_bytes(size) as usize, 0);
    get(&socket, v6, IPT_BASE_CTL + 1, &mut request)?;
    Ok(IptablesTable {
        info,
        entries: request.split_off(ENTRIES),
    })
}

/// Reads a socket option whose value also holds the question.
fn get(socket: &OwnedFd, v6: bool, option: libc::c_int, value: &mut [u8]) -> io::Result<()> {
    let level = if v6 {
        libc::IPPROTO_IPV6
    } else {
        libc::IPPROTO_IP
    };
    let mut len = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    let pointer = value.as_mut_ptr().cast();
    // SAFETY: `value` has `len` octets, and the kernel reads and writes at most these.
    let done =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, pointer, &raw mut len) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns;

    #[test]
    fn a_table_is_read() {
        if !rustix::process::geteuid().is_root() {
            bora_testing::skip("network namespaces need root");
            return;
        }
        let tables = netns::in_new(|| [read(false, "filter"), read(true, "filter")]).unwrap();
        for table in tables {
            let table = match table {
                Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
                    bora_testing::skip("this kernel has no legacy iptables");
                    continue;
                }
                table => table.unwrap(),
            };
            assert!(table.info.starts_with(b"filter\0"));
            assert!(table.entries.len() > 4 * 112, "{}", table.entries.len());
        }
        assert!(netns::in_new(|| read(false, "nothing")).unwrap().is_err());
        assert!(read(false, &"x".repeat(NAME)).is_err());
    }
}
