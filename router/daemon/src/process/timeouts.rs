//! Connections that end when the other side does not go on: so that clients that are stuck or gone hold
//! nothing for ever.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Longest time for which a client may take nothing of what is sent to it.
const OF_WRITES: Duration = Duration::from_secs(10);
/// Longest time without an octet in either direction; longer than an answer may take.
const IDLE: Duration = Duration::from_secs(90);

/// A listener whose connections have deadlines.
#[derive(Debug)]
pub struct Patient<L>(pub L);

impl<L: Listener> Listener for Patient<L> {
    type Io = PatientIo<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (io, address) = self.0.accept().await;
        (PatientIo::new(io), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

/// A connection with deadlines.
#[derive(Debug)]
pub struct PatientIo<I> {
    /// The connection itself.
    pub io: I,
    idle: Option<Pin<Box<Sleep>>>,
    /// While the other side takes nothing.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<I> PatientIo<I> {
    fn new(io: I) -> Self {
        Self {
            idle: Some(Box::pin(sleep(IDLE))),
            ..Self::of_writes(io)
        }
    }

    /// With a deadline of writes only: an answer may go on without a word for long.
    pub(crate) fn of_writes(io: I) -> Self {
        Self {
            io,
            idle: None,
            stuck: None,
        }
    }

    /// Something went in one direction.
    fn goes_on(&mut self) {
        if let Some(idle) = &mut self.idle {
            idle.as_mut().reset(Instant::now() + IDLE);
        }
    }

    /// After an attempt to write.
    fn written(
        &mut self,
        attempt: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if attempt.is_ready() {
            self.stuck = None;
            self.goes_on();
            return attempt;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(OF_WRITES)));
        ready!(stuck.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for PatientIo<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.io).poll_read(context, buffer);
        if attempt.is_ready() {
            self.goes_on();
            return attempt;
        }
        let Some(idle) = &mut self.idle else {
            return Poll::Pending;
        };
        ready!(idle.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for PatientIo<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.io).poll_write(context, octets);
        self.written(attempt, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.io).poll_write_vectored(context, octets);
        self.written(attempt, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[test]
    fn who_reads_nothing_is_given_up() {
        paused().block_on(async {
            let (ours, _theirs) = duplex(10);
            let mut io = PatientIo::new(ours);
            io.write_all(&[0; 10]).await.unwrap();
            let began = Instant::now();
            let error = io.write_all(&[0; 10]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(began.elapsed() >= OF_WRITES);
        });
    }

    #[test]
    fn who_says_nothing_is_given_up_unless_it_is_written_to() {
        paused().block_on(async {
            let (ours, _theirs) = duplex(10);
            let mut io = PatientIo::new(ours);
            sleep(IDLE / 2).await;
            io.write_all(&[0]).await.unwrap();
            let began = Instant::now();
            let error = io.read_u8().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(began.elapsed() > IDLE / 2);
        });
    }

    /// A runtime whose clock goes on when nothing else happens.
    fn paused() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
    }
}
