//! What a search keeps of where it has been, in flat arrays: their memory is known to the byte,
//! growing them stops when the time is up, and giving them back takes no time.

use super::memory::Reservation;
use crate::{Budget, Exhausted};

/// What is looked up: a configuration, or what several have in common.
pub(crate) trait Key: Copy + PartialEq {
    /// Stands for none.
    const FREE: Self;

    /// Whether it is [`Key::FREE`].
    fn is_free(&self) -> bool;

    /// A hash whose low bits are good.
    fn hash(&self) -> u64;
}

/// A hash table with open addressing.
pub(crate) struct Visited<'b, K, T> {
    slots: Vec<(K, T)>,
    len: usize,
    memory: Reservation<'b>,
}

/// Slots of the smallest table.
const SLOTS_MIN: usize = 16;

/// How many slots are filled or moved between looks at the clock.
const SLOTS_PER_LOOK: usize = 1 << 14;

impl<'b, K: Key, T: Copy + Default> Visited<'b, K, T> {
    pub(crate) const fn new(budget: &'b Budget) -> Self {
        Self { slots: Vec::new(), len: 0, memory: Reservation::new(budget) }
    }

    /// What is kept of a key, and whether the key is new.
    #[inline]
    pub(crate) fn entry(&mut self, key: K) -> Result<(&mut T, bool), Exhausted> {
        // Two thirds full at most.
        if self.len * 3 >= self.slots.len() * 2 {
            self.grow()?;
        }
        let at = self.find(&key);
        let slot = &mut self.slots[at];
        let new = slot.0.is_free();
        if new {
            slot.0 = key;
            self.len += 1;
        }
        Ok((&mut slot.1, new))
    }

    /// Where a key is or would go.
    #[inline]
    fn find(&self, key: &K) -> usize {
        find(&self.slots, key)
    }

    #[cold]
    fn grow(&mut self) -> Result<(), Exhausted> {
        let len = (self.slots.len() * 2).max(SLOTS_MIN);
        let bytes = |slots: usize| (slots * size_of::<(K, T)>()) as u64;
        // Old and new exist side by side for a moment.
        self.memory.hold(bytes(len + self.slots.len()))?;
        let mut slots = Vec::with_capacity(len);
        loop {
            slots.resize((slots.len() + SLOTS_PER_LOOK).min(len), (K::FREE, T::default()));
            if slots.len() == len {
                break;
            }
            self.memory.budget.check()?;
        }
        for (at, some) in self.slots.chunks(SLOTS_PER_LOOK).enumerate() {
            if at > 0 {
                self.memory.budget.check()?;
            }
            for slot in some.iter().filter(|slot| !slot.0.is_free()) {
                let at = find(&slots, &slot.0);
                slots[at] = *slot;
            }
        }
        self.memory.lose(bytes(self.slots.len()));
        self.slots = slots;
        self.memory.hold(bytes(len))
    }
}

#[inline]
fn find<K: Key, T>(slots: &[(K, T)], key: &K) -> usize {
    let last = slots.len() - 1;
    let mut at = key.hash() as usize & last;
    while !slots[at].0.is_free() && slots[at].0 != *key {
        at = (at + 1) & last;
    }
    at
}

/// Many short lists in one array. A list is known by its head.
pub(crate) struct Lists<'b, T> {
    nodes: Vec<(T, Head)>,
    /// The list of nodes that are free.
    free: Head,
    memory: Reservation<'b>,
}

/// Where a list begins: a node's number + 1, or 0 if the list is empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Head(u32);

impl<'b, T: Copy> Lists<'b, T> {
    pub(crate) const fn new(budget: &'b Budget) -> Self {
        Self { nodes: Vec::new(), free: Head(0), memory: Reservation::new(budget) }
    }

    /// The elements of a list.
    #[inline]
    pub(crate) fn iter(&self, head: Head) -> impl Iterator<Item = &T> {
        let mut next = head;
        std::iter::from_fn(move || {
            let (item, after) = self.nodes.get(next.0.checked_sub(1)? as usize)?;
            next = *after;
            Some(item)
        })
    }

