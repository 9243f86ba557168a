//! A small disk that a test can fill: a tmpfs, which only root may mount.

use std::fs;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// A mounted tmpfs; unmounted with the test.
#[derive(Debug)]
pub struct Tmpfs {
    folder: TempDir,
}

impl Tmpfs {
    /// Mounts a tmpfs of this size in MiB. None without root: the test is left out, and its output says so.
    pub fn mount(mebibytes: u64) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("left out: only root may mount a tmpfs");
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let options = format!("size={mebibytes}m,mode=0777");
        run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs"], folder.path());
        Some(Self { folder })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Gives it to the user that PostgreSQL runs as.
    pub fn give_to_postgres(&self) {
        run("chown", &["postgres"], self.path());
    }

    /// Fills this number of MiB.
    pub fn take(&self, mebibytes: usize) {
        let mut file = File::create(self.path().join("taken")).expect("the disk is ours");
        file.write_all(&vec![0; mebibytes << 20]).expect("there is room");
    }

    /// Takes all that is left.
    pub fn fill(&self) {
        let mut file = File::create(self.filler()).expect("the disk is ours");
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// Gives back what [`Tmpfs::take`] and [`Tmpfs::fill`] took.
    pub fn make_room(&self) {
        for file in [self.path().join("taken"), self.filler()] {
            // It is not there if it was not asked for.
            let _ = fs::remove_file(file);
        }
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily: a process of the test may not be gone yet.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) {
    let status = Command::new(program).args(arguments).arg(path).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} failed");
}
