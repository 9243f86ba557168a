//! What is in `deploy/`, checked by whatever reads it: our own configuration, `promtool`, `systemd-analyze`. There is no container engine here, so the compose file is held against our configuration and against itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use carillon::config::Settings;
use tempfile::TempDir;
use yaml_rust2::Yaml;
use yaml_rust2::YamlLoader;

use crate::harness::program;

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(deploy(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A folder in place of the one that `text` keeps its secrets in, and the text that says so.
fn with_secrets(text: &str, folder: &str, names: &[&str]) -> (TempDir, String) {
    let place = tempfile::tempdir().unwrap();
    for name in names {
        fs::write(place.path().join(name), "secret\n").unwrap();
    }
    let text = text.replace(folder, &place.path().display().to_string());
    (place, text)
}

#[test]
fn the_sample_of_a_node_is_a_valid_configuration() {
    let secrets = ["cluster-secret", "api-token", "smtp-password"];
    let (folder, sample) = with_secrets(&text("node.toml"), "/etc/carillon", &secrets);
    let path = folder.path().join("node.toml");
    fs::write(&path, sample).unwrap();

    let settings = Settings::load(Some(&path), []).expect("it is right");

    let cluster = settings.cluster.as_ref().expect("it is a cluster's");
    assert!(cluster.secret.is_some() && cluster.advertise.is_some());
    assert!(settings.http.token.is_some() && !settings.relays.is_empty());
}

#[test]
fn alerts_are_right_and_fire_when_they_should() {
    let promtool = program("promtool", "prometheus");
    for arguments in [
        ["check", "rules", "alerts.yaml"],
        ["test", "rules", "alerts.test.yaml"],
    ] {
        let mut command = Command::new(&promtool);
        command.args(arguments).current_dir(deploy(""));
        let checked = command.output().expect("promtool can be run");
        assert!(checked.status.success(), "{checked:?}");
    }
    let (rules, tests) = (text("alerts.yaml"), text("alerts.test.yaml"));
    let names: Vec<&str> = rules
        .split("- alert: ")
        .skip(1)
        .map(|it| it.lines().next().unwrap())
        .collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let asked = format!("alertname=\"{name}\"");
        let expects = |line: &str| line.contains(&asked) && line.contains("value: 1");
        let is_spelt_out = |test: &str| test.starts_with(&format!("{name}\n")) && test.contains("exp_labels");
        assert!(
            tests.lines().any(expects) || tests.split("- alertname: ").any(is_spelt_out),
            "no test has `{name}` fire"
        );
    }
}

#[test]
fn alerts_ask_for_metrics_that_there_are() {
    let declared = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/metrics.rs")).unwrap();
    let rules = text("alerts.yaml");
    let is_part = |char: char| char.is_ascii_lowercase() || char == '_';
    let mut asked = 0;
    for after in rules.split("carillon_").skip(1) {
        let name: String = after.chars().take_while(|char| is_part(*char)).collect();
        let name = name.strip_suffix("_bucket").unwrap_or(&name);
        assert!(
            declared.contains(&format!("= \"{name}\" [")),
            "there is no carillon_{name}"
        );
        asked += 1;
    }
    assert!(asked > 10, "{asked}");
}

#[test]
fn the_unit_is_hardened_and_gives_a_node_the_time_to_finish() {
    let unit = text("carillon.service");
    let set: BTreeMap<&str, &str> = unit.lines().filter_map(|line| line.split_once('=')).collect();
    for (key, value) in [
        ("User", "carillon"),
        ("StateDirectory", "carillon"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("Restart", "on-failure"),
        ("RestartPreventExitStatus", "78"),
        ("StartLimitIntervalSec", "0"),
        ("ExecReload", "/bin/kill -HUP $MAINPID"),
    ] {
        assert_eq!(set.get(key), Some(&value), "{key}");
    }
    let number = |key: &str| set[key].parse::<u32>().unwrap();
    assert!(
        number("TimeoutStopSec") > 45,
        "a drain takes 30 s, and a hand-over 2"
    );
    assert!(number("LimitNOFILE") >= 2_000);

    let analyze = program("systemd-analyze", "systemd");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("carillon.service");
    let here = unit.replace("/usr/local/bin/carillon", env!("CARGO_BIN_EXE_carillon"));
    fs::write(&path, here).unwrap();
    for arguments in [
        vec!["verify"],
        vec!["security", "--offline=true", "--threshold=20"],
    ] {
        let mut command = Command::new(&analyze);
        command.args(&arguments).arg(&path);
        let checked = command.output().expect("it can be run");
        assert!(checked.status.success(), "{arguments:?}: {checked:?}");
    }
}

#[test]
fn a_node_that_stands_still_is_restarted_and_no_other() {
    let analyze = program("systemd-analyze", "systemd");
    let (service, timer) = ("carillon-alive.service", "carillon-alive.timer");
    let verified = Command::new(analyze)
        .arg("verify")
        .args([service, timer].map(deploy))
        .output()
        .expect("it can be run");
    assert!(
        verified.status.success() && verified.stderr.is_empty(),
        "{verified:?}"
    );
    for (answer, is_restarted) in [
        (Some("200 OK"), false),
        (Some("503 Service Unavailable"), true),
        (Some(""), false),
        (None, false),
    ] {
        assert_eq!(restarts(&text(service), answer), is_restarted, "{answer:?}");
    }
}

/// Whether the unit has a node restarted that answers with this status, that hangs up, or that does not listen.
fn restarts(unit: &str, answer: Option<&'static str>) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answering = answer.map(|status| {
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 16];
            stream.read_exact(&mut asked).unwrap();
            assert_eq!(&asked, b"GET /livez HTTP/");
            if !status.is_empty() {
                write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").unwrap();
            }
        })
    });
    let folder = tempfile::tempdir().unwrap();
    let command = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/bin/sh -c '"));
    let command = command
        .and_then(|it| it.strip_suffix('\''))
        .expect("it is one command of a shell");
    let command = command.replace("$$", "$").replace("127.0.0.1:8085", &address);
    let ended = Command::new("/bin/sh")
        .args([
            "-c",
            &format!("systemctl() {{ echo \"$@\" > asked; }}; {command}"),
        ])
        .current_dir(folder.path())
        .status();
    assert!(ended.unwrap().success());
    if let Some(answering) = answering {
        answering.join().unwrap();
    }
    let asked = fs::read_to_string(folder.path().join("asked"));
    asked.is_ok_and(|asked| asked == "try-restart carillon.service\n")
}

