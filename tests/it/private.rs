//! Modes of the files that hold secrets and personal data, with the real binary.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use crate::harness::node::Home;
use crate::harness::postgres::Postgres;

fn mode(path: &Path) -> u32 {
    let found = fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    found.permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn database_files(home: &Home) -> Vec<PathBuf> {
    let names = ["", "-wal", "-shm", ".lock"];
    let files = names.map(|end| home.folder().join(format!("carillon.db{end}")));
    files.to_vec()
}

fn assert_private(files: &[PathBuf]) {
    for file in files {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
}

#[test]
fn database_is_private_whatever_the_umask() {
    let home = Home::new();
    let migrate = home.command(&["migrate"]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "umask 0 && exec \"$0\" \"$1\""])
        .arg(migrate.get_program())
        .args(migrate.get_args());
    for (name, value) in migrate.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }

    let done = shell.current_dir(home.folder()).output().unwrap();

    assert!(done.status.success(), "{done:?}");
    assert_private(&[home.database(), home.folder().join("carillon.db.lock")]);
}

#[tokio::test]
async fn files_of_a_sqlite_node_are_private_and_wider_ones_are_narrowed_at_start() {
    let node = Home::new().start_with_owner().await;
    let files = database_files(&node.home);
    assert_private(&files);
    let mut node = node;
    node.kill();
    assert!(!node.home.output().contains("0600"), "{}", node.home.output());
    set_mode(node.home.folder(), 0o755);
    for file in &files {
        set_mode(file, 0o644);
    }

    node.launch_again();
    node.ready().await;

    assert_private(&files);
    let output = node.home.output();
    assert_eq!(output.matches("their mode is 0600 now").count(), 1, "{output}");
    assert!(output.contains("carillon.db-wal"), "{output}");
    assert_eq!(mode(node.home.folder()), 0o755, "the folder is not ours");
}

#[tokio::test]
async fn files_of_a_cluster_node_are_private_and_wider_ones_are_narrowed_at_start() {
    let server = Postgres::start().await;
    let home = Home::new().in_cluster(&server.database().await);
    let folder = home.folder().join("cluster");
    let mut node = home.start_with_owner().await;
    let files = || -> Vec<PathBuf> {
        let entries = fs::read_dir(&folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    assert_eq!(mode(&folder), 0o700);
    assert!(files().len() >= 3, "{:?}", files());
    assert_private(&files());
    node.kill();
    for file in &files() {
        set_mode(file, 0o644);
    }

    node.launch_again();
    node.ready().await;

    assert_private(&files());
    let output = node.home.output();
    assert_eq!(output.matches("their mode is 0600 now").count(), 1, "{output}");
}
