//! What a node keeps on its own disk for the cluster is damaged, or cannot be written any more.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::faults::field::Field;
use crate::faults::field::load_is_on;
use crate::faults::field::pause;
use crate::faults::leaders::Leaders;
use crate::faults::size::Size;
use crate::faults::size::seconds;
use crate::harness::eventually;
use crate::harness::node::Home;

/// A small file system of its own, in place of a node's data directory.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Moves the data directory of a node that is stopped; none without root.
    fn below(home: &Home) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("F21: the full disk is left out, since only root can mount a tmpfs");
            return None;
        }
        let (data, disk) = (cluster_dir(home), home.folder().join("small"));
        fs::create_dir(&disk).expect("the folder is ours");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
            .arg(&disk)
            .status();
        assert!(
            mounted.expect("mount can be run").success(),
            "cannot mount a tmpfs"
        );
        let small = Self(disk);
        for name in ["node.json", "raft.json"] {
            fs::copy(data.join(name), small.0.join(name)).expect("it has room for both");
        }
        fs::rename(&data, home.folder().join("before")).expect("the folder is ours");
        symlink(&small.0, &data).expect("the place is free");
        Some(small)
    }

    /// Fills all that is left.
    fn fill(&self) {
        let mut ballast = fs::File::create(self.ballast()).expect("it has an inode left");
        while ballast.write_all(&[0; 512]).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.ballast()).expect("it was filled");
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // What is not mounted any more needs no more.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn cluster_dir(home: &Home) -> PathBuf {
    home.folder().join("cluster")
}

/// Cuts the last third off.
fn truncate(file: &Path) {
    let whole = fs::read(file).expect("the node wrote it");
    fs::write(file, &whole[..whole.len() * 2 / 3]).expect("the folder is ours");
}

/// Changes one byte in the middle.
fn flip(file: &Path) {
    let mut bytes = fs::read(file).expect("the node wrote it");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).expect("the folder is ours");
}

impl Field {
    /// A node that does not lead.
    async fn follower(&mut self) -> usize {
        (self.leader().await + 1) % self.nodes.len()
    }

    /// Kills a node, damages its log, and checks that it refuses to start with the reason, and joins anew once its data
    /// directory is gone as it says.
    async fn damage(&mut self, at: usize, damage: fn(&Path)) {
        let node = &mut self.nodes[at];
        node.kill();
        self.hit(at).await;
        let node = &mut self.nodes[at];
        let said = node.home.output().len();
        damage(&cluster_dir(&node.home).join("raft.json"));
        node.launch_again();
        let status = node.ended().await;
        assert!(!status.success(), "{status}");
        let output = node.home.output();
        let said = &output[said..];
        assert!(
            said.contains("`raft.json` is damaged") && said.contains("delete its data directory"),
            "{said}"
        );
        fs::remove_dir_all(cluster_dir(&node.home)).expect("the folder is ours");
        node.start_again().await;
        self.rejoined(at).await;
    }

    /// Waits until the node votes under a new number.
    async fn rejoined(&mut self, at: usize) {
        let old = self.numbers[at];
        self.numbers[at] = eventually("the node to vote under a new number", async || {
            let number = self.voter(at).await?;
            (number != old).then_some(number)
        })
        .await;
    }

    /// The number of a node, if it knows that it votes.
    async fn voter(&self, at: usize) -> Option<i64> {
        let cluster = self.nodes[at].get("/v1/cluster").await.ok();
        let number = cluster["node"].as_i64()?;
        let mut members = cluster["members"].as_array()?.iter();
        let votes = members.any(|member| member["id"] == number && member["role"] != "learner");
        votes.then_some(number)
    }

    /// Fills the disk of a node, has a new leader elected, and checks that the node ends with the reason, since it cannot
    /// promise its vote, and takes part again once its disk has room.
    async fn fill_disk(&mut self, at: usize, disk: &SmallDisk) {
        disk.fill();
        let said = self.nodes[at].home.output().len();
        let leader = self.leader().await;
        assert_ne!(leader, at, "a follower was chosen");
        self.kill(leader, Duration::ZERO).await;
        let status = self.nodes[at].ended().await;
        self.hit(at).await;
        assert!(!status.success(), "{status}");
        let output = self.nodes[at].home.output();
        let said = &output[said..];
        assert!(
            said.contains("the cluster failed here") && said.contains("No space left on device"),
            "{said}"
        );
        self.nodes[leader].ready().await;
        pause(seconds(2, 30)).await;
        disk.free();
        self.nodes[at].start_again().await;
        let number = self.numbers[at];
        eventually("the node to vote again", async || {
            (self.voter(at).await == Some(number)).then_some(())
        })
        .await;
    }

    /// Waits until all nodes name the same members, term and leader.
    async fn agree(&self) {
        eventually("all nodes to agree", async || {
            let mut views = Vec::new();
            for node in &self.nodes {
                let cluster = node.get("/v1/cluster").await.ok();
                let mut members: Vec<i64> = cluster["members"]
                    .as_array()?
                    .iter()
                    .filter_map(|it| it["id"].as_i64())
                    .collect();
                members.sort_unstable();
                views.push((
                    cluster["cluster"].clone(),
                    cluster["term"].clone(),
                    cluster["leader"].as_i64()?,
                    members,
                ));
            }
            let mut numbers = self.numbers.clone();
            numbers.sort_unstable();
            let first = &views[0];
            (first.3 == numbers && views.iter().all(|view| view == first)).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f21_a_data_directory_is_full_or_damaged() {
    let mut field = Field::start(&[]).await;
    // One that does not lead has its data directory on a small disk.
    let at = field.follower().await;
    assert!(field.nodes[at].terminate().await.success());
    let disk = SmallDisk::below(&field.nodes[at].home);
    field.nodes[at].start_again().await;
    let load = field.load(Size::of(16, 120));
    let leaders = Leaders::watch(&field);
    load_is_on().await;
    if let Some(disk) = &disk {
        field.fill_disk(at, disk).await;
    }
    let others = [(at + 1) % 3, (at + 2) % 3];
    field.damage(others[0], truncate).await;
    field.agree().await;
    field.damage(others[1], flip).await;
    field.agree().await;
    let verdict = field.judge(load).await;
    let terms = leaders.assert_one_a_term();
    let full = if disk.is_some() {
        "full and "
    } else {
        "(without root: not full) "
    };
    println!("F21 | {full}truncated and flipped, {terms} terms | {verdict}");
    verdict.assert_exact();
}
