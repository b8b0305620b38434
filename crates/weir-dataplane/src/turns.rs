//! Limits the handshake steps that a worker takes before it serves its other connections again.
//!
//! A full handshake costs as much as dozens of exchanges. Without a limit, a burst of new clients would delay existing
//! connections. So each turn, from one poll of the sockets to the next, allows only a few steps. Further steps are
//! queued, and other ready tasks run first.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Steps per turn. A step takes about 0.1 ms (key exchange and ECDSA signature; RSA signatures are computed elsewhere).
/// A poll of the sockets takes about 1 % of that, so its cost is negligible after a few steps.
pub(crate) const STEPS_PER_TURN: usize = 4;

/// Counts the handshake steps of a worker's current turn, and queues further ones.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Number of steps that tasks took in this turn, including steps granted to queued tasks.
    taken: Cell<usize>,
    waiting: RefCell<VecDeque<Rc<Place>>>,
    keeper: RefCell<Option<Waker>>,
}

/// A queued task. Dropping this removes the task from the queue.
#[derive(Debug)]
pub(crate) struct Place {
    is_called: Cell<bool>,
    waker: RefCell<Waker>,
}

impl Turns {
    /// Returns `Ready` if the caller may take a step. If this turn has no steps left, the caller is queued, and a later
    /// turn wakes it. `place` holds the caller's entry in the queue.
    pub(crate) fn poll_step(&self, place: &mut Option<Rc<Place>>, cx: &Context<'_>) -> Poll<()> {
        if let Some(waiting) = place {
            if !waiting.is_called.get() {
                waiting.waker.borrow_mut().clone_from(cx.waker());
                return Poll::Pending;
            }
            *place = None;
            return Poll::Ready(());
        }
        if self.taken.get() < STEPS_PER_TURN {
            self.take_step();
            return Poll::Ready(());
        }
        let waiting = Rc::new(Place { is_called: Cell::new(false), waker: RefCell::new(cx.waker().clone()) });
        self.waiting.borrow_mut().push_back(Rc::clone(&waiting));
        *place = Some(waiting);
        Poll::Pending
    }

    /// Starts one turn after another, as long as the future is polled.
    pub(crate) async fn keep(&self) {
        loop {
            poll_fn(|cx| {
                if self.taken.get() >= STEPS_PER_TURN {
                    return Poll::Ready(());
                }
                *self.keeper.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            })
            .await;
            // The runtime polls the sockets before it continues here.
            tokio::task::yield_now().await;
            self.begin();
        }
    }

    /// Starts a turn: grants steps to the tasks that have waited longest.
    fn begin(&self) {
        self.taken.set(0);
        while self.taken.get() < STEPS_PER_TURN {
            let Some(place) = self.waiting.borrow_mut().pop_front() else { return };
            if Rc::strong_count(&place) > 1 {
                self.take_step();
                place.is_called.set(true);
                place.waker.borrow().wake_by_ref();
            }
        }
    }

    fn take_step(&self) {
        self.taken.set(self.taken.get() + 1);
        if self.taken.get() == STEPS_PER_TURN
            && let Some(keeper) = self.keeper.take()
        {
            keeper.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::spawn_local;
    use weir_io::{WorkerOptions, spawn_worker};

    use super::*;

    const COSTLY: usize = 400;

    async fn step(turns: &Turns) {
        let mut place = None;
        poll_fn(|cx| turns.poll_step(&mut place, cx)).await;
    }

    async fn echo(mut stream: TcpStream) {
        let mut byte = [0];
        while stream.read_exact(&mut byte).await.is_ok() && stream.write_all(&byte).await.is_ok() {}
    }

    /// However many handshakes are in progress, an exchange on an existing connection waits for the handshake steps of
    /// at most a few turns.
    #[test]
    fn handshake_steps_do_not_delay_exchanges() {
        let main = || async {
            let turns = Rc::new(Turns::default());
            let keeper = Rc::clone(&turns);
            spawn_local(async move { keeper.keep().await });
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            spawn_local(echo(listener.accept().await.unwrap().0));
            let taken = Rc::new(Cell::new(0));
            for _ in 0..COSTLY {
                let (turns, taken) = (Rc::clone(&turns), Rc::clone(&taken));
                spawn_local(async move {
                    step(&turns).await;
                    taken.set(taken.get() + 1);
                });
            }
            let mut most = 0;
            while taken.get() < COSTLY {
                let before = taken.get();
                client.write_all(b"x").await.unwrap();
                client.read_exact(&mut [0]).await.unwrap();
                most = most.max(taken.get() - before);
            }
            most
        };
        let options = WorkerOptions { name: "test".to_owned(), ..WorkerOptions::default() };
        let most = spawn_worker(options, main).unwrap().join().unwrap();
        // At most eight turns: an exchange needs one poll for the client and one for the server, and the kernel may
        // report readiness a few turns late.
        assert!(most <= 8 * STEPS_PER_TURN, "{most} handshake steps during one exchange");
    }

    #[test]
    fn tasks_that_leave_the_queue_do_not_block_others() {
        let main = || async {
            let turns = Rc::new(Turns::default());
            let cx = &Context::from_waker(Waker::noop());
            for _ in 0..STEPS_PER_TURN {
                assert!(turns.poll_step(&mut None, cx).is_ready());
            }
            let mut places: Vec<_> = (0..3 * STEPS_PER_TURN).map(|_| None).collect();
            for place in &mut places {
                assert!(turns.poll_step(place, cx).is_pending());
            }
            for place in places.iter_mut().take(2 * STEPS_PER_TURN) {
                *place = None;
            }
            turns.begin();
            places.iter_mut().skip(2 * STEPS_PER_TURN).all(|place| turns.poll_step(place, cx).is_ready())
        };
        let options = WorkerOptions { name: "test".to_owned(), ..WorkerOptions::default() };
        assert!(spawn_worker(options, main).unwrap().join().unwrap());
    }
}
