use std::collections::BTreeMap;
use std::io::Write;

use super::reader::Reader;
use super::*;
use crate::delivery::OnDoubt;
use crate::trigger::limit::OnLimit;
use crate::trigger::retry;

fn from_environment(pairs: &[(&str, &str)]) -> Result<Settings, Complaints> {
    let pairs = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::load(None, pairs)
}

fn from_file(text: &str) -> Result<Settings, Complaints> {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    Settings::load(Some(file.path()), [])
}

fn complaints(loaded: Result<Settings, Complaints>) -> String {
    loaded.expect_err("this configuration is wrong").to_string()
}

#[test]
fn the_defaults_work_without_any_configuration() {
    let settings = from_environment(&[]).unwrap();
    assert_eq!(settings.store.sqlite_path(), PathBuf::from("carillon.db"));
    assert_eq!(settings.http.listen.to_string(), "127.0.0.1:8085");
    assert_eq!(settings.worker.period, Duration::from_mins(30));
    assert_eq!(settings.worker.look_ahead, Duration::from_mins(35));
    assert_eq!(settings.worker.initial_delay, Duration::from_secs(10));
    assert_eq!(settings.worker.overdue_wait_time, Duration::from_mins(5));
    assert_eq!(settings.delivery.send_within, Duration::from_mins(2));
    assert_eq!(settings.delivery.max_lateness, Duration::from_hours(12));
    assert!(settings.relays.is_empty());
    let email = &settings.channels[&ChannelKind::Email];
    assert_eq!((email.enabled, email.on_doubt), (true, OnDoubt::Retry));
    assert_eq!(email.retry, retry::Policy::default());
    let sms = &settings.channels[&ChannelKind::Sms];
    assert_eq!((sms.enabled, sms.on_doubt), (false, OnDoubt::Fail));
}

#[test]
fn the_defaults_of_mail_are_those_of_its_module() {
    let settings = from_environment(&[("CARILLON__CHANNELS__EMAIL__SMTP__HOST", "127.0.0.1")]).unwrap();
    let relay = &settings.relays[0];
    assert_eq!(relay.timeouts, smtp::Timeouts::default());
    assert_eq!(relay.connections, smtp::DEFAULT_CONNECTIONS);
}

#[test]
fn further_relays_are_asked_in_their_order_and_have_the_keys_of_the_first() {
    let settings = from_file(
        "[channels.email]\nfrom = \"c@example.org\"\nfurther_relays = [\"south\", \"north\"]\n\
         [channels.email.smtp]\nhost = \"first.example.org\"\nport = 25\n\
         [channels.email.relays.north]\nhost = \"north.example.org\"\ntls = \"implicit\"\n\
         [channels.email.relays.south]\nhost = \"south.example.org\"\nconnections = 3\ntimeouts.data = \"7s\"\n",
    )
    .unwrap();
    let places: Vec<_> = settings
        .relays
        .iter()
        .map(|relay| (&*relay.host, relay.port, relay.connections))
        .collect();
    assert_eq!(
        places,
        [
            ("first.example.org", 25, 8),
            ("south.example.org", 587, 3),
            ("north.example.org", 587, 8)
        ]
    );
    assert_eq!(settings.relays[1].timeouts.data, Duration::from_secs(7));
    assert_eq!(settings.relays[2].tls, smtp::Tls::Implicit);
    let printed = settings.print_redacted();
    assert_eq!(from_file(&printed).expect(&printed).relays.len(), 3);
    assert!(what_needs_restart(&from_file("").unwrap(), &settings).contains(&"channels.email.relays"));
}

#[test]
fn everything_wrong_with_further_relays_is_said_at_once() {
    let told = complaints(from_file(
        "[channels.email]\nfurther_relays = [\"a\", \"b\", \"a\", \"c\"]\n\
         [channels.email.relays.a]\nhost = \"127.0.0.1\"\nprot = 25\n\
         [channels.email.relays.c]\nport = 25\n\
         [channels.email.relays.unasked]\nhost = \"127.0.0.1:25\"\n",
    ));
    for part in [
        "there is no relay to be asked before these: name it in channels.email.smtp.host",
        "there is no relay `b`: describe it in [channels.email.relays.b]",
        "names `a` twice",
        "did you mean `channels.email.relays.a.port`?",
        "channels.email.relays.c.host = `` (default): names no relay",
        "channels.email.relays.unasked.host = `127.0.0.1:25`",
    ] {
        assert!(told.contains(part), "{part}:\n{told}");
    }
}

