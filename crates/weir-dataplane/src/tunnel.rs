//! After a 101 response or for TLS passthrough: passes bytes in both directions until both sides have ended.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::buffer::Buffer;
use crate::cause::Cause;
use crate::connection::{After, Client};
use crate::io::{Io, IoFault};
use crate::plain::PlainHalf;
use crate::pool::{Link, Upstream};
use crate::secure::SecureHalf;

/// Reader and writer of one side, with bytes that were already read.
type Side<'a, R, W> = (R, W, &'a mut Buffer);

/// Passes bytes of an upgraded connection until both sides have ended, one of them fails, nothing arrives for `ticks`,
/// or the drain timeout passes.
pub(crate) async fn tunnel<R, W>(
    client: &mut Client<'_, R, W>,
    ticks: u32,
    mut upstream: Box<Upstream>,
) -> After
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let side = (&mut client.reader, &mut client.writer, &mut client.inbound);
    match join(client.io, side, &mut upstream, ticks).await {
        Ok(()) => After::Close,
        Err(cause) => {
            client.count_failure(cause);
            After::Cut
        }
    }
}

/// Passes bytes between a client and an upstream until both sides have ended.
///
/// # Errors
/// If the drain timeout cuts the connection. Any other end is not an error.
pub(crate) async fn join<R, W>(
    io: Io<'_>,
    client: Side<'_, R, W>,
    upstream: &mut Upstream,
    ticks: u32,
) -> Result<(), Cause>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let passed = match &mut upstream.link {
        Link::Plain(stream) => {
            let (from, to) = PlainHalf::both(stream);
            pass_both(io, client, (from, to, &mut upstream.inbound), ticks).await
        }
        Link::Unix(stream) => {
            let (from, to) = stream.split();
            Box::pin(pass_both(io, client, (from, to, &mut upstream.inbound), ticks)).await
        }
        Link::Tls(stream) => {
            let half = SecureHalf(&**stream);
            Box::pin(pass_both(io, client, (half, half, &mut upstream.inbound), ticks)).await
        }
    };
    match passed {
        Err(IoFault::Timeout) if io.worker.wheel.is_over() => Err(Cause::Drained),
        _ => Ok(()),
    }
}

async fn pass_both<R, W, F, T>(
    io: Io<'_>,
    client: Side<'_, R, W>,
    upstream: Side<'_, F, T>,
    ticks: u32,
) -> Result<(), IoFault>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    F: AsyncRead + Unpin,
    T: AsyncWrite + Unpin,
{
    let (mut from_client, mut to_client, client_inbound) = client;
    let (mut from_upstream, mut to_upstream, upstream_inbound) = upstream;
    let mut up = pin!(pass(io, &mut from_client, client_inbound, &mut to_upstream, ticks));
    let mut down = pin!(pass(io, &mut from_upstream, upstream_inbound, &mut to_client, ticks));
    let (mut up_done, mut down_done) = (false, false);
    poll_fn(|cx| {
        for (pass, done) in
            [(up.as_mut() as Pin<&mut dyn Future<Output = _>>, &mut up_done), (down.as_mut(), &mut down_done)]
        {
            if !*done && let Poll::Ready(ended) = pass.poll(cx) {
                *done = true;
                if ended.is_err() {
                    return Poll::Ready(ended);
                }
            }
        }
        if up_done && down_done { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

/// Passes on the bytes of one direction. When `from` ends, closes the writing side of `to`.
async fn pass<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    io: Io<'_>,
    from: &mut R,
    buffer: &mut Buffer,
    to: &mut W,
    ticks: u32,
) -> Result<(), IoFault> {
    loop {
        if !buffer.is_empty() {
            io.write_all(to, buffer.data(), &mut 0, ticks).await?;
            buffer.consume(buffer.data().len());
        }
        // A task that never waits does not notice its deadline, so check it here.
        if io.timer.is_past_bound(&io.worker.wheel) {
            return Err(IoFault::Timeout);
        }
        if io.read(from, buffer, ticks).await? == 0 {
            return io.shut_down(to, ticks).await;
        }
    }
}
