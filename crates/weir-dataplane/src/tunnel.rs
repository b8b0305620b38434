//! What follows a 101: bytes in both directions, until both are done.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::buffer::Buffer;
use crate::connection::Client;
use crate::io::{Fault, Io};
use crate::pool::Upstream;
use crate::snapshot::Snapshot;

/// Passes bytes until both sides have ended, one of them failed, or nothing moved for long.
pub(crate) async fn tunnel<R, W>(client: &mut Client<'_, R, W>, snapshot: &Snapshot, mut upstream: Upstream)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    client.listening.counters.upgraded.add(1);
    let ticks = snapshot.ticks.upgraded;
    let (mut from_upstream, mut to_upstream) = upstream.stream.split();
    let io = client.io;
    let mut up = pin!(pass(io, &mut client.reader, &mut client.inbound, &mut to_upstream, ticks));
    let mut down = pin!(pass(io, &mut from_upstream, &mut upstream.inbound, &mut client.writer, ticks));
    let (mut up_done, mut down_done) = (false, false);
    poll_fn(|cx| {
        for (pass, done) in
            [(up.as_mut() as Pin<&mut dyn Future<Output = _>>, &mut up_done), (down.as_mut(), &mut down_done)]
        {
            if !*done && let Poll::Ready(ended) = pass.poll(cx) {
                *done = true;
                if ended.is_err() {
                    return Poll::Ready(());
                }
            }
        }
        if up_done && down_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Passes one direction to its end, and passes the end on too.
async fn pass<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    io: Io<'_>,
    from: &mut R,
    buffer: &mut Buffer,
    to: &mut W,
    ticks: u32,
) -> Result<(), Fault> {
    loop {
        if !buffer.is_empty() {
            io.write_all(to, buffer.data(), &mut 0, ticks).await?;
            buffer.consume(buffer.data().len());
        }
        if io.read(from, buffer, ticks).await? == 0 {
            return io.shut_down(to, ticks).await;
        }
    }
}