#[test]
fn the_composed_nodes_are_three_of_one_cluster() {
    let secrets = ["cluster-secret", "api-token", "pgpass"];
    let (_folder, text) = with_secrets(&text("compose.yaml"), "/run/secrets", &secrets);
    let compose = &YamlLoader::load_from_str(&text).expect("it is YAML")[0];
    let services = compose["services"].as_hash().expect("there are services");
    let shared = environment(&compose["x-environment"]);
    let mut advertised = BTreeMap::new();
    for name in ["node1", "node2", "node3"] {
        let node = &compose["services"][name];
        assert!(!node["<<"].is_badvalue(), "{name} is like the others");
        let mut own = shared.clone();
        own.extend(environment(&node["environment"]));
        let settings = Settings::load(None, own).unwrap_or_else(|complaints| panic!("{name}: {complaints}"));
        let cluster = settings.cluster.expect("it is a cluster's");
        assert!(cluster.secret.is_some() && settings.http.token.is_some());
        let advertise = cluster.advertise.expect("it says where it is");
        assert_eq!(advertise, format!("{name}:{}", cluster.listen.port()));
        let inside = format!(":{}", settings.http.listen.port());
        let port = node["ports"][0].as_str().expect("a port is published");
        assert!(
            port.starts_with("127.0.0.1:") && port.ends_with(&inside),
            "{port}"
        );
        let volume = node["volumes"][0].as_str().expect("it keeps what it promised");
        assert!(volume.ends_with(":/var/lib/carillon"), "{volume}");
        assert!(cluster.data_dir.starts_with("/var/lib/carillon"));
        advertised.insert(advertise, (port.to_owned(), volume.to_owned()));
    }
    assert_eq!(advertised.len(), 3);
    assert_eq!(services.len(), 4, "and PostgreSQL");
    let common = &compose["x-node"];
    let builds = services
        .values()
        .filter(|service| !service["build"].is_badvalue());
    assert_eq!(builds.count(), 1, "the nodes share an image");
    assert!(common["build"].is_badvalue(), "the nodes share an image");
    let check = common["healthcheck"]["test"].as_vec().expect("health is checked");
    assert!(
        check
            .iter()
            .any(|it| it.as_str().is_some_and(|it| it.ends_with("/readyz"))),
        "{check:?}"
    );
    assert_eq!(common["stop_grace_period"].as_str(), Some("60s"));
    let given = common["secrets"].as_vec().expect("secrets are files");
    assert!(
        given
            .iter()
            .all(|it| !compose["secrets"][it.as_str().unwrap()].is_badvalue()),
        "{given:?}"
    );
    for image in [&common["image"], &compose["services"]["postgres"]["image"]] {
        assert_pinned(image.as_str().expect("an image has a name"));
    }
}

/// The variables of a service, those that it shares apart.
fn environment(from: &Yaml) -> BTreeMap<String, String> {
    let pairs = from.as_hash().expect("variables are pairs").iter();
    pairs
        .filter_map(|(name, value)| Some((name.as_str()?.to_owned(), value.as_str()?.to_owned())))
        .filter(|(name, _)| name != "<<")
        .collect()
}

#[test]
fn the_image_is_built_from_pinned_ones_and_is_nobody() {
    let file = text("Dockerfile");
    let from = file.lines().filter_map(|line| line.strip_prefix("FROM "));
    let images: Vec<&str> = from.map(|it| it.split(' ').next().unwrap()).collect();
    assert_eq!(images.len(), 2, "{images:?}");
    images.into_iter().for_each(assert_pinned);
    assert!(file.contains("groupadd --system --gid 10001 "));
    assert!(file.contains("\nUSER 10001:10001\n"));
    assert!(file.contains("http://127.0.0.1:8085/readyz"));
}

fn assert_pinned(image: &str) {
    let tag = image.split_once(':').map(|(_, tag)| tag);
    assert!(
        tag.is_some_and(|tag| tag.contains(|char: char| char.is_ascii_digit())),
        "{image}"
    );
}
