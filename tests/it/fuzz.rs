//! What the fuzz target found or began with, once more; `tests/fuzz.sh` looks for more of it.

mod checks;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn every_text_of_the_fuzz_corpus_is_survived() {
    let folder = Path::new(ROOT).join("tests/fuzz/corpus");
    let mut replayed = 0;
    for entry in fs::read_dir(folder).expect("the corpus") {
        let path = entry.expect("an entry of the corpus").path();
        let text = fs::read(&path).expect("a text of the corpus");
        // A failure says which text it was.
        eprintln!("{}", path.display());
        checks::check(&text);
        replayed += 1;
    }
    assert!(replayed >= 34, "{replayed} texts");
}

/// The fuzz target is a crate of its own that nothing here builds: what the modules need that it takes in, it must have too,
/// in the same version.
#[test]
fn the_fuzz_crate_has_what_its_modules_need() {
    let line = |file: &str, name: &str| {
        let text = fs::read_to_string(Path::new(ROOT).join(file)).expect("a manifest");
        let section = text
            .split("\n[")
            .find(|section| section.starts_with("dependencies]"));
        let lines = section.expect("dependencies").lines();
        let found = lines
            .into_iter()
            .find(|line| line.starts_with(&format!("{name} = ")));
        found.map(str::to_owned)
    };
    let mut needed = BTreeSet::new();
    for part in ["src/calendar", "src/trigger"] {
        crates_used_in(&Path::new(ROOT).join(part), &mut needed);
    }
    assert!(needed.contains("calcard"), "{needed:?}");
    for name in needed {
        let (ours, own) = (line("Cargo.toml", &name), line("fuzz/Cargo.toml", &name));
        assert!(
            ours.is_some() && ours == own,
            "{ours:?} is not {own:?} in fuzz/Cargo.toml"
        );
    }
}

/// The crates that `use` names outside of tests, as manifests spell them.
fn crates_used_in(folder: &Path, used: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().unwrap_or_default();
        if ["tests", "property", "reference"]
            .iter()
            .any(|tests| name == *tests)
        {
            continue;
        }
        if path.is_dir() {
            crates_used_in(&path, used);
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source file");
        let first_words = text
            .lines()
            .filter_map(|line| line.strip_prefix("use ")?.split("::").next());
        let foreign = first_words.filter(|word| !["crate", "std", "super", "self"].contains(word));
        used.extend(foreign.map(|word| word.replace('_', "-")));
    }
}
