use super::*;

fn chunk(len: usize) -> Bytes {
    Arc::new(vec![7; len])
}

#[test]
fn drops_what_was_used_longest_ago() {
    let cache = Cache::new(3 * (1000 + ENTRY));
    let id = cache.id();
    for start in 0..3 {
        cache.put(id, start, &chunk(1000));
    }
    assert!(cache.get(id, 0).is_some());
    cache.put(id, 3, &chunk(1000));
    assert!(cache.get(id, 1).is_none());
    assert!([0, 2, 3].iter().all(|start| cache.get(id, *start).is_some()));
    assert_eq!(cache.held(), cache.budget());
}

#[test]
fn keeps_nothing_larger_than_the_budget_and_counts_a_replaced_chunk_once() {
    let cache = Cache::new(2000);
    let id = cache.id();
    cache.put(id, 0, &chunk(1000));
    cache.put(id, 1, &chunk(2000));
    assert!(cache.get(id, 0).is_some() && cache.get(id, 1).is_none());
    cache.put(id, 0, &chunk(500));
    assert_eq!((cache.held(), cache.get(id, 0).unwrap().len()), (500 + ENTRY, 500));
}

#[test]
fn what_lies_far_behind_a_reader_makes_room_the_oldest_first() {
    let cache = Cache::new(1 << 20);
    let id = cache.id();
    let other = cache.id();
    for start in [0, 5, BEHIND] {
        cache.put(id, start, &chunk(10));
        cache.put(other, start, &chunk(10));
    }
    cache.read_on(id, BEHIND - 1);
    assert!(cache.get(id, 0).is_some()); // the lookup makes granule 0 the most recently used
    cache.read_on(id, BEHIND + 5);
    assert!(cache.get(id, 0).is_some() && cache.get(id, 5).is_none());
    cache.read_on(id, BEHIND + 5);
    cache.read_on(id, BEHIND + 5);
    assert!(cache.get(id, 0).is_none() && cache.get(id, BEHIND).is_some());
    assert!([0, 5, BEHIND].iter().all(|start| cache.get(other, *start).is_some()));
}

#[test]
fn what_lies_far_behind_a_reader_makes_room_beside_an_older_content() {
    let cache = Cache::new(1 << 20);
    let older = cache.id();
    let id = cache.id();
    for start in 0..3 * LOOKED_AT as u64 {
        cache.put(older, start, &chunk(10));
    }
    cache.put(id, 0, &chunk(10));
    cache.read_on(id, BEHIND);
    assert!(cache.get(id, 0).is_none() && cache.get(older, 0).is_some());
}

#[test]
fn forgets_one_content_and_leaves_the_others() {
    let cache = Cache::new(1 << 20);
    let one = cache.id();
    let other = cache.id();
    assert_ne!(one, other);
    for start in [0, 5, 0, 9] {
        cache.put(one, start, &chunk(10));
        cache.put(other, 0, &chunk(10));
    }
    cache.forget(one);
    assert!([0, 5, 9].iter().all(|start| cache.get(one, *start).is_none()));
    assert!(cache.get(other, 0).is_some());
    assert_eq!(cache.held(), 10 + ENTRY);
    assert_eq!(cache.state().of_content, [(other, 1)].into());
    cache.forget(one);
    cache.forget(other);
    assert!(cache.held() == 0 && cache.state().of_content.is_empty());
}

#[test]
fn work_in_flight_takes_up_to_half_of_the_budget_from_the_chunks() {
    let cache = Cache::with_threads(4 * (1000 + ENTRY), 2);
    let id = cache.id();
    for start in 0..4 {
        cache.put(id, start, &chunk(1000));
    }
    let one = cache.reserve(1000 + ENTRY).unwrap();
    assert!(cache.get(id, 0).is_none() && cache.get(id, 1).is_some());
    assert!(cache.reserve(1001 + ENTRY).is_none() && cache.reserve(u64::MAX).is_none());
    let other = cache.reserve(1000 + ENTRY).unwrap();
    cache.put(id, 4, &chunk(1000));
    assert_eq!(cache.held() + cache.reserved(), cache.budget());
    drop((one, other));
    assert_eq!(cache.reserved(), 0);
}

#[test]
fn a_few_chunks_stay_whatever_is_reserved_or_waits() {
    let cache = Cache::with_threads(8 << 20, 2);
    let id = cache.id();
    let _work = cache.demand(100 << 20);
    for start in 0..20 {
        cache.put(id, start, &chunk(256 << 10));
        assert!(cache.get(id, start).is_some());
    }
    assert!(cache.held() <= MIN_ROOM && cache.get(id, 17).is_some() && cache.get(id, 16).is_none());
}

#[test]
fn spare_buffers_are_bounded() {
    let cache = Cache::new(0);
    for len in [SPARE + 1, SPARE / 2, SPARE / 2, 100, 200] {
        cache.used(chunk(len));
    }
    assert_eq!(cache.state().spare_bytes, SPARE / 2 + 300);
    for _ in 0..100 {
        cache.used(chunk(5));
    }
    let kept = cache.state();
    assert_eq!((kept.spare.len(), kept.spare_bytes), (SPARES, SPARES * 5));
}

#[test]
fn a_buffer_is_used_again_only_when_no_reader_holds_it() {
    let cache = Cache::new(0);
    let bytes = chunk(10);
    cache.used(bytes.clone());
    assert_eq!(cache.buffer(10), [0; 10]);
    cache.used(bytes);
    assert_eq!(cache.buffer(11), [0; 11]);
    assert_eq!(cache.buffer(9), [7; 10]);
    assert_eq!(cache.buffer(9), [0; 9]);
}
