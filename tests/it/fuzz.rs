//! What the fuzz target found or began with, once more; `tests/fuzz.sh` looks for more of it.

mod checks;

use std::fs;

#[test]
fn every_text_of_the_fuzz_corpus_is_survived() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/corpus");
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
