//! Clients of the admin server of whom nothing is heard: where it is full, the one that has been silent for longest goes
//! for the next. Whoever asks at the wrong moment is answered before.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;

use tokio::sync::{Notify, oneshot};

/// The clients that are silent now, in the order in which they fell so.
#[derive(Debug, Default)]
pub(crate) struct Silent {
    turns: RefCell<BTreeMap<u64, oneshot::Sender<()>>>,
    next: Cell<u64>,
    /// One more is silent.
    fell: Notify,
}

/// A client of which nothing is heard, until it is dropped.
#[derive(Debug)]
struct Silence<'s> {
    among: &'s Silent,
    turn: u64,
}

/// What is heard of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard<T> {
    Something(T),
    /// It came as the client was to go, which it does once it is answered.
    Last(T),
    /// It goes.
    Nothing,
}

impl Silent {
    /// What `read` comes to, for which a client is silent until it has to go for another.
    pub(crate) async fn until<T>(&self, read: impl Future<Output = T>) -> Heard<T> {
        let (turn, (sender, goes)) = (self.next.get(), oneshot::channel());
        self.next.set(turn + 1);
        self.turns.borrow_mut().insert(turn, sender);
        let silence = Silence { among: self, turn };
        self.fell.notify_one();
        tokio::select! {
            biased;
            came = read => match self.turns.borrow().contains_key(&silence.turn) {
                true => Heard::Something(came),
                false => Heard::Last(came),
            },
            _ = goes => Heard::Nothing,
        }
    }

    /// Has the one that has been silent for longest go; false where none is.
    fn end_longest(&self) -> bool {
        let first = self.turns.borrow_mut().pop_first();
        // It may have heard something meanwhile, and goes behind that.
        first.is_some_and(|(_, sender)| sender.send(()).is_ok())
    }

    /// Has one go, once there is one.
    pub(crate) async fn end_one(&self) {
        while !self.end_longest() {
            self.fell.notified().await;
        }
    }
}

impl Drop for Silence<'_> {
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
    fn the_longest_silent_goes_first() {
        let silent = Silent::default();
        let mut first = pin!(silent.until(pending::<()>()));
        let mut second = pin!(silent.until(pending::<()>()));
        assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        assert!(poll(pin!(silent.end_one())).is_ready());
        assert_eq!(
            (poll(first.as_mut()), poll(second.as_mut())),
            (Poll::Ready(Heard::Nothing), Poll::Pending)
        );
        assert_eq!(poll(pin!(silent.until(ready(7)))), Poll::Ready(Heard::Something(7)));
        assert!(poll(pin!(silent.end_one())).is_ready());
        assert_eq!(poll(second.as_mut()), Poll::Ready(Heard::Nothing));
        assert!(poll(pin!(silent.end_one())).is_pending(), "nobody is silent any more");
    }

    #[test]
    fn who_says_something_as_it_is_to_go_is_heard() {
        let (silent, is_heard) = (Silent::default(), Cell::new(false));
        let read = poll_fn(|_| if is_heard.get() { Poll::Ready(()) } else { Poll::Pending });
        let mut client = pin!(silent.until(read));
        assert!(poll(client.as_mut()).is_pending());
        assert!(poll(pin!(silent.end_one())).is_ready());
        is_heard.set(true);
        assert_eq!(poll(client.as_mut()), Poll::Ready(Heard::Last(())));
    }
}
