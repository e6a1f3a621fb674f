//! The evaluators of many expressions. Those that nobody uses go.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{Evaluator, Program};

/// An evaluator that was not used for this time is dropped, with its processes.
const IDLE: Duration = Duration::from_secs(60);
/// The most evaluators. The one that was not used for the longest time makes room for a new one.
const EVALUATORS_MAX: usize = 256;

/// An evaluator for each expression in use. Cheap to clone.
#[derive(Clone)]
pub struct Evaluators(Arc<Inner>);

struct Inner {
    program: Program,
    output_bytes_max: usize,
    cache: Mutex<Cache<Evaluator>>,
}

impl Evaluators {
    /// No output may be longer than `output_bytes_max`.
    pub fn new(output_bytes_max: usize, program: Program) -> Evaluators {
        Evaluators(Arc::new(Inner { program, output_bytes_max, cache: Mutex::default() }))
    }

    /// The evaluator of this expression.
    pub fn of(&self, expression: &str) -> Arc<Evaluator> {
        let inner = &self.0;
        let mut cache = inner.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let evaluator = cache.get(expression, Instant::now(), || {
            Evaluator::new(expression.to_owned(), inner.output_bytes_max, inner.program.clone())
        });
        if !cache.is_swept {
            cache.is_swept = true;
            tokio::spawn(sweep(Arc::downgrade(inner)));
        }
        evaluator
    }
}

/// Drops idle evaluators, until there is none left.
async fn sweep(inner: Weak<Inner>) {
    loop {
        sleep(IDLE).await;
        let Some(inner) = inner.upgrade() else { return };
        let mut cache = inner.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.expire(Instant::now());
        if cache.by_expression.is_empty() {
            cache.is_swept = false;
            return;
        }
    }
}

/// Values by expression, and when each was last used.
struct Cache<T> {
    by_expression: HashMap<String, (Arc<T>, Instant)>,
    /// True while a task drops idle ones.
    is_swept: bool,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Cache { by_expression: HashMap::new(), is_swept: false }
    }
}

impl<T> Cache<T> {
    fn get(&mut self, expression: &str, now: Instant, make: impl FnOnce() -> T) -> Arc<T> {
        if let Some((value, used)) = self.by_expression.get_mut(expression) {
            *used = now;
            return value.clone();
        }
        if self.by_expression.len() >= EVALUATORS_MAX {
            let oldest = self.by_expression.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(expression, _)| expression.clone()) {
                self.by_expression.remove(&oldest);
            }
        }
        let value = Arc::new(make());
        self.by_expression.insert(expression.to_owned(), (value.clone(), now));
        value
    }

    fn expire(&mut self, now: Instant) {
        self.by_expression.retain(|_, (_, used)| now.duration_since(*used) < IDLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_use_is_shared_and_one_that_is_idle_goes() {
        let (mut cache, begun) = (Cache::default(), Instant::now());
        let first = cache.get(".a", begun, || 1);
        assert_eq!((*first, *cache.get(".b", begun, || 2)), (1, 2));
        let later = begun + IDLE / 2;
        assert!(Arc::ptr_eq(&first, &cache.get(".a", later, || 3)));
        cache.expire(begun + IDLE);
        assert_eq!(cache.by_expression.len(), 1);
        assert_eq!(*cache.get(".a", later, || 3), 1);
        cache.expire(later + IDLE);
        assert!(cache.by_expression.is_empty());
    }

    #[test]
    fn the_oldest_makes_room_for_a_new_one() {
        let (mut cache, begun) = (Cache::default(), Instant::now());
        for number in 0..EVALUATORS_MAX {
            cache.get(&number.to_string(), begun + Duration::from_secs(number as u64), || number);
        }
        let now = begun + Duration::from_secs(1000);
        cache.get("0", now, || 1000);
        cache.get("new", now, || 1000);
        assert_eq!(cache.by_expression.len(), EVALUATORS_MAX);
        let left = |name: &str| cache.by_expression.contains_key(name);
        assert!(left("0") && !left("1") && left("2") && left("new"));
    }
}
