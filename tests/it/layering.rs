//! The import rule: what may know what. The design stands or falls with it, since a stage that calls another cannot be
//! restarted alone, and a pure module that asks for the time or a store cannot be tested by its inputs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// The most lines of code that a file may have; comments, blank lines and tests do not count.
const LONGEST_FILE: usize = 400;

/// What each part of `src/` may import, beside itself.
fn allowed(part: &str) -> Option<&'static [&'static str]> {
    Some(match part {
        "calendar" | "clock" | "logging" | "private" | "ready" | "shutdown" | "token" => &[],
        "trigger" => &["calendar"],
        // What would fire, without a store.
        "preview" => &["calendar", "trigger"],
        "store" => &["calendar", "trigger", "clock", "private"],
        // Who leads is found out without knowing what for: the database is a trait of the cluster's own, and messages
        // are opaque.
        "cluster" => &["clock", "listen", "private"],
        // The verbs of what is counted speak of what the stages do.
        "metrics" => &["calendar", "trigger", "store", "channel", "change"],
        "change" | "planner" | "janitor" => &["calendar", "trigger", "store", "clock", "metrics"],
        "delivery" => &[
            "calendar", "trigger", "store", "channel", "clock", "epoch", "metrics", "ready", "token",
        ],
        // What happened is told to whoever follows it; the reader of it belongs to no stage.
        "feed" => &["trigger", "store", "clock", "metrics"],
        "worker" => &[
            "trigger",
            "store",
            "cluster",
            "change",
            "planner",
            "janitor",
            "clock",
            "metrics",
            "ready",
            "arbiter",
            "post",
            "condition",
            "epoch",
        ],
        // What a node does where the database went back in time, whichever stage it concerns.
        "epoch" => &["store", "metrics", "ready"],
        "channel" => &["clock", "token"],
        "condition" | "listen" => &["clock"],
        // Where the cluster meets the database, and nodes each other.
        "arbiter" => &["store", "cluster"],
        "post" => &["trigger", "store", "cluster", "delivery"],
        // Each part owns its own configuration, and this one gathers them.
        "config" => &[
            "trigger", "channel", "change", "clock", "cluster", "delivery", "worker", "http", "logging",
        ],
        // What owners read on the page by which they answer is worded as their mail is.
        "http" => &[
            "calendar", "trigger", "store", "change", "channel", "clock", "cluster", "delivery", "metrics",
            "post", "ready", "shutdown", "config", "listen", "token", "feed", "epoch",
        ],
        "cli" => &[
            "calendar", "trigger", "store", "channel", "delivery", "clock", "config", "logging", "preview",
            "private", "service", "token",
        ],
        "main" => &["cli"],
        // They assemble the parts, or only name them.
        "node" | "service" | "embedded" | "lib" => return None,
        _ => panic!(
            "the import rule does not know `src/{part}`: say in tests/it/layering.rs what it may import"
        ),
    })
}

#[test]
fn imports_point_one_way() {
    let mut breaches = Vec::new();
    for source in sources() {
        let Some(allowed) = allowed(&source.part) else {
            continue;
        };
        for import in source.imports() {
            if import != source.part && !allowed.contains(&import.as_str()) {
                breaches.push(format!("{} imports `{import}`", source.path.display()));
            }
        }
    }
    assert!(
        breaches.is_empty(),
        "against the import rule:\n{}",
        breaches.join("\n")
    );
}

#[test]
fn stages_never_import_each_other() {
    let stages = ["change", "planner", "delivery", "janitor"];
    for stage in stages {
        let allowed = allowed(stage).expect("a stage has a rule");
        assert!(
            stages.iter().all(|other| !allowed.contains(other)),
            "the rule itself lets `{stage}` import another stage"
        );
    }
}

