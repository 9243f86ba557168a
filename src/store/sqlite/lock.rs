//! One process by construction: whoever opens the store holds an advisory lock on a file beside it. The kernel lets go
//! of the lock when its holder dies, however it dies, so nothing stale can remain.

use std::ffi::OsString;
use std::fs::File;
use std::fs::TryLockError;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use crate::private;
use crate::store::StoreError;

/// Takes the lock of the store at `path`; dropping the file gives it back.
pub fn take(path: &Path) -> Result<File, StoreError> {
    let beside = lock_file(path);
    let unavailable = |error: std::io::Error| {
        StoreError::Unavailable(format!(
            "cannot lock `{}` ({error}): create its folder and let this user write there, or set store.url",
            beside.display()
        ))
    };
    let mut file = private::options().read(true).open(&beside).map_err(unavailable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(in_use(path, &beside)),
        Err(TryLockError::Error(error)) => return Err(unavailable(error)),
    }
    // Who holds it is only told to people; the lock itself is the kernel's.
    let told = file
        .set_len(0)
        .and_then(|()| write!(file, "{}", std::process::id()));
    told.map_err(unavailable)?;
    Ok(file)
}

fn lock_file(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".lock");
    PathBuf::from(name)
}

fn in_use(path: &Path, beside: &Path) -> StoreError {
    let holder = std::fs::read_to_string(beside)
        .ok()
        .filter(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or_else(String::new, |pid| format!(" (process {pid})"));
    StoreError::InUse(format!(
        "the store `{}` is in use by another process{holder}: stop that one first, or give this one a store of its \
         own with store.url",
        path.display()
    ))
}
