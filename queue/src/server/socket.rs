//! One waiting fan's WebSocket: told the position every few seconds and at once when something happens.
//!
//! Being told is also the heartbeat, so whoever stops answering pings is let go, or an absent fan would keep the place.
//! A socket costs little while idle: small buffers, and at most one message under way.

use crate::rooms::{Listening, Room};
use crate::server::Context;
use crate::server::answer::State;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use domain::ids::UserId;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Bytes read at once, and the longest message a client may send: it has nothing to say.
const READ_BYTES: usize = 1_024;
/// The most that may wait to be written.
const WRITE_BYTES: usize = 16 * 1_024;
/// How long one message may take to leave.
const SEND_PATIENCE: Duration = Duration::from_secs(10);
/// How long a closing client may take to say goodbye.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
/// Without a sign of life for so many pushes, the client is gone.
const SILENT_PUSHES: u32 = 3;
/// More messages than this between two pushes is not a waiting fan.
const MAX_CHATTER: u32 = 64;

/// Whose socket this is.
pub(crate) struct Seat {
    pub(crate) room: Arc<Room>,
    pub(crate) user: UserId,
    pub(crate) session: String,
    pub(crate) listening: Listening,
}

/// Why a socket ends.
enum End {
    /// The client left, or its connection broke.
    Gone,
    /// The server says goodbye first.
    Close(u16, &'static str),
}

/// Upgrade, and serve the socket in a task of its own.
pub(crate) fn accept(context: Arc<Context>, upgrade: WebSocketUpgrade, seat: Seat) -> Response {
    let token = context.sockets.token();
    upgrade
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(WRITE_BYTES)
        .max_message_size(READ_BYTES)
        .max_frame_size(READ_BYTES)
        .on_upgrade(move |mut socket| async move {
            let _until_done = token;
            let event = seat.room.view().gate.event;
            context.metrics.socket_opened(event);
            let Err(end) = serve(&context, &seat, &mut socket).await;
            if let End::Close(code, reason) = end {
                close(&mut socket, code, reason).await;
            }
            context.metrics.socket_closed(event);
        })
}

/// Serve until there is a reason to end.
async fn serve(context: &Context, seat: &Seat, socket: &mut WebSocket) -> Result<Infallible, End> {
    let mut phases = seat.room.phases();
    let mut heard = Instant::now();
    loop {
        tell(context, seat, socket).await?;
        let next_push = Instant::now() + context.push_every;
        let mut chatter = 0;
        loop {
            tokio::select! {
                biased;
                () = context.shutdown.cancelled() => {
                    return Err(End::Close(close_code::AWAY, "this server is stopping"));
                }
                frame = socket.recv() => match frame {
                    Some(Ok(Message::Close(_))) | Some(Err(_)) | None => return Err(End::Gone),
                    Some(Ok(_)) => {
                        heard = Instant::now();
                        chatter += 1;
                        if chatter > MAX_CHATTER {
                            return Err(End::Close(close_code::POLICY, "too many messages"));
                        }
                    }
                },
                () = seat.listening.news() => break,
                _changed = phases.changed() => break,
                () = tokio::time::sleep_until(next_push) => {
                    if heard.elapsed() > context.push_every * SILENT_PUSHES {
                        return Err(End::Close(close_code::POLICY, "no answer to pings"));
                    }
                    send(socket, Message::Ping(Vec::new().into())).await?;
                    break;
                }
            }
        }
    }
}

/// Tell the fan where they stand.
async fn tell(context: &Context, seat: &Seat, socket: &mut WebSocket) -> Result<(), End> {
    let (text, state) = match context.answer(&seat.room, &seat.user, &seat.session, false).await {
        Ok(answer) => (serde_json::to_string(&answer), Some(answer.state)),
        // The place is in Redis, not in this socket: say so, and go on.
        Err(refusal) => (Ok(refusal.body().to_string()), None),
    };
    let text = text.expect("an answer is plain data, which always serialises");
    send(socket, Message::Text(Utf8Bytes::from(text))).await?;
    if state.is_some_and(State::is_final) {
        return Err(End::Close(close_code::NORMAL, "the queue is closed"));
    }
    Ok(())
}

async fn send(socket: &mut WebSocket, message: Message) -> Result<(), End> {
    match tokio::time::timeout(SEND_PATIENCE, socket.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(End::Gone),
    }
}

/// Say goodbye and wait a moment for the client's, so that it reads ours.
async fn close(socket: &mut WebSocket, code: u16, reason: &'static str) {
    let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
    let goodbye = async {
        if socket.send(Message::Close(Some(frame))).await.is_ok() {
            while let Some(Ok(_)) = socket.recv().await {}
        }
    };
    let _patience_over = tokio::time::timeout(CLOSE_PATIENCE, goodbye).await;
}