#[test]
fn imports_name_one_item_a_line() {
    let braced = sources().into_iter().flat_map(|source| {
        let lines: Vec<String> = source
            .code()
            .filter(|line| line.contains("use crate::{"))
            .map(|line| format!("{}: {line}", source.path.display()))
            .collect();
        lines
    });
    let braced: Vec<String> = braced.collect();
    assert!(braced.is_empty(), "write one item a line:\n{}", braced.join("\n"));
}

#[test]
fn files_have_one_subject() {
    let long: Vec<String> = sources()
        .iter()
        .map(|source| (source.path.display().to_string(), source.code().count()))
        .filter(|(_, lines)| *lines > LONGEST_FILE)
        .map(|(path, lines)| format!("{path}: {lines} lines of code"))
        .collect();
    assert!(
        long.is_empty(),
        "split what has more than {LONGEST_FILE}:\n{}",
        long.join("\n")
    );
}

#[test]
fn files_open_with_what_they_are_for() {
    let silent: Vec<String> = sources()
        .iter()
        .filter(|source| source.part != "main" && !source.text.starts_with("//!"))
        .map(|source| source.path.display().to_string())
        .collect();
    assert!(
        silent.is_empty(),
        "without a `//!` at their head:\n{}",
        silent.join("\n")
    );
}

#[test]
fn the_rule_sees_paths_in_code_and_not_in_comments_or_tests() {
    let source = Source::new(
        "channel/example.rs",
        "//! crate::store\n#[cfg(test)]\nmod faults;\nuse crate::clock::Clock; // crate::change\nfn f() { crate::trigger::g() }\n\
         #[cfg(test)]\nmod tests {\n    use crate::delivery::Config;\n}\n",
    );
    assert_eq!(source.part, "channel");
    let imports: Vec<String> = source.imports().into_iter().collect();
    assert_eq!(imports, ["clock", "trigger"]);
    assert_eq!(
        source.test_modules(),
        [PathBuf::from("channel/example/faults.rs")]
    );
}

/// A file of `src/`.
struct Source {
    path: PathBuf,
    part: String,
    text: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        let part = path.split('/').next().unwrap_or_default();
        Self {
            path: PathBuf::from(path),
            part: part.trim_end_matches(".rs").to_owned(),
            text: text.to_owned(),
        }
    }

    /// The lines of code: no comments, no blank lines, and nothing from the unit tests on, which close a file.
    fn code(&self) -> impl Iterator<Item = &str> {
        let shipped = self
            .text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        shipped
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default().trim())
            .filter(|line| !line.is_empty())
    }

    /// The files of the modules that exist for unit tests alone.
    fn test_modules(&self) -> Vec<PathBuf> {
        let name = self.path.file_stem().expect("a source file has a name");
        let folder = match name.to_str() {
            Some("mod" | "lib" | "main") => self.path.with_file_name(""),
            _ => self.path.with_extension(""),
        };
        let declared = self.text.split("#[cfg(test)]\nmod ").skip(1);
        let named = declared.filter_map(|rest| rest.lines().next()?.strip_suffix(';'));
        named.map(|name| folder.join(name).with_extension("rs")).collect()
    }

    /// The parts of the crate that the code names.
    fn imports(&self) -> BTreeSet<String> {
        let library = if self.part == "main" {
            "carillon::"
        } else {
            "crate::"
        };
        self.code()
            .flat_map(|line| line.split(library).skip(1))
            .map(|rest| {
                rest.chars()
                    .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
            })
            .map(Iterator::collect)
            .collect()
    }
}

/// All files of `src/` but those that hold unit tests alone.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("src can be listed").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = fs::read_to_string(&path).expect("a source file can be read");
                let inside = path
                    .strip_prefix(&root)
                    .expect("it lies in src")
                    .to_string_lossy();
                found.push(Source::new(&inside, &text));
            }
        }
    }
    assert!(found.len() > 10, "src holds more than that");
    let tests: BTreeSet<PathBuf> = found.iter().flat_map(Source::test_modules).collect();
    found.retain(|source| !tests.contains(&source.path));
    found
}