    /// Removes the elements of a list that are not to be kept. Says how many.
    pub(crate) fn retain(&mut self, head: &mut Head, keep: impl Fn(&T) -> bool) -> usize {
        let mut removed = 0;
        let mut before: Option<usize> = None;
        let mut next = *head;
        while let Some(at) = next.0.checked_sub(1) {
            let at = at as usize;
            let this = next;
            next = self.nodes[at].1;
            if keep(&self.nodes[at].0) {
                before = Some(at);
                continue;
            }
            match before {
                Some(before) => self.nodes[before].1 = next,
                None => *head = next,
            }
            self.nodes[at].1 = self.free;
            self.free = this;
            removed += 1;
        }
        removed
    }

    /// Puts an element at the beginning of a list.
    pub(crate) fn push(&mut self, head: &mut Head, item: T) -> Result<(), Exhausted> {
        let node = (item, *head);
        if let Some(at) = self.free.0.checked_sub(1) {
            *head = self.free;
            self.free = self.nodes[at as usize].1;
            self.nodes[at as usize] = node;
        } else {
            self.memory.grow(&mut self.nodes, 1)?;
            self.nodes.push(node);
            *head = Head(self.nodes.len() as u32);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    impl Key for u64 {
        const FREE: Self = Self::MAX;

        fn is_free(&self) -> bool {
            *self == Self::MAX
        }

        fn hash(&self) -> u64 {
            self.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
        }
    }

    fn budget(memory_max: u64) -> Budget {
        Budget::new(|| Duration::ZERO, Duration::MAX, memory_max, 1)
    }

    /// Keys are known again, through many growths, and what is kept of them too.
    #[test]
    fn keys_are_known_again() {
        let budget = budget(u64::MAX);
        let mut visited: Visited<'_, u64, u32> = Visited::new(&budget);
        for round in 0..2 {
            for key in 0..10_000 {
                let (value, new) = visited.entry(key).expect("memory");
                assert_eq!(new, round == 0);
                assert_eq!(*value, if new { 0 } else { key as u32 });
                *value = key as u32;
            }
        }
    }

    /// A table stops to grow before it holds more than it may, and gives all of it back.
    #[test]
    fn tables_hold_what_they_may() {
        let budget = budget(1 << 20);
        let mut visited: Visited<'_, u64, u64> = Visited::new(&budget);
        let most = (0..).find(|key| visited.entry(*key).is_err()).expect("a limit");
        assert!((5_000..65_536).contains(&most), "{most}");
        drop(visited);
        let mut lists: Lists<'_, u64> = Lists::new(&budget);
        let mut head = Head::default();
        let most = (0..).find(|item| lists.push(&mut head, *item).is_err()).expect("a limit");
        assert!((10_000..65_536).contains(&most), "{most}");
        drop(lists);
        assert_eq!(budget.reserve(1 << 20), Ok(()));
    }

    /// A table that is grown looks at the clock.
    #[test]
    fn growing_stops_when_the_time_is_up() {
        let late = Budget::new(|| Duration::from_secs(2), Duration::from_secs(1), u64::MAX, 1);
        let mut visited: Visited<'_, u64, ()> = Visited::new(&late);
        let failed = (0..2 * SLOTS_PER_LOOK as u64).find_map(|key| visited.entry(key).err());
        assert!(matches!(failed, Some(Exhausted::Time(_))));
    }

    /// Lists lose what is not kept, and its room is used again.
    #[test]
    fn lists_keep_what_is_kept() {
        let budget = budget(u64::MAX);
        let mut lists: Lists<'_, u64> = Lists::new(&budget);
        let mut heads = [Head::default(); 3];
        for item in 0..30 {
            lists.push(&mut heads[item as usize % 3], item).expect("memory");
        }
        for head in &mut heads {
            lists.retain(head, |item| item % 2 == 0);
        }
        let items = |lists: &Lists<'_, u64>, head| lists.iter(head).copied().collect::<Vec<u64>>();
        assert_eq!(items(&lists, heads[1]), [28, 22, 16, 10, 4]);
        lists.retain(&mut heads[0], |_| false);
        assert_eq!(heads[0], Head::default());
        for item in 0..20 {
            lists.push(&mut heads[0], item).expect("memory");
        }
        assert_eq!(lists.nodes.len(), 30);
        assert_eq!(items(&lists, heads[0]), (0..20).rev().collect::<Vec<u64>>());
        assert_eq!(items(&lists, heads[2]), [26, 20, 14, 8, 2]);
    }
}
