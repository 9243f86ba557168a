//! Sets of small numbers, as the BY parts list them.

/// A set of numbers from 0 to 383, which holds every number that a rule can name: its size is the same however long the
/// list in the text is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Numbers([u64; 6]);

impl Numbers {
    pub(super) fn one(number: u32) -> Self {
        let mut numbers = Self::default();
        numbers.insert(number);
        numbers
    }

    pub(super) fn insert(&mut self, number: u32) {
        if let Some(word) = self.0.get_mut((number / 64) as usize) {
            *word |= 1 << (number % 64);
        }
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.0
            .get((number / 64) as usize)
            .is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Whether a BY part with these numbers lets a number pass: it does not restrict if it is not there.
    pub(super) fn admits(&self, number: u32) -> bool {
        self.is_empty() || self.contains(number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The number of this index, from 0, in ascending order.
    pub(super) fn nth(&self, index: usize) -> Option<u32> {
        self.iter().nth(index)
    }

    /// The first number that is not below this one.
    pub(super) fn next_from(&self, number: u32) -> Option<u32> {
        let mut index = number / 64;
        let mut word = self.0.get(index as usize)? & (u64::MAX << (number % 64));
        while word == 0 {
            index += 1;
            word = *self.0.get(index as usize)?;
        }
        Some(index * 64 + word.trailing_zeros())
    }

    /// The least distance of two of them on a dial of `size`; the whole round for a single one.
    pub(super) fn closest_within(&self, size: u32) -> Option<u32> {
        let first = self.nth(0)?;
        let following = self.iter().skip(1).chain([first + size]);
        self.iter()
            .zip(following)
            .map(|(number, next)| next - number)
            .min()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        std::iter::successors(self.next_from(0), |number| self.next_from(number + 1))
    }
}

impl FromIterator<u32> for Numbers {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut set = Self::default();
        numbers.into_iter().for_each(|number| set.insert(number));
        set
    }
}

/// Places in a row, counted from its start (1, 2 …) and from its end (-1, -2 …).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Positions {
    pub(super) from_start: Numbers,
    pub(super) from_end: Numbers,
}

impl Positions {
    pub(super) fn insert(&mut self, position: i32) {
        let numbers = if position < 0 {
            &mut self.from_end
        } else {
            &mut self.from_start
        };
        numbers.insert(position.unsigned_abs());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.from_start.is_empty() && self.from_end.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.from_start.len() + self.from_end.len()
    }

    /// Whether the place `number`, from 1, of a row of `length` is among them.
    pub(super) fn contains(&self, number: u32, length: u32) -> bool {
        self.from_start.contains(number) || self.from_end.contains((length + 1).saturating_sub(number))
    }

    /// The indices, from 0 and ascending, of these places in a row of `length`.
    pub(super) fn indices(&self, length: usize) -> Vec<usize> {
        let from_start = self.from_start.iter().map(|number| number as usize - 1);
        let from_end = self
            .from_end
            .iter()
            .filter_map(|number| length.checked_sub(number as usize));
        let mut indices: Vec<usize> = from_start
            .chain(from_end)
            .filter(|index| *index < length)
            .collect();
        indices.sort_unstable();
        indices.dedup();
        indices
    }
}
