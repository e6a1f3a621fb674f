//! Splits a list of items into calls with a limited number of items and bytes.

/// Splits items into calls of at most `count_max` items and about `bytes_max` bytes, which a connection can carry in
/// time. An item that is larger gets a call of its own.
pub fn chunks_by_size<T>(
    items: &[T],
    count_max: usize,
    bytes_max: usize,
    size: impl Fn(&T) -> usize,
) -> Vec<&[T]> {
    let mut calls = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, item) in items.iter().enumerate() {
        if at > start && (at - start == count_max || bytes + size(item) > bytes_max) {
            calls.push(&items[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += size(item);
    }
    if start < items.len() {
        calls.push(&items[start..]);
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_bounded_by_count_and_by_bytes_and_keep_the_order() {
        let sizes = [1, 1, 1, 9, 5, 5, 1];
        let calls = chunks_by_size(&sizes, 2, 8, |size| *size);
        assert_eq!(calls, [&[1, 1][..], &[1], &[9], &[5], &[5, 1]]);
        assert!(chunks_by_size(&[], 2, 8, |size: &usize| *size).is_empty());
    }
}
