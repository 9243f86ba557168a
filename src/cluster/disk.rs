//! The data directory: a few small documents, each replaced as a whole, and a lock so that one process has them.
//!
//! A document is written aside, synced, renamed over the old one, and the directory is synced: after a crash there is
//! the old document or the new one, never half of one. Two processes with one identity could vote twice in one term,
//! hence the lock.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::FlockOperation;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use sha2::Digest;
use sha2::Sha256;

use crate::private;

/// The layout of the documents; another one is refused.
const FORMAT: u32 = 1;

/// Held by the process that works here.
const LOCK: &str = "lock";

/// The directory in which a node keeps who it is and what it has promised.
#[derive(Debug)]
pub struct Folder(Medium);

#[derive(Debug)]
enum Medium {
    Disk {
        path: PathBuf,
        _lock: File,
    },
    /// What a simulated machine keeps through a crash: a write is whole or did not happen.
    #[cfg(test)]
    Memory(Shelf),
}

/// The disk of a simulated machine: documents by name.
#[cfg(test)]
pub(super) type Shelf = std::sync::Arc<std::sync::Mutex<std::collections::BTreeMap<String, Vec<u8>>>>;

/// A document with what tells that it is whole.
#[derive(Serialize, Deserialize)]
struct Sealed {
    format: u32,
    sha256: String,
    document: Box<RawValue>,
}

impl Folder {
    /// Opens the directory, creating it if need be, and locks it for this process. Blocks on the disk.
    pub fn open(path: &Path) -> io::Result<Self> {
        private::create_folder(path)?;
        let lock = private::options().open(path.join(LOCK))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::new(io::ErrorKind::AddrInUse, "another process works in it"))?;
        private::narrow(fs::read_dir(path)?.flatten().map(|entry| entry.path()));
        Ok(Self(Medium::Disk {
            path: path.to_owned(),
            _lock: lock,
        }))
    }

    /// The disk of a simulated machine.
    #[cfg(test)]
    pub(super) const fn simulated(shelf: Shelf) -> Self {
        Self(Medium::Memory(shelf))
    }

    /// Whether its writes wait for a device, so that they belong on a thread that may block.
    pub fn blocks(&self) -> bool {
        matches!(self.0, Medium::Disk { .. })
    }

    /// Reads a document; none if there is no such file. Damage is an error of the kind `InvalidData`.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let bytes = match &self.0 {
            Medium::Disk { path, .. } => match fs::read(path.join(name)) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            },
            #[cfg(test)]
            Medium::Memory(documents) => match documents.lock().expect("no holder panics").get(name) {
                Some(bytes) => bytes.clone(),
                None => return Ok(None),
            },
        };
        unseal(&bytes).map(Some).map_err(|reason| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("`{name}` is damaged: {reason}"),
            )
        })
    }

    /// Puts a document in the place of the old one; once this returns it outlasts a loss of power. Blocks on the disk.
    pub fn replace<T: Serialize>(&self, name: &str, document: &T) -> io::Result<()> {
        let bytes = seal(document)?;
        match &self.0 {
            Medium::Disk { path, .. } => replace_file(path, name, &bytes),
            #[cfg(test)]
            Medium::Memory(documents) => {
                documents
                    .lock()
                    .expect("no holder panics")
                    .insert(name.to_owned(), bytes);
                Ok(())
            }
        }
    }
}

fn replace_file(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let aside = folder.join(format!("{name}.new"));
    let mut file = private::options().truncate(true).open(&aside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&aside, folder.join(name))?;
    File::open(folder)?.sync_all()
}

fn seal<T: Serialize>(document: &T) -> io::Result<Vec<u8>> {
    let document = serde_json::value::to_raw_value(document)?;
    let sealed = Sealed {
        format: FORMAT,
        sha256: fingerprint(document.get()),
        document,
    };
    Ok(serde_json::to_vec(&sealed)?)
}

fn unseal<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let sealed: Sealed = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if sealed.format != FORMAT {
        return Err(format!(
            "its format is {}, and {FORMAT} is known here",
            sealed.format
        ));
    }
    if sealed.sha256 != fingerprint(sealed.document.get()) {
        return Err("its checksum is not that of its content".to_owned());
    }
    serde_json::from_str(sealed.document.get()).map_err(|error| error.to_string())
}

fn fingerprint(text: &str) -> String {
    use std::fmt::Write as _;
    Sha256::digest(text.as_bytes())
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_back() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        assert_eq!(folder.read::<u64>("number").unwrap(), None);
        folder.replace("number", &1).unwrap();
        folder.replace("number", &2).unwrap();
        assert_eq!(folder.read::<u64>("number").unwrap(), Some(2));
    }

    #[test]
    fn damage_is_seen() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        folder.replace("words", &"the quick brown fox").unwrap();
        let file = place.path().join("words");
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&file, &bytes).unwrap();
            let read = folder.read::<String>("words");
            assert!(
                read.is_err() || read.as_ref().unwrap().as_deref() == Some("the quick brown fox"),
                "a flipped bit at {at} gave {read:?}"
            );
            fs::write(&file, &whole[..at]).unwrap();
            assert!(folder.read::<String>("words").is_err(), "cut at {at}");
        }
    }

    #[test]
    fn one_process_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let first = Folder::open(place.path()).unwrap();
        assert!(Folder::open(place.path()).is_err());
        drop(first);
        assert!(Folder::open(place.path()).is_ok());
    }
}
