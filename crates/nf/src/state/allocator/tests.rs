//! Allocators alone, divided among shards, and with indices that are leased or at home somewhere.

use super::*;
use crate::state::homes::Homes;

const TICK: u64 = 1 << 20;

/// Two workers' allocators of eight indices, at home in two shards by turns; and where they are.
fn two_workers() -> [(Allocator<u16>, Environment); 2] {
    let homes = Arc::new(Homes::new(vec![0, 1], 2).unwrap());
    let loans = Arc::new(Loans::new(homes, true));
    [1, 2].map(|seed| {
        let mut environment = Environment::new(seed);
        let mut allocator = Allocator::new(8);
        allocator.steer(Arc::clone(&loans));
        let here = Arc::clone(environment.here());
        allocator.divide(&Ward { scope: Scope::Sharded, here, workers: 2 });
        environment.begin(0, 0);
        (allocator, environment)
    })
}

#[test]
fn a_shard_without_free_indices_borrows_and_packets_are_told() {
    let [(mut a, at_a), (mut b, at_b)] = two_workers();
    at_a.enter_shard(0);
    let given: Vec<_> = (0..5).map(|_| a.allocate(7, 9 * TICK, &at_a)).collect();
    assert_eq!(given, [Some(0), Some(2), Some(4), Some(6), Some(7)], "the last is borrowed");
    assert_eq!(a.touch(7, &at_a), Some(7));
    at_b.enter_shard(1);
    assert_eq!((b.touch(7, &at_b), at_b.astray()), (None, Some(0)));
    at_b.enter_shard(1);
    assert_eq!((b.get(3, &at_b), at_b.astray()), (None, None), "nobody has that");
    let own: Vec<_> = (0..4).map(|_| b.allocate(8, 9 * TICK, &at_b)).collect();
    assert_eq!(own, [Some(1), Some(3), Some(5), None]);
    assert!(a.free(7));
    at_b.enter_shard(1);
    assert_eq!((b.get(7, &at_b), at_b.astray()), (None, None));
    assert_eq!(b.allocate(8, 9 * TICK, &at_b), Some(7), "back at home");
}

#[test]
fn to_another_shard_of_the_same_worker_nothing_is_under_a_borrowed_index() {
    let [(mut a, at_a), (mut b, at_b)] = two_workers();
    at_a.enter_shard(0);
    assert!((0..5).all(|_| a.allocate(7, 9 * TICK, &at_a).is_some()));
    at_a.enter_shard(1);
    assert_eq!((a.touch(7, &at_a), at_a.astray()), (None, Some(0)));
    at_a.enter_shard(1);
    assert_eq!((a.get(7, &at_a), at_a.astray()), (None, Some(0)));
    at_a.enter_shard(1);
    assert!(!a.set(7, 9) && at_a.astray() == Some(0));
    let mut bundle = Bundle::new([0].into_iter().collect(), 0);
    a.take_shards(&mut bundle);
    let shift = bundle.shift(0);
    b.put_shards(&mut bundle, shift);
    at_b.enter_shard(0);
    assert_eq!((b.touch(7, &at_b), at_b.astray()), (Some(7), None), "it goes with its shard");
    at_a.enter_shard(1);
    assert_eq!((a.touch(7, &at_a), at_a.astray()), (None, Some(0)));
    assert_eq!(a.len(), 0);
}

#[test]
fn a_shard_is_given_what_is_at_home_there() {
    let mut environment = Environment::new(1);
    let mut allocator = Allocator::<u16>::new(8);
    let homes = Arc::new(Homes::new(vec![0, 1, 1, 0], 2).unwrap());
    allocator.steer(Arc::new(Loans::new(homes, false)));
    let mut allocate = |environment: &Environment| allocator.allocate(7, TICK, environment);
    environment.begin(0, 0);
    environment.enter_shard(1);
    let given: Vec<_> = (0..5).map(|_| allocate(&environment)).collect();
    assert_eq!(given, [Some(1), Some(2), Some(5), Some(6), None]);
    environment.enter_shard(0);
    assert_eq!(allocate(&environment), Some(7), "from where it stopped");
    environment.begin_event(0);
    assert_eq!(allocate(&environment), None, "a timer is in no shard");
    assert_eq!(environment.allocations(), 5);
    environment.enter_shard(1);
    assert!(!allocator.allocate_at(3, 7, TICK, &environment), "at home in another shard");
    environment.enter_every_shard();
    assert!(allocator.allocate_at(3, 7, TICK, &environment));
}

