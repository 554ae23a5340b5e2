//! Whose question the control loop takes next. Each client, however many connections it has, waits for its earlier ones, and the
//! clients take turns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bora_linux::lock;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Questions of all clients that may be in the control loop at a time.
const QUESTIONS: usize = 2;

/// All clients that are connected.
#[derive(Debug)]
pub(crate) struct Clients {
    all: Arc<Semaphore>,
    each: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A client's place.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    all: Arc<Semaphore>,
    own: Arc<Semaphore>,
}

/// A client's turn, until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn(#[allow(dead_code)] [OwnedSemaphorePermit; 2]);

impl Default for Clients {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(QUESTIONS)),
            each: Mutex::default(),
        }
    }
}

impl Clients {
    /// The place of a client, which all its connections share.
    pub(crate) fn place(&self, client: &str) -> Place {
        let mut each = lock(&self.each);
        each.retain(|_, own| Arc::strong_count(own) > 1);
        let own = each.entry(client.to_owned());
        let own = own.or_insert_with(|| Arc::new(Semaphore::new(1)));
        Place {
            all: self.all.clone(),
            own: own.clone(),
        }
    }
}

impl Place {
    /// Waits for this client's turn.
    ///
    /// # Errors
    /// None: nobody closes the semaphores.
    pub(crate) async fn turn(&self) -> Result<Turn, AcquireError> {
        let own = self.own.clone().acquire_owned().await?;
        Ok(Turn([self.all.clone().acquire_owned().await?, own]))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, timeout};

    use super::*;

    #[test]
    fn a_client_with_many_questions_does_not_delay_another() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        runtime.unwrap().block_on(async {
            let clients = Clients::default();
            let (greedy, other) = (clients.place("greedy"), clients.place("other"));
            let first = greedy.turn().await.unwrap();
            let second = timeout(Duration::from_secs(1), greedy.turn()).await;
            assert!(second.is_err(), "one client has two turns");
            let turn = timeout(Duration::from_secs(1), other.turn()).await;
            assert!(turn.is_ok());
            drop(first);
            assert!(timeout(Duration::from_secs(1), greedy.turn()).await.is_ok());
            drop((greedy, other, turn));
            clients.place("new");
            assert_eq!(clients.each.lock().unwrap().len(), 1);
        });
    }
}
