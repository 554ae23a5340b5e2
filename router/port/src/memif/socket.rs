//! The control channel: a unix socket of type SOCK_SEQPACKET, one message a packet, with at most
//! one file descriptor each.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::unlink;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recvmsg, sendmsg, socket_with,
};

use super::message::MESSAGE_SIZE;

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// What follows the `@` of an abstract address (unix(7)), as DPDK has them by default.
fn abstract_name(path: &Path) -> Option<&[u8]> {
    path.as_os_str().as_bytes().strip_prefix(b"@")
}

fn address_of(path: &Path) -> Result<SocketAddrUnix, Errno> {
    match abstract_name(path) {
        Some(name) => SocketAddrUnix::new_abstract_name(name),
        None => SocketAddrUnix::new(path),
    }
}

/// Removes a server's socket; an abstract one goes by itself.
pub(super) fn remove(path: &Path) {
    if abstract_name(path).is_some() {
        return;
    }
    match unlink(path) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => log::warn!("cannot remove {}: {error}", path.display()),
    }
}

/// Connects to the server at `path`; one that does not take its connections is an error.
pub(super) fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    let fd = socket()?;
    match connect(&fd, &address_of(path)?) {
        Err(Errno::AGAIN) => Err(io::Error::other("the server takes no connections")),
        result => Ok(result.map(|()| fd)?),
    }
}

/// Listens at `path`; takes the place of a server that is gone, not of one that is there.
pub(super) fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let address = address_of(path)?;
    let fd = socket()?;
    match bind(&fd, &address) {
        Err(Errno::ADDRINUSE) => {
            match connect(socket()?, &address) {
                Err(Errno::CONNREFUSED) => unlink(path)?,
                _ => return Err(Errno::ADDRINUSE.into()),
            }
            bind(&fd, &address)?;
        }
        result => result?,
    }
    listen(&fd, 4)?;
    Ok(fd)
}

/// Takes the next connection.
pub(super) fn accept_from(listener: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(accept_with(listener, flags)?)
}

/// Waits for `timeout`, or until `wake` is readable. Whether `fd` is readable, or its peer has gone away.
pub(super) fn readable(fd: &OwnedFd, wake: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    let wake = PollFd::from_borrowed_fd(wake, PollFlags::IN);
    let mut fds = [PollFd::new(fd, PollFlags::IN), wake];
    let timeout = Timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) => Ok(!fds[0].revents().is_empty()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Sends a message, never waiting: a peer that does not read is as good as gone.
pub(super) fn send(
    socket: &OwnedFd,
    message: &[u8; MESSAGE_SIZE],
    fd: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let fds = fd.map(|fd| [fd]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(fds) = &fds {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(message)], &mut control, flags)?;
    Ok(())
}

/// Receives what is there: a message's octets, at most one more than it should have, and the file
/// descriptor that came with it. No octets: the peer has closed.
pub(super) fn receive(socket: &OwnedFd) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut octets = vec![0; MESSAGE_SIZE + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let message = recvmsg(
        socket.as_fd(),
        &mut [IoSliceMut::new(&mut octets)],
        &mut control,
        flags,
    )?;
    let fd = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        })
        .next();
    octets.truncate(message.bytes);
    Ok((octets, fd))
}