/// However many there are, and wherever: steered, leased, come from another worker.
#[test]
fn a_later_origin_moves_the_end_of_all_that_is_there() {
    let [(mut steered, at), (mut moved, _)] = two_workers();
    let [mut plain, mut leased] = [(); 2].map(|()| Allocator::new(200));
    let here = Arc::clone(at.here());
    leased.divide(&Ward { scope: Scope::Leased(Arc::default()), here, workers: 2 });
    at.enter_shard(0);
    for one in [&mut plain, &mut leased, &mut steered] {
        assert!((1..6).all(|age| one.allocate(7, age * TICK, &at).is_some()));
        assert!(one.free(2));
    }
    assert!(leased.allocate_at(150, 7, TICK, &at) && plain.allocate_at(150, 7, TICK, &at));
    let mut bundle = Bundle::new([0].into_iter().collect(), 0);
    steered.take_shards(&mut bundle);
    let shift = bundle.shift(0);
    moved.put_shards(&mut bundle, shift);
    let ends = |of: &Allocator<u16>| -> Vec<Tick> {
        of.objects.iter().map(|object| object.deadline.tick()).collect()
    };
    for (one, count) in [(&mut plain, 5), (&mut leased, 5), (&mut steered, 0), (&mut moved, 4)] {
        let before = ends(one);
        one.rebase(2);
        let wanted: Vec<_> = before.iter().map(|end| rebased(*end, 2)).collect();
        assert_eq!(ends(one), wanted);
        assert_eq!(wanted.iter().filter(|end| **end != 0).count(), count);
        assert_eq!(before != wanted, count > 0);
    }
}

#[test]
fn a_touch_restarts_the_lifetime_last_given() {
    let mut environment = Environment::new(1);
    let mut allocator = Allocator::<u16>::new(4);
    environment.begin(0, 0);
    let index = allocator.allocate(7, 10 * TICK, &environment).unwrap();
    environment.begin(9 * TICK, 1);
    assert_eq!(allocator.touch(index, &environment), Some(7));
    environment.begin(18 * TICK, 2);
    assert!(allocator.refresh(index, 3 * TICK, &environment));
    environment.begin(20 * TICK, 3);
    assert_eq!(allocator.touch(index, &environment), Some(7));
    environment.begin(23 * TICK, 4);
    assert_eq!(allocator.touch(index, &environment), None, "its end has come");
    environment.begin(1_000 * TICK, 5);
    assert_eq!(allocator.expire(&environment, &mut 8), Some((index, 7)));
    assert_eq!(allocator.touch(99, &environment), None);
}

/// What a kill leaves between telling the store of one's end and of the other's beginning: both have it.
fn restored_twice(pair: [(Allocator<u16>, Environment); 2], index: u32) {
    use crate::state::journal::{Journaled as _, Moment, stored};
    let [(mut a, at_a), (mut b, at_b)] = pair;
    let (key, value) = (stored(&index), stored(&(1_000u64, 900u32, 7u16)));
    at_a.enter_shard(0);
    assert!(a.restore(&key, &value, &Moment::new(0)));
    at_b.enter_shard(1);
    assert!(!b.restore(&key, &value, &Moment::new(0)), "it is the other's");
    assert_eq!((a.len(), b.len(), b.get(index, &at_b)), (1, 0, None));
    assert!(!b.free(index));
    let given: Vec<u32> = std::iter::from_fn(|| b.allocate(8, 99 * TICK, &at_b)).collect();
    assert_eq!(given.len() as u32, b.capacity() - 1, "all others");
    assert!(!given.contains(&index) && a.get(index, &at_a) == Some(7));
    // When its object has ended, anybody may have it.
    at_a.enter_shard(0);
    assert!(a.free(index));
    at_b.enter_shard(1);
    assert_eq!(b.allocate(9, 99 * TICK, &at_b), Some(index));
}

/// A small pool is no one worker's.
#[test]
fn of_a_small_pool_every_worker_finds_some() {
    let commons: Arc<Commons> = Arc::default();
    let mut workers = [1, 2, 3, 4].map(|seed| {
        let mut environment = Environment::new(seed);
        let mut allocator = Allocator::new(40);
        let here = Arc::clone(environment.here());
        allocator.divide(&Ward { scope: Scope::Leased(Arc::clone(&commons)), here, workers: 4 });
        environment.begin(0, 0);
        (allocator, environment)
    });
    let mut given = std::collections::BTreeSet::new();
    let mut refused = 0;
    for _ in 0..10 {
        for (allocator, at) in &mut workers {
            at.enter_shard(1);
            match allocator.allocate(0, 99 * TICK, at) {
                Some(index) => assert!(given.insert(index), "given out twice"),
                None => refused += 1,
            }
        }
    }
    assert_eq!((given.len(), refused), (40, 0));
}

#[test]
fn what_two_shards_have_in_a_store_is_one_shard_s() {
    restored_twice(two_workers(), 1);
    restored_twice(two_workers(), 0);
    let commons: Arc<Commons> = Arc::default();
    let leasing = [1, 2].map(|seed| {
        let mut environment = Environment::new(seed);
        let mut allocator = Allocator::new(64);
        let here = Arc::clone(environment.here());
        allocator.divide(&Ward { scope: Scope::Leased(Arc::clone(&commons)), here, workers: 2 });
        environment.begin(0, 0);
        (allocator, environment)
    });
    restored_twice(leasing, 5);
}
