//! What `preview` reads: files, folders with them, standard input.

use std::fs;
use std::io;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

/// Bytes of one file at the most.
const LARGEST: u64 = 64 << 20;

/// Folders within folders at the most.
const DEEPEST: usize = 8;

/// The name of standard input.
pub(super) const STANDARD_INPUT: &str = "-";

/// The files at `path`: itself, or those in the folder whose names end in `.ics`, in order of their names.
pub(super) fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if path == Path::new(STANDARD_INPUT) || !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let before = files.len();
    collect_folder(path, 0, files)?;
    if files.len() == before {
        return Err(io::Error::other("there is no file in it whose name ends in .ics"));
    }
    Ok(())
}

fn collect_folder(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries = fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<PathBuf>>>()?;
    entries.sort();
    for entry in entries {
        let is_calendar = entry
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("ics"));
        if entry.is_dir() && !entry.is_symlink() && depth < DEEPEST {
            collect_folder(&entry, depth + 1, files)?;
        } else if is_calendar && entry.is_file() {
            files.push(entry);
        }
    }
    Ok(())
}

/// The bytes of a file.
pub(super) fn read(file: &Path) -> io::Result<Vec<u8>> {
    let source: Box<dyn Read> = if file == Path::new(STANDARD_INPUT) {
        Box::new(io::stdin())
    } else {
        Box::new(fs::File::open(file)?)
    };
    let mut text = Vec::new();
    source.take(LARGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(io::Error::other(format!(
            "the file is larger than {LARGEST} bytes"
        )));
    }
    Ok(text)
}
