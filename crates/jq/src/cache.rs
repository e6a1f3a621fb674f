//! The evaluators of many expressions. All evaluators share the same processes.

use std::{num::NonZeroUsize, sync::Arc};

use lru::LruCache;
use parking_lot::Mutex;

use super::{
    Evaluator, Program,
    pool::{Pool, at_once},
};

/// The most evaluators. A new evaluator replaces the least recently used one.
const EVALUATORS_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// The most processes, as a multiple of [`at_once`].
const PROCESSES_OF: usize = 16;

/// An evaluator for each expression in use. Cheap to clone.
#[derive(Clone)]
pub struct Evaluators(Arc<Inner>);

struct Inner {
    pool: Arc<Pool>,
    by_expression: Mutex<LruCache<String, Arc<Evaluator>>>,
}

impl Evaluators {
    /// An output longer than `output_bytes_max` is an error.
    pub fn new(output_bytes_max: usize, program: Program) -> Evaluators {
        Evaluators::with_processes(output_bytes_max, program, usize::MAX)
    }

    /// Like [`Evaluators::new`], with at most `most` processes.
    pub fn with_processes(output_bytes_max: usize, program: Program, most: usize) -> Evaluators {
        let most = most.min(PROCESSES_OF * at_once());
        let pool = Arc::new(Pool::new(output_bytes_max, program, most));
        let by_expression = Mutex::new(LruCache::new(EVALUATORS_MAX));
        Evaluators(Arc::new(Inner { pool, by_expression }))
    }

    /// The evaluator of this expression.
    pub fn of(&self, expression: &str) -> Arc<Evaluator> {
        let inner = &self.0;
        let mut known = inner.by_expression.lock();
        let new = || Arc::new(Evaluator::new(expression, inner.pool.clone()));
        known.get_or_insert_ref(expression, new).clone()
    }

    /// The process ids of the idle runners.
    pub fn idle(&self) -> Vec<u32> {
        self.0.pool.idle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_use_is_shared_and_the_oldest_makes_room_for_a_new_one() {
        let evaluators = Evaluators::new(1, Program::new("/nonexistent/reseq"));
        let first = evaluators.of("0");
        let second = evaluators.of("1");
        for number in 2..EVALUATORS_MAX.get() {
            evaluators.of(&number.to_string());
        }
        assert!(Arc::ptr_eq(&first, &evaluators.of("0")));
        evaluators.of("new");
        assert!(Arc::ptr_eq(&first, &evaluators.of("0")));
        assert!(!Arc::ptr_eq(&second, &evaluators.of("1")));
        assert_eq!(evaluators.0.by_expression.lock().len(), EVALUATORS_MAX.get());
    }
}
