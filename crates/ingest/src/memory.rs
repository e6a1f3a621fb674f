//! Limits the memory for bodies on their way to Redis. Reads bodies as the limit allows.

use std::{sync::Arc, time::Duration};

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use bytes::BytesMut;
use futures::StreamExt;
use tokio::{
    sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore},
    time::sleep,
};

use formats::code::Code;
use http_server::problem::Problem;

/// The unit of accounting, in bytes.
const UNIT: usize = 1024;
/// This many bytes of a body are read before it needs a permit, so that short bodies never wait for slow, long bodies.
const READ_FIRST: usize = 64 << 10;
/// A long body that gets no memory within this time is refused.
const ROOM_WITHIN: Duration = Duration::from_secs(30);

/// The most bytes of bodies in calls to Redis at once. A call holds several copies of them: as records, as arguments,
/// and as the bytes to send.
const CALLS_BYTES_MAX: usize = 4 << 20;

/// The memory budget of one process. Cheap to clone.
///
/// A long body acquires memory as it arrives. All arriving bodies together get at most half of the budget. So complete
/// bodies, which wait only for Redis, never wait for a slow client. When this half is used up, one arriving body at a
/// time may exceed it, so that arriving bodies never all wait for each other.
#[derive(Clone)]
pub struct MemoryBudget {
    free: Arc<Semaphore>,
    arriving: Arc<Semaphore>,
    turn: Arc<Mutex<()>>,
    in_calls: Arc<Semaphore>,
    all: usize,
    room_within: Duration,
}

/// Acquired memory. It is released when the last clone is dropped.
#[derive(Clone)]
pub struct MemoryPermit {
    _held: Option<Arc<Held>>,
}

struct Held {
    _units: Option<OwnedSemaphorePermit>,
    /// Held by the one body that has less memory than it needs.
    _turn: Option<OwnedMutexGuard<()>>,
}

impl MemoryBudget {
    /// A budget of this many bytes.
    pub fn new(bytes_max: usize) -> MemoryBudget {
        let all = bytes_max / UNIT;
        let (free, arriving) = (Semaphore::new(all), Semaphore::new(all / 2));
        let (free, arriving, turn) = (Arc::new(free), Arc::new(arriving), Arc::default());
        let in_calls = Arc::new(Semaphore::new(CALLS_BYTES_MAX / UNIT));
        MemoryBudget { free, arriving, turn, in_calls, all, room_within: ROOM_WITHIN }
    }

    /// Waits for memory for this many bytes. A request larger than the budget takes all of it.
    pub async fn take(&self, bytes: usize) -> MemoryPermit {
        let units = self.units_of(bytes) as u32;
        // Fails only if the semaphore is closed, which never happens.
        let units = self.free.clone().acquire_many_owned(units).await.ok();
        MemoryPermit { _held: Some(Arc::new(Held { _units: units, _turn: None })) }
    }

    /// Waits until a call with bodies of this length may begin. A short call does not wait for long calls.
    pub async fn take_call(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if bytes <= READ_FIRST {
            return None;
        }
        let units = (bytes / UNIT).min(CALLS_BYTES_MAX / UNIT) as u32;
        self.in_calls.clone().acquire_many_owned(units).await.ok()
    }

    /// Memory for this many bytes, if twice as much is free now. The rest stays free for other requests.
    pub fn try_take(&self, bytes: usize) -> Option<MemoryPermit> {
        let units = self.units_of(bytes);
        let fits = units * 2 <= self.free.available_permits();
        let units = fits.then(|| self.free.clone().try_acquire_many_owned(units as u32).ok());
        let units = Some(units??);
        Some(MemoryPermit { _held: Some(Arc::new(Held { _units: units, _turn: None })) })
    }

    fn units_of(&self, bytes: usize) -> usize {
        (bytes / UNIT + 1).min(self.all)
    }

    /// Reads a body of at most `max` bytes, and acquires memory for it. Reads a short body at once, and the rest of a
    /// long body as memory becomes free.
    pub async fn read(&self, body: Body, max: usize) -> Result<(Bytes, MemoryPermit), Problem> {
        let declared = body.size_hint().exact().map(|bytes| bytes as usize);
        let mut coming = Coming { parts: body.into_data_stream(), length: 0, max };
        if declared.is_some_and(|bytes| bytes > max) {
            // Reads and discards the body until it exceeds `max`. So a client that sends the whole body before it reads
            // still gets the error.
            while coming.next().await?.is_some() {}
        }
        let mut parts = Vec::new();
        while coming.length <= READ_FIRST {
            let Some(part) = coming.next().await? else {
                let whole =
                    if parts.len() == 1 { parts.remove(0) } else { Bytes::from(parts.concat()) };
                let room = self.take(coming.length).await;
                return Ok((whole, room));
            };
            parts.push(part);
        }
        let mut arriving = Arriving::new(self);
        arriving.grow(coming.length).await?;
        let mut whole = BytesMut::with_capacity(coming.length);
        parts.drain(..).for_each(|part| whole.extend_from_slice(&part));
        while let Some(part) = coming.next().await? {
            arriving.grow(coming.length).await?;
            whole.extend_from_slice(&part);
        }
        Ok((whole.freeze(), arriving.complete()))
    }
}