#[test]
fn pauses_between_attempts_can_be_listed() {
    let settings = from_file("[channels.webhook.retry]\nschedule = [\"10s\", \"2m\"]\n").unwrap();
    let listed = [Duration::from_secs(10), Duration::from_mins(2)];
    assert_eq!(settings.channels[&ChannelKind::Webhook].retry.schedule, listed);
    assert_eq!(
        settings.channels[&ChannelKind::Email].retry,
        retry::Policy::default()
    );
    for wrong in ["[\"10\"]", "[\"0s\"]", "[\"25h\"]", "\"1m\""] {
        let told = complaints(from_file(&format!("[channels.sms.retry]\nschedule = {wrong}\n")));
        assert!(told.contains("channels.sms.retry.schedule = "), "{wrong}: {told}");
        assert!(told.contains("a list of up to 100 pauses"), "{told}");
    }
}

#[test]
fn pauses_between_attempts_have_a_preset_by_name() {
    let minutes =
        from_file("[channels.sms.retry]\npreset = \"minutes\"\nattempts = 12\njitter = 0.1\n").unwrap();
    let listed = [1, 2, 5, 10, 20].map(Duration::from_mins);
    let policy = &minutes.channels[&ChannelKind::Sms].retry;
    assert_eq!((policy.schedule.as_slice(), policy.attempts), (&listed[..], 12));
    let named = from_environment(&[("CARILLON__CHANNELS__EMAIL__RETRY__PRESET", "exponential")]).unwrap();
    assert_eq!(
        named.channels[&ChannelKind::Email].retry,
        retry::Policy::default()
    );

    let told = complaints(from_file("[channels.email.retry]\npreset = \"hours\"\n"));
    assert!(told.contains("channels.email.retry.preset = `hours`"), "{told}");
    assert!(told.contains("one of \"exponential\", \"minutes\""), "{told}");
    for (key, value) in [
        ("schedule", "[\"1s\"]"),
        ("backoff", "\"2s\""),
        ("max_backoff", "\"1h\""),
    ] {
        let text = format!("[channels.email.retry]\npreset = \"minutes\"\n{key} = {value}\n");
        let told = complaints(from_file(&text));
        assert!(told.contains(&format!("channels.email.retry.{key} = ")), "{told}");
        assert!(
            told.contains("preset = `minutes`") && told.contains("leave one of the two out"),
            "{told}"
        );
    }
}

