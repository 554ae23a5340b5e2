//! Long answers: how many octets may wait for clients to read them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most kibibytes in all: a few reports of a full table.
const MOST: usize = 512 << 10;

/// What is left of it.
#[derive(Clone, Debug)]
pub(super) struct Budget(Arc<Semaphore>);

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

impl Budget {
    /// A response, or one that says that others have not read theirs yet.
    pub(super) fn response(&self, kind: &'static str, text: String) -> Response {
        let kibibytes = text.len().div_ceil(1024).min(MOST) as u32;
        // the error says that they are taken
        let Ok(share) = self.0.clone().try_acquire_many_owned(kibibytes) else {
            let text = "too many clients have not read long answers yet; try again";
            return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
        };
        let body = Body::new(Budgeted {
            text: text.into(),
            _share: share,
        });
        ([(header::CONTENT_TYPE, kind)], body).into_response()
    }
}

/// A text that gives its share back when it has been sent, or its connection is gone.
struct Budgeted {
    text: Bytes,
    _share: OwnedSemaphorePermit,
}

/// Octets in a frame: what has been given to the connection is freed with the whole text only.
const FRAME: usize = 64 << 10;

impl HttpBody for Budgeted {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let most = self.text.len().min(FRAME);
        let part = self.text.split_to(most);
        Poll::Ready((!part.is_empty()).then(|| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.text.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.text.len() as u64)
    }
}
