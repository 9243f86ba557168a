//! Which languages there are, and which one somebody gets.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use unic_langid::LanguageIdentifier;

use crate::delivery::message::RenderError;
use crate::delivery::message::flaws::File;
use crate::delivery::message::folder;
use crate::delivery::message::words::Words;

/// The languages we bring: tag, and words.
const BUILT_IN: [(&str, &str); 7] = [
    ("ar", include_str!("../../../config/templates/ar.ftl")),
    ("de", include_str!("../../../config/templates/de.ftl")),
    ("en", include_str!("../../../config/templates/en.ftl")),
    ("en-US", include_str!("../../../config/templates/en-US.ftl")),
    ("es", include_str!("../../../config/templates/es.ftl")),
    ("fr", include_str!("../../../config/templates/fr.ftl")),
    ("ja", include_str!("../../../config/templates/ja.ftl")),
];

/// What everybody gets whose language we do not have.
const ENGLISH: &str = "en";

/// The files of each language, the operator's after ours; by tag in lower case.
type Files = BTreeMap<String, Language>;

struct Language {
    tag: LanguageIdentifier,
    files: Vec<File>,
}

/// The languages there are.
#[derive(Debug)]
pub(super) struct Languages {
    /// By tag in lower case.
    by_tag: BTreeMap<String, Arc<Words>>,
    english: Arc<Words>,
}

impl Languages {
    /// Ours, and those of `folder` beside or above them.
    ///
    /// # Errors
    /// With all that is wrong in files of words.
    pub(super) fn new(folder: Option<&Path>) -> Result<Self, RenderError> {
        let files = read(folder)?;
        let flaws: Vec<String> = files.keys().flat_map(|tag| flaws(&files, tag)).collect();
        if !flaws.is_empty() {
            return Err(RenderError::Words(flaws));
        }
        let english = Arc::new(words(&files, ENGLISH, None));
        let others = files.keys().filter(|tag| *tag != ENGLISH);
        let mut by_tag: BTreeMap<_, _> = others
            .map(|tag| {
                (
                    tag.clone(),
                    Arc::new(words(&files, tag, Some(Arc::clone(&english)))),
                )
            })
            .collect();
        by_tag.insert(ENGLISH.to_owned(), Arc::clone(&english));
        Ok(Self { by_tag, english })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Words> {
        self.by_tag.values().map(AsRef::as_ref)
    }

    /// The language for a locale (RFC 4647 section 3.4): its own, else the nearest that says less, else English.
    pub(super) fn nearest(&self, locale: &str) -> &Words {
        let locale = locale.to_ascii_lowercase();
        let found = ever_shorter(&locale).find_map(|tag| self.by_tag.get(tag));
        found.unwrap_or(&self.english)
    }
}

/// A tag, and then always one subtag less: `zh-hant-tw`, `zh-hant`, `zh`.
fn ever_shorter(tag: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(tag), |tag| tag.rsplit_once('-').map(|(shorter, _)| shorter))
}

fn read(folder: Option<&Path>) -> Result<Files, RenderError> {
    let mut files = Files::new();
    let mut flaws = Vec::new();
    for (tag, text) in BUILT_IN {
        add(&mut files, tag, format!("{tag}.ftl"), text.to_owned()).unwrap_or_else(|more| flaws.extend(more));
    }
    for (path, text) in folder.map(folder::words).transpose()?.unwrap_or_default() {
        let tag = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = path.display().to_string();
        add(&mut files, &tag, name, text).unwrap_or_else(|more| flaws.extend(more));
    }
    if flaws.is_empty() {
        Ok(files)
    } else {
        Err(RenderError::Words(flaws))
    }
}

fn add(files: &mut Files, tag: &str, name: String, text: String) -> Result<(), Vec<String>> {
    let example = "name it as de.ftl or pt-BR.ftl";
    let parsed: LanguageIdentifier = tag
        .parse()
        .map_err(|_| vec![format!("`{name}`: `{tag}` is no language tag: {example}")])?;
    let canonical = parsed.to_string();
    if canonical != tag {
        return Err(vec![format!("`{name}`: name it {canonical}.ftl")]);
    }
    let file = File::read(name, text)?;
    let language = files.entry(tag.to_ascii_lowercase()).or_insert_with(|| Language {
        tag: parsed,
        files: Vec::new(),
    });
    language.files.push(file);
    Ok(())
}

/// The files whose words count for a language, the farthest first: `de` before `de-AT`.
fn layers<'f>(files: &'f Files, tag: &str) -> Vec<&'f File> {
    let nearest_first: Vec<_> = ever_shorter(tag).filter_map(|tag| files.get(tag)).collect();
    nearest_first
        .into_iter()
        .rev()
        .flat_map(|language| &language.files)
        .collect()
}

fn words(files: &Files, tag: &str, english: Option<Arc<Words>>) -> Words {
    let layers: Vec<_> = layers(files, tag)
        .into_iter()
        .map(|file| Arc::clone(&file.resource))
        .collect();
    Words::new(files[tag].tag.clone(), &layers, english)
}

/// What is wrong in the files of one language; each is held against all that comes before it.
fn flaws(files: &Files, tag: &str) -> Vec<String> {
    let layers = layers(files, tag);
    let mut known = BTreeSet::new();
    let mut flaws = Vec::new();
    for (index, file) in layers.iter().enumerate() {
        let is_own = index + files[tag].files.len() >= layers.len();
        if is_own {
            flaws.extend(file.flaws(&known));
        }
        known.extend(file.names());
    }
    flaws
}

#[cfg(test)]
mod tests;