#[test]
fn everything_wrong_with_webhooks_is_said_at_once() {
    let told = complaints(from_file(
        "[channels.webhook]\nallow_networks = [\"10.1.2.3/16\", \"x\"]\nack = \"callback\"\ntimeout = \"0s\"\n\
         secret_file = \"Cargo.toml\"\nca_file = \"nowhere.pem\"\ncontent = \"some\"\n",
    ));
    for part in [
        "write 10.1.0.0/16",
        "`x` is no network",
        "set http.public_url",
        "must be more than 0",
        "line 1 does not begin with whsec_",
        "nowhere.pem",
        "one of \"full\", \"title\", \"none\"",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn where_calls_leave_an_attempt_has_room_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let secrets = folder.path().join("secrets");
    std::fs::write(&secrets, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
    let none_leaves = "[delivery]\nsend_within = \"9s\"\n";
    from_file(none_leaves).unwrap();
    let signed = format!(
        "{none_leaves}[channels.webhook]\nsecret_file = \"{}\"\n",
        secrets.display()
    );
    let told = complaints(from_file(&signed));
    for part in [
        "channels.webhook.timeout",
        "must be at most half of delivery.send_within = `9s`",
        "that one to 10s or more",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    from_file(&signed.replace("9s", "10s")).unwrap();
}

#[test]
fn every_key_of_the_defaults_makes_a_setting() {
    let mut reader = Reader::layered(None, BTreeMap::new());
    Settings::take(&mut reader).unwrap();
    assert_eq!(reader.untaken(), [] as [&str; 0]);
}

#[test]
fn every_key_has_a_comment_that_says_how_it_takes_effect() {
    let (mut section, mut comment) = ("", "");
    for line in DEFAULTS.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((name, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            let key = format!("{section}.{name}");
            let needs_restart = RESTART.iter().any(|prefix| key.starts_with(prefix));
            let mark = if needs_restart { "[restart]" } else { "[reload]" };
            assert!(
                comment.starts_with("# ") && comment.ends_with(mark),
                "{key}: {comment}"
            );
        }
        comment = line;
    }
}

#[test]
fn an_unknown_key_is_refused_with_its_likely_name() {
    let text = complaints(from_file(
        "[worker]\nlookahead = \"40m\"\n[htpp]\nlisten = \"127.0.0.1:1\"\n",
    ));
    assert!(text.contains("worker.lookahead (in "), "{text}");
    assert!(text.contains("did you mean `worker.look_ahead`?"), "{text}");
    assert!(text.contains("did you mean `http.listen`?"), "{text}");
}

#[test]
fn an_unknown_variable_is_refused_with_its_likely_name() {
    let text = complaints(from_environment(&[("CARILLON__HTTP_LISTEN", "127.0.0.1:1")]));
    assert!(text.contains("from CARILLON__HTTP_LISTEN"), "{text}");
    assert!(text.contains("did you mean `CARILLON__HTTP__LISTEN`?"), "{text}");
}

#[test]
fn nothing_is_suggested_that_is_not_alike() {
    let text = complaints(from_environment(&[("CARILLON__POLICIES__MIN_INTERVAL", "1s")]));
    assert!(
        text.ends_with("config/carillon.toml lists those that exist"),
        "{text}"
    );
}

#[test]
fn a_section_cannot_be_a_value() {
    assert!(complaints(from_file("http = 5\n")).contains("is a section"));
    assert!(complaints(from_environment(&[("CARILLON__STORE", "x")])).contains("is a section"));
}

#[test]
fn all_complaints_come_at_once() {
    let text = complaints(from_environment(&[
        ("CARILLON__WORKER__PERIOD", "2 fortnights"),
        ("CARILLON__WORKER__LOOK_AHEAD", "1m"),
        ("CARILLON__WORKER__OVERDUE_WAIT_TIME", "60s"),
        ("CARILLON__CHANNELS__EMAIL__RETRY__ATTEMPTS", "0"),
        ("CARILLON__STORE__URL", "mysql://carillon:hunter2@db/carillon"),
        ("CARILLON__HTTP__LISTEN", "0.0.0.0:8085"),
        ("CARILLON__LOG__LEVEL", "loud=very"),
        ("CARILLON__NODE__ID", "a b"),
        ("CARILLON__CHANNELS__SMS__ON_DOUBT", "maybe"),
    ]));
    for key in [
        "worker.period",
        "worker.look_ahead",
        "worker.overdue_wait_time",
        "channels.email.retry.attempts",
        "store.url",
        "http.listen",
        "log.level",
        "node.id",
        "channels.sms.on_doubt",
    ] {
        assert!(
            text.lines().any(|line| line.starts_with(key)),
            "{key} is missing:\n{text}"
        );
    }
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(text.lines().count(), 9, "{text}");
}

#[test]
fn a_rule_between_two_keys_names_both_and_the_cure() {
    let text = complaints(from_environment(&[("CARILLON__WORKER__PERIOD", "2h")]));
    assert_eq!(
        text,
        "worker.look_ahead = `35m` (default): must be at least worker.period = `2h` (from \
         CARILLON__WORKER__PERIOD), or triggers fall between two looks: set it to 2h5m (period + 5 minutes)"
    );
}

#[test]
fn a_number_in_quotes_is_a_mistake_in_a_file_only() {
    assert!(from_file("[channels.email.retry]\nattempts = \"3\"\n").is_err());
    let settings = from_environment(&[("CARILLON__CHANNELS__EMAIL__RETRY__ATTEMPTS", "3")]).unwrap();
    assert_eq!(settings.channels[&ChannelKind::Email].retry.attempts, 3);
}

#[test]
fn the_environment_wins_over_the_file_and_the_file_over_the_default() {
    let mut file = tempfile::Builder::new().suffix(".conf").tempfile().unwrap();
    file.write_all(b"[worker]\nperiod = \"10m\"\nlook_ahead = \"20m\"\n")
        .unwrap();
    let environment = [("CARILLON__WORKER__LOOK_AHEAD".to_owned(), "1h".to_owned())];
    let settings = Settings::load(Some(file.path()), environment).unwrap();
    assert_eq!(settings.worker.period, Duration::from_mins(10));
    assert_eq!(settings.worker.look_ahead, Duration::from_hours(1));
    let printed = settings.print_redacted();
    assert!(
        printed.contains("look_ahead = \"1h\" # from CARILLON__WORKER__LOOK_AHEAD\n"),
        "{printed}"
    );
    assert!(
        printed.contains(&format!("period = \"10m\" # in {}\n", file.path().display())),
        "{printed}"
    );
}

#[test]
fn what_is_printed_can_be_read_again() {
    let settings = from_environment(&[("CARILLON__CHANNELS__EMAIL__RETRY__ATTEMPTS", "3")]).unwrap();
    let again = from_file(&settings.print_redacted()).unwrap();
    assert_eq!(again.hash(), settings.hash());
}

#[test]
fn a_time_shift_may_be_negative() {
    let shift = |text| {
        let settings = from_environment(&[("CARILLON__CHANNELS__EMAIL__TIME_SHIFT", text)]);
        settings.map(|settings| settings.channels[&ChannelKind::Email].time_shift_ms)
    };
    assert_eq!(shift("-5s").unwrap(), -5_000);
    assert_eq!(shift("250ms").unwrap(), 250);
    assert!(shift("--5s").is_err() && shift("2h").is_err() && shift("5").is_err());
}

#[test]
fn a_throughput_is_a_rate_or_none_and_never_nothing() {
    let rate = |text| {
        let settings = from_environment(&[("CARILLON__CHANNELS__SMS__THROUGHPUT", text)]);
        settings.map(|settings| settings.channels[&ChannelKind::Sms].throughput)
    };
    assert_eq!(rate("20").unwrap(), std::num::NonZeroU32::new(20));
    assert_eq!(rate("-1").unwrap(), None);
    let told = complaints(from_environment(&[("CARILLON__CHANNELS__SMS__THROUGHPUT", "0")]));
    assert!(
        told.contains("channels.sms.throughput") && told.contains("-1 for none"),
        "{told}"
    );
    for wrong in ["fast", "100001", "0.5"] {
        let told = complaints(rate(wrong).map(|_| from_environment(&[]).unwrap()));
        let expected =
            "expected a whole number from 1 to 100000, so many a second, or -1 for as many as there are";
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn connections_of_one_peer_are_a_quarter_or_as_configured() {
    let per_peer = |connections, per_peer| {
        let settings = from_environment(&[
            ("CARILLON__HTTP__MAX_CONNECTIONS", connections),
            ("CARILLON__HTTP__MAX_CONNECTIONS_PER_PEER", per_peer),
        ]);
        settings.map(|settings| settings.http.limits.connections_per_peer)
    };
    assert_eq!(per_peer("500", "-1").unwrap(), 125);
    assert_eq!(per_peer("1", "-1").unwrap(), 1);
    assert_eq!(per_peer("500", "400").unwrap(), 400);
    let told = complaints(per_peer("500", "0").map(|_| from_environment(&[]).unwrap()));
    assert!(
        told.contains("http.max_connections_per_peer") && told.contains("-1 for a quarter"),
        "{told}"
    );
}

#[test]
fn probes_answer_under_host_names_without_a_port() {
    let hosts = |text| from_environment(&[("CARILLON__HTTP__PROBE_HOSTS", text)]);
    let settings = hosts("Node1.internal,10.1.0.5,[fd00::5]").unwrap();
    assert_eq!(
        settings.http.probe_hosts,
        ["node1.internal", "10.1.0.5", "[fd00::5]"]
    );
    for wrong in ["node1:8085", "http://node1", "a b"] {
        let told = complaints(hosts(wrong));
        assert!(
            told.contains("http.probe_hosts") && told.contains("without a port"),
            "{told}"
        );
    }
}

#[test]
fn mails_have_a_throughput_for_each_domain() {
    let key = "CARILLON__CHANNELS__EMAIL__DOMAIN_THROUGHPUT";
    let rate = |text| {
        let settings = from_environment(&[(key, text)]);
        settings.map(|settings| settings.channels[&ChannelKind::Email].domain_throughput)
    };
    assert_eq!(rate("20").unwrap(), std::num::NonZeroU32::new(20));
    assert_eq!(rate("-1").unwrap(), None);
    let told = complaints(from_environment(&[(key, "0")]));
    assert!(
        told.contains("channels.email.domain_throughput") && told.contains("-1 for none"),
        "{told}"
    );
    let of_sms = from_environment(&[("CARILLON__CHANNELS__SMS__DOMAIN_THROUGHPUT", "20")]);
    assert!(complaints(of_sms).contains("domain_throughput"));
}

#[test]
fn what_was_missed_or_is_over_a_limit_can_come_as_one_message() {
    let settings = from_environment(&[
        ("CARILLON__POLICIES__CATCH_UP", "digest"),
        ("CARILLON__CHANNELS__SMS__ON_LIMIT", "digest"),
        ("CARILLON__CHANNELS__SMS__LIMIT__AMOUNT", "3"),
    ]);
    let settings = settings.unwrap();
    assert_eq!(settings.delivery.catch_up, CatchUp::Digest);
    let limit = settings.channels[&ChannelKind::Sms].limit.unwrap();
    assert_eq!(limit.over, OnLimit::Digest);
    for key in [
        "CARILLON__POLICIES__CATCH_UP",
        "CARILLON__CHANNELS__SMS__ON_LIMIT",
    ] {
        let told = complaints(from_environment(&[(key, "summary")]));
        assert!(told.contains("`summary`") && told.contains("digest"), "{told}");
    }
}

#[test]
fn a_missing_file_or_broken_toml_is_one_complaint() {
    let missing = Settings::load(Some(Path::new("/nonexistent/carillon.toml")), []);
    assert_eq!(complaints(missing).lines().count(), 1);
    let broken = complaints(from_file("[worker\nperiod = 5m\n"));
    assert_eq!(broken.lines().count(), 1, "{broken}");
}

#[test]
fn a_secret_comes_from_its_file_and_is_shown_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "  t0ps3cret\n").unwrap();
    let path = path.to_str().unwrap();
    let pairs = [
        ("CARILLON__HTTP__TOKEN_FILE", path),
        ("CARILLON__HTTP__LISTEN", "0.0.0.0:1"),
    ];
    let settings = from_environment(&pairs).unwrap();
    let token = settings.http.token.as_ref().unwrap();
    assert_eq!(secrecy::ExposeSecret::expose_secret(token), "t0ps3cret");
    assert!(!format!("{settings:?}{}", settings.print_redacted()).contains("t0ps3cret"));
}

#[test]
fn the_public_address_is_one_that_others_can_be_told() {
    let read = |url| from_environment(&[("CARILLON__HTTP__PUBLIC_URL", url)]);
    let told = |url| read(url).unwrap().http.public_url;
    assert_eq!(told(""), None);
    assert_eq!(
        told("https://Reminders.example.org/").as_deref(),
        Some("https://reminders.example.org")
    );
    assert_eq!(
        told("http://10.0.0.1:8085/carillon/").as_deref(),
        Some("http://10.0.0.1:8085/carillon")
    );
    for url in [
        "reminders.example.org",
        "ftp://example.org",
        "https://me:pw@example.org",
        "https://example.org/?a=b",
        "https://example.org/#top",
    ] {
        let text = complaints(read(url));
        assert!(
            text.contains("http.public_url") && text.contains("such as https://"),
            "{text}"
        );
    }
}

#[test]
fn a_secret_put_where_its_file_belongs_is_not_repeated() {
    let text = complaints(from_file("[channels.email.smtp]\npassword = \"hunter2\"\n"));
    assert!(
        text.contains("did you mean `channels.email.smtp.password_file`?"),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn mail_leaves_only_with_an_address_and_an_encrypted_login() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, "pw").unwrap();
    let text = complaints(from_environment(&[
        ("CARILLON__CHANNELS__EMAIL__SMTP__HOST", "relay.example.org"),
        ("CARILLON__CHANNELS__EMAIL__SMTP__TLS", "none"),
        ("CARILLON__CHANNELS__EMAIL__SMTP__USERNAME", "carillon"),
        (
            "CARILLON__CHANNELS__EMAIL__SMTP__PASSWORD_FILE",
            path.to_str().unwrap(),
        ),
    ]));
    assert!(
        text.contains("channels.email.from") && text.contains("channels.email.smtp.tls"),
        "{text}"
    );
}

#[test]
fn the_hash_tells_configurations_apart_but_not_nodes() {
    let hash = |pairs| from_environment(pairs).unwrap().hash();
    let base = hash(&[]);
    assert_eq!(base, hash(&[("CARILLON__NODE__ID", "other")]));
    assert_eq!(base, hash(&[("CARILLON__WORKER__PERIOD", "30m")]));
    assert_ne!(base, hash(&[("CARILLON__WORKER__PERIOD", "29m")]));
    assert!(base < 1 << 53, "a float holds it exactly");
}

#[test]
fn a_reload_says_what_still_needs_a_restart() {
    let old = from_environment(&[]).unwrap();
    let new = from_environment(&[
        ("CARILLON__WORKER__PERIOD", "29m"),
        ("CARILLON__HTTP__LISTEN", "127.0.0.1:1"),
        ("CARILLON__CHANNELS__EMAIL__SMTP__PORT", "25"),
    ])
    .unwrap();
    assert_eq!(what_needs_restart(&old, &new), ["http", "channels.email.smtp"]);
    assert!(what_needs_restart(&old, &old).is_empty());
}

#[test]
fn a_cluster_on_sqlite_is_refused_and_the_defaults_written_out_are_not() {
    let text = complaints(from_file("[cluster]\nheartbeat = \"200ms\"\n"));
    assert!(text.starts_with("cluster.heartbeat = `200ms` (in "), "{text}");
    assert!(
        text.contains("store.url = `sqlite://carillon.db` (default)"),
        "{text}"
    );
    assert!(text.contains("the PostgreSQL that the nodes share"), "{text}");
    from_file(DEFAULTS).unwrap();
}

#[test]
fn a_place_of_the_cluster_that_cannot_work_is_refused() {
    let postgres = ("CARILLON__STORE__URL", "postgres://localhost/c");
    let refused = |key, value| complaints(from_environment(&[postgres, (key, value)]));
    let nowhere = refused("CARILLON__CLUSTER__ADVERTISE", "node-1");
    assert!(nowhere.contains("cluster.advertise = `node-1`"), "{nowhere}");
    assert!(nowhere.contains("write host:port"), "{nowhere}");
    let taken = refused("CARILLON__CLUSTER__LISTEN", "127.0.0.1:8085");
    assert!(taken.contains("peers need a port of their own"), "{taken}");
    for place in ["node-1:8086", "[::1]:8086"] {
        from_environment(&[postgres, ("CARILLON__CLUSTER__ADVERTISE", place)]).unwrap();
    }
}

#[test]
fn what_the_standards_leave_open_is_chosen() {
    let choices = from_file("").unwrap().policies.choices;
    assert_eq!(choices, crate::trigger::expand::Choices::default());
    let chosen =
        from_file("[policies]\ndeclined = \"deliver\"\ndelegated = \"deliver\"\ndue_only = \"start\"\n");
    let choices = chosen.unwrap().policies.choices;
    assert!(choices.with_declined && choices.with_delegated && choices.due_is_start);
}

#[test]
fn a_source_has_a_kind_and_default_alarms_of_its_own() {
    let settings = from_file(
        "[sources.invitations]\nkind = \"itip\"\n[sources.\"office.main\".defaults]\ntimed = [\"-PT10M\", \"-P1D\"]\n\
         [policies.defaults]\nall_day = [\"-PT15H\"]\n",
    )
    .unwrap();
    let policies = &settings.policies;
    assert_eq!(policies.source("invitations").kind, change::SourceKind::Itip);
    assert_eq!(policies.source("office.main").kind, change::SourceKind::Calendar);
    assert_eq!(policies.source("unheard of").kind, change::SourceKind::Calendar);
    let office = &policies.defaults.sources["office.main"];
    let written = |alarms: &Option<Vec<_>>| {
        alarms
            .as_ref()
            .map(|alarms| alarms.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(written(&office.timed).unwrap(), ["-PT10M", "-P1D"]);
    assert_eq!(office.all_day, None);
    assert_eq!(written(&policies.defaults.general.all_day).unwrap(), ["-PT15H"]);

    let printed = settings.print_redacted();
    assert_eq!(from_file(&printed).expect(&printed).policies, *policies);
}

#[test]
fn a_list_in_the_environment_is_separated_by_commas() {
    let settings = from_environment(&[
        ("CARILLON__POLICIES__DEFAULTS__TIMED", "-PT15M, -P1D"),
        ("CARILLON__SOURCES__OFFICE__KIND", "itip"),
    ])
    .unwrap();
    assert_eq!(settings.policies.defaults.general.timed.unwrap().len(), 2);
    assert_eq!(settings.policies.sources["office"].kind, change::SourceKind::Itip);
}

#[test]
fn what_a_source_cannot_be_is_complained_about() {
    let text = complaints(from_file(
        "[sources.office]\nknid = \"itip\"\nkind = \"carrier pigeon\"\n[sources.office.defaults]\n\
         timed = [\"15m\"]\nall_day = \"-P1D\"\n",
    ));
    assert!(text.contains("did you mean `sources.office.kind`?"), "{text}");
    for key in [
        "sources.office.kind = `carrier pigeon`",
        "sources.office.defaults.timed = `15m`",
        "sources.office.defaults.all_day = `-P1D`",
    ] {
        assert!(text.lines().any(|line| line.starts_with(key)), "{key}:\n{text}");
    }
}
