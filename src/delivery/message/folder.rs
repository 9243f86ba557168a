//! The operator's folder of templates and words, read within bounds.

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::delivery::message::RenderError;

/// Bytes of a file.
const MAX_FILE: u64 = 256 * 1_024;

/// Files of words; there are fewer languages in any calendar.
const MAX_FILES: usize = 200;

/// How files of words end.
const WORDS: &str = "ftl";

/// The file at `path`, if there is one.
///
/// # Errors
/// When it is there and cannot be read.
pub(super) fn file(path: &Path) -> Result<Option<String>, RenderError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, error)),
        Ok(file) if file.len() > MAX_FILE => {
            let reason = format!("larger than {MAX_FILE} bytes");
            Err(unreadable(path, io::Error::other(reason)))
        }
        Ok(_) => fs::read_to_string(path)
            .map(Some)
            .map_err(|error| unreadable(path, error)),
    }
}

/// The files of words in `folder`, by name.
///
/// # Errors
/// When one cannot be read, or there are too many.
pub(super) fn words(folder: &Path) -> Result<Vec<(PathBuf, String)>, RenderError> {
    let listed = fs::read_dir(folder).map_err(|error| unreadable(folder, error))?;
    let mut paths = Vec::new();
    for entry in listed {
        let path = entry.map_err(|error| unreadable(folder, error))?.path();
        if path.extension().is_some_and(|kind| kind == WORDS) {
            paths.push(path);
        }
    }
    if paths.len() > MAX_FILES {
        let reason = format!("{} files of words: {MAX_FILES} are allowed", paths.len());
        return Err(unreadable(folder, io::Error::other(reason)));
    }
    paths.sort();
    let read = |path: PathBuf| Ok(file(&path)?.map(|text| (path, text)));
    paths
        .into_iter()
        .filter_map(|path| read(path).transpose())
        .collect()
}

fn unreadable(path: &Path, source: io::Error) -> RenderError {
    RenderError::File {
        path: path.to_owned(),
        source,
    }
}
