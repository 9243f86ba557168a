//! A phrase as words that are taken one by one.

/// The words of a phrase, in lower case, and how many of them have been taken.
#[derive(Debug)]
pub(super) struct Words {
    words: Vec<String>,
    taken: usize,
}

impl Words {
    pub(super) fn of(text: &str) -> Self {
        let words = text
            .split(|c: char| c.is_whitespace() || c == ',')
            .map(|word| word.trim_end_matches(['.', '!', '?']).to_lowercase())
            .filter(|word| !word.is_empty())
            .collect();
        Self { words, taken: 0 }
    }

    /// The next word.
    pub(super) fn peek(&self) -> Option<&str> {
        self.words.get(self.taken).map(String::as_str)
    }

    /// The last word that was taken.
    pub(super) fn last(&self) -> &str {
        let last = self.taken.checked_sub(1).and_then(|index| self.words.get(index));
        last.map_or("", String::as_str)
    }

    /// Takes the next word, whatever it is.
    pub(super) fn take(&mut self) -> Option<String> {
        let word = self.words.get(self.taken).cloned();
        self.taken += usize::from(word.is_some());
        word
    }

    /// Takes these words if they come next.
    pub(super) fn eat(&mut self, phrase: &str) -> bool {
        let wanted: Vec<&str> = phrase.split(' ').collect();
        let next = self.words.get(self.taken..).unwrap_or_default();
        let found = next.len() >= wanted.len() && next.iter().zip(&wanted).all(|(word, want)| word == want);
        if found {
            self.taken += wanted.len();
        }
        found
    }

    /// Takes the next word if it is one of these, and says what stands beside it.
    pub(super) fn eat_one<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        let word = self.peek()?;
        let (_, value) = table.iter().find(|(name, _)| *name == word)?;
        self.taken += 1;
        Some(*value)
    }

    /// Tries to read something; where that finds nothing, no word has been taken.
    pub(super) fn attempt<T, E>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Option<T>, E>,
    ) -> Result<Option<T>, E> {
        let taken = self.taken;
        let found = read(self)?;
        if found.is_none() {
            self.taken = taken;
        }
        Ok(found)
    }
}