/// The memory of a long body that is still arriving.
struct Arriving<'r> {
    memory: &'r MemoryBudget,
    /// The units that the body needs so far.
    count: usize,
    units: Option<OwnedSemaphorePermit>,
    share: Option<OwnedSemaphorePermit>,
    /// Set if the body may exceed the budget.
    turn: Option<OwnedMutexGuard<()>>,
    is_short: bool,
}

impl<'r> Arriving<'r> {
    fn new(memory: &'r MemoryBudget) -> Arriving<'r> {
        Arriving { memory, count: 0, units: None, share: None, turn: None, is_short: false }
    }

    /// Waits until the body has memory for this many bytes in total.
    async fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        let memory = self.memory;
        let more = memory.units_of(bytes).saturating_sub(self.count) as u32;
        if more == 0 {
            return Ok(());
        }
        if self.turn.is_none() {
            // A part larger than half the budget would wait forever.
            let fits = more as usize <= memory.all / 2;
            let share = async {
                match fits {
                    true => memory.arriving.clone().acquire_many_owned(more).await.ok(),
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                share = share => merge(&mut self.share, share),
                turn = memory.turn.clone().lock_owned() => self.turn = Some(turn),
                () = sleep(memory.room_within) => return Err(no_room()),
            }
        }
        let free = memory.free.clone();
        let units = match self.turn {
            // Does not wait: complete bodies release memory, but other arriving bodies may wait for this one.
            Some(_) => free.try_acquire_many_owned(more).ok(),
            None => free.acquire_many_owned(more).await.ok(),
        };
        self.is_short |= units.is_none();
        merge(&mut self.units, units);
        self.count += more as usize;
        Ok(())
    }

    /// Marks the body as complete: from now on, it waits only for Redis.
    fn complete(self) -> MemoryPermit {
        let turn = self.turn.filter(|_| self.is_short);
        MemoryPermit { _held: Some(Arc::new(Held { _units: self.units, _turn: turn })) }
    }
}

fn merge(all: &mut Option<OwnedSemaphorePermit>, more: Option<OwnedSemaphorePermit>) {
    match (all.as_mut(), more) {
        (Some(all), Some(more)) => all.merge(more),
        (None, more) => *all = more,
        (Some(_), None) => {}
    }
}

/// A body that is being read.
struct Coming {
    parts: BodyDataStream,
    length: usize,
    max: usize,
}

impl Coming {
    /// The next part, or `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let Some(part) = self.parts.next().await else { return Ok(None) };
        let part = part.map_err(|_| Problem::broken_body())?;
        self.length += part.len();
        if self.length > self.max { Err(Problem::body_too_large(self.max)) } else { Ok(Some(part)) }
    }
}

