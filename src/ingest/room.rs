//! Room for the bodies that a process holds on their way into Redis, and the reading of bodies as
//! there is room for them.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, BodyDataStream, Bytes, HttpBody},
    http::StatusCode,
};
use bytes::BytesMut;
use futures::StreamExt;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::wire::problem::Problem;

/// Memory is counted in these, in bytes.
const UNIT: usize = 1024;
/// What is read of a body before there is room for all of it, in bytes.
const READ_FIRST: usize = 64 << 10;
/// A body for which there is room comes within this time: others wait for what it takes.
const COMES_WITHIN: Duration = Duration::from_secs(60);

/// The room of one process. Cheap to clone.
#[derive(Clone)]
pub struct Rooms {
    free: Arc<Semaphore>,
    all: usize,
    comes_within: Duration,
}

/// Room that is taken, until the last clone of it is dropped.
#[derive(Clone)]
pub struct Room {
    _units: Option<Arc<OwnedSemaphorePermit>>,
}

impl Rooms {
    /// Room for so many bytes.
    pub fn new(bytes_max: usize) -> Rooms {
        let all = bytes_max / UNIT;
        Rooms { free: Arc::new(Semaphore::new(all)), all, comes_within: COMES_WITHIN }
    }

    /// Waits for room for so many bytes. What is longer than all there is takes all there is.
    pub async fn take(&self, bytes: usize) -> Room {
        Room { _units: self.units(bytes).await.map(Arc::new) }
    }

    /// None only if the semaphore were closed, which it never is.
    async fn units(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = self.units_of(bytes) as u32;
        self.free.clone().acquire_many_owned(units).await.ok()
    }

    fn units_of(&self, bytes: usize) -> usize {
        (bytes / UNIT + 1).min(self.all)
    }

    /// Reads a body of at most `max` bytes, and takes the room for it. A short one is read at once;
    /// of a long one the rest is read when there is room for all that it may be.
    pub async fn read(&self, body: Body, max: usize) -> Result<(Bytes, Room), Problem> {
        let declared = body.size_hint().exact().map(|bytes| bytes as usize);
        let mut coming = Coming { parts: body.into_data_stream(), length: 0, max };
        if declared.is_some_and(|bytes| bytes > max) {
            // Whoever sends first and listens then is to hear it: this ends with the problem.
            while coming.next().await?.is_some() {}
        }
        let mut parts = Vec::new();
        if declared.is_none_or(|bytes| bytes <= READ_FIRST) {
            while coming.length <= READ_FIRST {
                let Some(part) = coming.next().await? else {
                    let whole = if parts.len() == 1 {
                        parts.remove(0)
                    } else {
                        Bytes::from(parts.concat())
                    };
                    let room = self.take(coming.length).await;
                    return Ok((whole, room));
                };
                parts.push(part);
            }
        }
        let most = declared.unwrap_or(max);
        let mut units = self.units(most).await;
        let mut whole = BytesMut::with_capacity(most);
        parts.iter().for_each(|part| whole.extend_from_slice(part));
        let rest = async {
            while let Some(part) = coming.next().await? {
                whole.extend_from_slice(&part);
            }
            Ok(())
        };
        timeout(self.comes_within, rest).await.unwrap_or_else(|_| Err(late()))?;
        // One without a length is mostly shorter than it might have been.
        let unused = self.units_of(most) - self.units_of(coming.length);
        drop(units.as_mut().and_then(|units| units.split(unused)));
        Ok((whole.freeze(), Room { _units: units.map(Arc::new) }))
    }
}

/// A body that is being read.
struct Coming {
    parts: BodyDataStream,
    length: usize,
    max: usize,
}

impl Coming {
    /// Its next part; none at its end.
    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let Some(part) = self.parts.next().await else { return Ok(None) };
        let part = part.map_err(|_| Problem::broken_body(StatusCode::BAD_REQUEST))?;
        self.length += part.len();
        if self.length > self.max { Err(Problem::body_too_large(self.max)) } else { Ok(Some(part)) }
    }
}

fn late() -> Problem {
    let seconds = COMES_WITHIN.as_secs();
    let detail = format!("the body did not come to its end within {seconds} s; nothing was taken");
    Problem::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", detail)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::{FutureExt, stream};

    use super::*;

    /// A body of parts of so many bytes, without a length.
    fn body(parts: &[usize]) -> Body {
        let parts: Vec<_> =
            parts.iter().map(|len| Ok::<_, std::io::Error>(vec![7; *len])).collect();
        Body::from_stream(stream::iter(parts))
    }

    fn free(rooms: &Rooms) -> usize {
        rooms.free.available_permits()
    }

    #[tokio::test]
    async fn what_is_read_keeps_the_room_of_its_length_and_gives_it_back_at_last() {
        let rooms = Rooms::new(1 << 20);
        for parts in [&[][..], &[10], &[30_000, 30_000], &[READ_FIRST, 1], &[90_000, 10_000]] {
            let length: usize = parts.iter().sum();
            let (bytes, room) = rooms.read(body(parts), 500_000).await.unwrap();
            assert_eq!((bytes.len(), free(&rooms)), (length, 1024 - (length / 1024 + 1)));
            let another = room.clone();
            drop(room);
            assert!(free(&rooms) < 1024);
            drop(another);
            assert_eq!(free(&rooms), 1024);
        }
        let (bytes, _room) = rooms.read(Body::from(vec![7; 200_000]), 500_000).await.unwrap();
        assert_eq!((bytes.len(), free(&rooms)), (200_000, 1024 - 196));
    }

    #[tokio::test]
    async fn a_long_body_is_read_on_when_there_is_room_for_all_that_it_may_be() {
        let rooms = Rooms::new(1 << 20);
        let taken = rooms.take(900_000).await;
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let parts = stream::iter([READ_FIRST, 1, 1]).map(move |length| {
            counted.fetch_add(length, Ordering::Relaxed);
            Ok::<_, std::io::Error>(vec![7; length])
        });
        let mut long = Box::pin(rooms.read(Body::from_stream(parts), 500_000));
        assert!(long.as_mut().now_or_never().is_none());
        assert_eq!(asked.load(Ordering::Relaxed), READ_FIRST + 1);
        drop(taken);
        assert_eq!(long.await.unwrap().0.len(), READ_FIRST + 2);
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_gives_its_room_to_others() {
        let rooms = Rooms { comes_within: Duration::ZERO, ..Rooms::new(1 << 20) };
        let first = stream::iter([Ok::<_, std::io::Error>(vec![7; READ_FIRST + 1])]);
        let never = Body::from_stream(first.chain(stream::pending()));
        let problem = rooms.read(never, 1 << 20).await.err().unwrap();
        assert_eq!((problem.status.as_u16(), problem.code), (408, "body_timeout"));
        assert_eq!(free(&rooms), 1024);
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_or_broken_is_refused_and_takes_nothing() {
        let rooms = Rooms::new(1 << 20);
        let broken = [Ok(vec![7; 10]), Err(std::io::Error::other("gone"))];
        for (body, code) in [
            (Body::from(vec![7; 1001]), "body_too_large"),
            (body(&[600, 600]), "body_too_large"),
            (Body::from_stream(stream::iter(broken)), "invalid_body"),
        ] {
            let problem = rooms.read(body, 1000).await.err().unwrap();
            assert_eq!((problem.code, free(&rooms)), (code, 1024));
        }
    }
}
