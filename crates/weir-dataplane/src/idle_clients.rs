//! Idle clients of the admin server. If the server is full, it closes the connection that has been idle longest, to
//! accept the next client. If a request arrives on that connection at the same moment, it still gets a response.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;

use tokio::sync::{Notify, oneshot};

/// The idle clients, in the order in which they became idle.
#[derive(Debug, Default)]
pub(crate) struct IdleClients {
    turns: RefCell<BTreeMap<u64, oneshot::Sender<()>>>,
    next: Cell<u64>,
    /// Signals that another client has become idle.
    fell: Notify,
}

/// Marks a client as idle until this is dropped.
#[derive(Debug)]
struct IdleGuard<'s> {
    among: &'s IdleClients,
    turn: u64,
}

/// The outcome of a read from an idle client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleRead<T> {
    Read(T),
    /// The read completed just as the client was selected to be closed. The client is closed after its response.
    LastRead(T),
    /// Close the client.
    Close,
}

impl IdleClients {
    /// Waits for `read` and returns its result. Meanwhile the client counts as idle, and may be closed to make room for
    /// another client.
    pub(crate) async fn until<T>(&self, read: impl Future<Output = T>) -> IdleRead<T> {
        let (turn, (sender, goes)) = (self.next.get(), oneshot::channel());
        self.next.set(turn + 1);
        self.turns.borrow_mut().insert(turn, sender);
        let guard = IdleGuard { among: self, turn };
        self.fell.notify_one();
        tokio::select! {
            biased;
            came = read => match self.turns.borrow().contains_key(&guard.turn) {
                true => IdleRead::Read(came),
                false => IdleRead::LastRead(came),
            },
            _ = goes => IdleRead::Close,
        }
    }

    /// Closes the client that has been idle longest. Returns false if there is none.
    fn end_longest(&self) -> bool {
        let first = self.turns.borrow_mut().pop_first();
        // `read` may complete just as its client is selected to be closed. The client then gets its response first.
        first.is_some_and(|(_, sender)| sender.send(()).is_ok())
    }

    /// Closes an idle client. If no client is idle, waits until one becomes idle.
    pub(crate) async fn end_one(&self) {
        while !self.end_longest() {
            self.fell.notified().await;
        }
    }
}

impl Drop for IdleGuard<'_> {
    fn drop(&mut self) {
        self.among.turns.borrow_mut().remove(&self.turn);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn, ready};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_longest_idle_client_is_closed_first() {
        let idle_clients = IdleClients::default();
        let mut first = pin!(idle_clients.until(pending::<()>()));
        let mut second = pin!(idle_clients.until(pending::<()>()));
        assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        assert!(poll(pin!(idle_clients.end_one())).is_ready());
        assert_eq!(
            (poll(first.as_mut()), poll(second.as_mut())),
            (Poll::Ready(IdleRead::Close), Poll::Pending)
        );
        assert_eq!(poll(pin!(idle_clients.until(ready(7)))), Poll::Ready(IdleRead::Read(7)));
        assert!(poll(pin!(idle_clients.end_one())).is_ready());
        assert_eq!(poll(second.as_mut()), Poll::Ready(IdleRead::Close));
        assert!(poll(pin!(idle_clients.end_one())).is_pending(), "no client is idle any more");
    }

    #[test]
    fn a_client_that_sends_while_it_is_closed_gets_a_response() {
        let (idle_clients, is_readable) = (IdleClients::default(), Cell::new(false));
        let read = poll_fn(|_| if is_readable.get() { Poll::Ready(()) } else { Poll::Pending });
        let mut client = pin!(idle_clients.until(read));
        assert!(poll(client.as_mut()).is_pending());
        assert!(poll(pin!(idle_clients.end_one())).is_ready());
        is_readable.set(true);
        assert_eq!(poll(client.as_mut()), Poll::Ready(IdleRead::LastRead(())));
    }
}