fn no_room() -> Problem {
    let detail = "this pod holds as many bytes of arrivals as it may (ingest.bytes_in_flight_max); \
                  nothing was taken, send the same again later or to another pod";
    Problem::new(Code::NoRoom, detail)
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, stream};

    use super::*;

    /// A body of parts with these lengths, without a declared length.
    fn body(parts: &[usize]) -> Body {
        let parts: Vec<_> =
            parts.iter().map(|len| Ok::<_, std::io::Error>(vec![7; *len])).collect();
        Body::from_stream(stream::iter(parts))
    }

    fn free(memory: &MemoryBudget) -> usize {
        memory.free.available_permits()
    }

    #[tokio::test]
    async fn body_keeps_room_of_its_length_until_its_last_permit_drops() {
        let memory = MemoryBudget::new(1 << 20);
        for parts in [&[][..], &[10], &[30_000, 30_000], &[READ_FIRST, 1], &[90_000, 10_000]] {
            let length: usize = parts.iter().sum();
            let (bytes, room) = memory.read(body(parts), 500_000).await.unwrap();
            assert_eq!((bytes.len(), free(&memory)), (length, 1024 - (length / 1024 + 1)));
            let another = room.clone();
            drop(room);
            assert!(free(&memory) < 1024);
            drop(another);
            assert_eq!(free(&memory), 1024);
        }
        let (bytes, _permit) = memory.read(Body::from(vec![7; 200_000]), 500_000).await.unwrap();
        assert_eq!((bytes.len(), free(&memory)), (200_000, 1024 - 196));
    }

    /// A body that never ends, after a first part of this length.
    fn endless(length: usize) -> Body {
        let first = stream::iter([Ok::<_, std::io::Error>(vec![7; length])]);
        Body::from_stream(first.chain(stream::pending()))
    }

    #[tokio::test]
    async fn bodies_that_only_announce_their_length_take_no_room() {
        let memory = MemoryBudget::new(1 << 20);
        let mut announced = Vec::new();
        for _ in 0..300 {
            let mut one = Box::pin(memory.read(endless(100), 1 << 20));
            assert!(one.as_mut().now_or_never().is_none());
            announced.push(one);
        }
        assert_eq!(free(&memory), 1024);
        let long = memory.read(body(&[READ_FIRST, READ_FIRST]), 1 << 20).now_or_never();
        assert_eq!(long.unwrap().unwrap().0.len(), 2 * READ_FIRST);
    }

    #[tokio::test]
    async fn what_is_complete_has_room_however_much_is_arriving() {
        let memory = MemoryBudget::new(1 << 20);
        let mut arriving = Vec::new();
        for _ in 0..20 {
            let mut one = Box::pin(memory.read(endless(100 << 10), 1 << 20));
            assert!(one.as_mut().now_or_never().is_none());
            arriving.push(one);
        }
        // Half of the budget, and one body beyond that.
        assert!(free(&memory) >= 1024 - 512 - 101, "{}", free(&memory));
        let small = memory.read(body(&[10]), 1 << 20).now_or_never();
        assert_eq!(small.unwrap().unwrap().0.len(), 10);
        drop(arriving);
        assert_eq!(free(&memory), 1024);
    }

    #[tokio::test]
    async fn bodies_that_each_hold_a_part_all_come_to_their_end() {
        let memory = MemoryBudget::new(1 << 20);
        // Together a multiple of the budget; each longer than half of it, one longer than all of
        // it.
        let lengths = [700, 700, 700, 700, 700, 1300].map(|kib| vec![50 << 10; kib / 50]);
        let reads = lengths.iter().map(|parts| async {
            let (bytes, room) = memory.read(body(parts), 2 << 20).await.unwrap();
            drop(room);
            bytes.len()
        });
        let read = futures::future::join_all(reads).await;
        let sums: Vec<usize> = lengths.iter().map(|parts| parts.iter().sum()).collect();
        assert_eq!((read, free(&memory)), (sums, 1024));
        assert_eq!(memory.arriving.available_permits(), 512);
    }

    #[tokio::test]
    async fn body_over_the_budget_lets_no_second_one_exceed_it() {
        let memory = MemoryBudget::new(1 << 20);
        let (_, _whole) = memory.read(body(&[1 << 20, 1 << 20]), 4 << 20).await.unwrap();
        let (_, short) = memory.read(body(&[600 << 10]), 4 << 20).await.unwrap();
        let mut other = Box::pin(memory.read(body(&[600 << 10]), 4 << 20));
        assert!(other.as_mut().now_or_never().is_none());
        drop(short);
        assert_eq!(other.await.unwrap().0.len(), 600 << 10);
    }

    #[tokio::test]
    async fn long_body_without_room_is_refused_until_there_is_room() {
        let memory = MemoryBudget { room_within: Duration::ZERO, ..MemoryBudget::new(1 << 20) };
        let mut endless_ones =
            [500, 500].map(|kib| Box::pin(memory.read(endless(kib << 10), 1 << 20)));
        for one in &mut endless_ones {
            assert!(one.as_mut().now_or_never().is_none());
        }
        let problem = memory.read(body(&[100 << 10]), 1 << 20).await.err().unwrap();
        assert_eq!((problem.status.as_u16(), problem.code.as_str()), (503, "no_room"));
        assert!(problem.retry_after().is_some());
        drop(endless_ones);
        assert_eq!(memory.read(body(&[100 << 10]), 1 << 20).await.unwrap().0.len(), 100 << 10);
    }

    #[tokio::test]
    async fn too_long_or_broken_body_is_refused_and_takes_no_room() {
        let memory = MemoryBudget::new(1 << 20);
        let broken = [Ok(vec![7; 10]), Err(std::io::Error::other("gone"))];
        for (body, code) in [
            (Body::from(vec![7; 1001]), "body_too_large"),
            (body(&[600, 600]), "body_too_large"),
            (Body::from_stream(stream::iter(broken)), "invalid_body"),
        ] {
            let problem = memory.read(body, 1000).await.err().unwrap();
            assert_eq!((problem.code.as_str(), free(&memory)), (code, 1024));
        }
    }
}
