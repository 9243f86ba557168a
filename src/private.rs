//! Modes of files: what holds secrets, addresses and the content of calendars is for the user of this process alone.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;

/// The mode of files.
const FILE: u32 = 0o600;

/// The mode of folders.
const FOLDER: u32 = 0o700;

/// What a mode allows to other users.
const OTHERS: u32 = 0o077;

/// Creates files and folders for this user alone from here on, whatever the umask of the caller.
pub fn set_umask() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(OTHERS));
}

/// Options that create a file for this user alone.
pub fn options() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(FILE);
    options
}

/// Creates a folder, and those above it that are missing. One that exists keeps its mode.
pub fn create_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(FOLDER).create(path)
}

/// Takes from other users what they may do with these files, and says so. A file that cannot be narrowed is named as an
/// error and stops nothing: its owner must do it. Links are left alone.
pub fn narrow(paths: impl IntoIterator<Item = PathBuf>) {
    let mut narrowed = Vec::new();
    for path in paths {
        match narrow_file(&path) {
            Ok(true) => narrowed.push(path.display().to_string()),
            Ok(false) => {}
            Err(error) => tracing::error!(
                file = %path.display(),
                %error,
                "other users may open this file, and its mode cannot be changed: run chmod 600 on it as its owner",
            ),
        }
    }
    if !narrowed.is_empty() {
        let files = narrowed.join(", ");
        tracing::warn!(files, "files were open to other users; their mode is 0600 now");
    }
}

fn narrow_file(path: &Path) -> io::Result<bool> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    if !found.is_file() || found.permissions().mode() & OTHERS == 0 {
        return Ok(false);
    }
    fs::set_permissions(path, fs::Permissions::from_mode(FILE))?;
    Ok(true)
}
