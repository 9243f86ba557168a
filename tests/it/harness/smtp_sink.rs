//! `smtp-sink` of Debian's package `postfix`: somebody else's idea of SMTP.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use tempfile::TempDir;

use crate::harness::Guarded;
use crate::harness::eventually;
use crate::harness::free_port;
use crate::harness::listens;
use crate::harness::program;

/// Has it write each message to a file.
pub const KEEP: [&str; 2] = ["-d", "mail."];

/// A running `smtp-sink`.
#[derive(Debug)]
pub struct SmtpSink {
    /// Where it listens on loopback.
    pub port: u16,
    folder: TempDir,
    _process: Guarded,
}

impl SmtpSink {
    /// Starts it with further options: with [`KEEP`], or it throws everything away.
    pub async fn start(options: &[&str]) -> Self {
        let folder = open_folder();
        let port = free_port();
        let mut command = Command::new(program("smtp-sink", "postfix"));
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "nobody"]);
        }
        command
            .args(["-h", "sink.test"])
            .args(options)
            .args([&format!("127.0.0.1:{port}"), "100"])
            .current_dir(folder.path())
            .stdin(Stdio::null());
        let process = Guarded::spawn(&mut command);
        eventually("smtp-sink to listen", async || listens(port).await).await;
        Self {
            port,
            folder,
            _process: process,
        }
    }

    /// Waits until so many messages arrived that are kept, and returns them, each with the lines that `smtp-sink` puts before it.
    pub async fn mails(&self, count: usize) -> Vec<String> {
        let what = format!("{count} messages in smtp-sink");
        eventually(&what, async || {
            let mails = self.complete_mails();
            (mails.len() >= count).then_some(mails)
        })
        .await
    }

    /// What has arrived whole: a file that is still being written does not end in an empty line.
    fn complete_mails(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).expect("the folder is ours");
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
            .iter()
            .filter_map(|path| fs::read_to_string(path).ok())
            .filter(|mail| mail.ends_with("\n\n"))
            .collect()
    }
}

/// A folder that a process without privileges may write to.
fn open_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("the folder is ours");
    folder
}
