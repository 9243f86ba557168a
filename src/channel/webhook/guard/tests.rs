//! Every way to write an address that must not be called.

use super::*;

const BLOCKED: [&str; 62] = [
    // Loopback and unspecified, in all spellings that URLs know.
    "127.0.0.1",
    "127.255.255.254",
    "127.1",
    "0x7f.1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "0177.0.0.01",
    "127.0.0.1.",
    "１２７.0.0.1",
    "127。0。0。1",
    "0",
    "0.0.0.0",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::]",
    // Private, shared, link-local.
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "100.127.255.255",
    "169.254.169.254",
    "0xa9fea9fe",
    "[fe80::1]",
    "[febf::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fec0::1]",
    // Benchmarks, documentation, protocols.
    "198.18.0.1",
    "198.19.255.255",
    "192.0.2.1",
    "198.51.100.1",
    "203.0.113.1",
    "192.0.0.1",
    "192.88.99.1",
    "[2001:db8::1]",
    "[3fff::1]",
    "[2001:2::1]",
    "[2001:10::1]",
    "[100::1]",
    // Groups and what is reserved.
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "[ff02::1]",
    "[5f00::1]",
    // IPv4 in disguise.
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:10.0.0.1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:8.8.8.8]",
    "[::127.0.0.1]",
    "[::8.8.8.8]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
];

#[test]
fn no_spelling_of_an_address_that_is_not_public_is_a_target() {
    let guard = Guard::default();
    for host in BLOCKED {
        for port in ["", ":8443"] {
            let url = format!("https://{host}{port}/hook");
            let error = guard.target(&url).expect_err(&url);
            assert!(error.contains("not on the public Internet"), "{url}: {error}");
        }
    }
}

#[test]
fn what_is_public_is_a_target() {
    let guard = Guard::default();
    for host in [
        "example.org",
        "93.184.215.14",
        "8.8.8.8",
        "100.63.255.255",
        "172.32.0.1",
        "192.0.1.1",
        "223.255.255.255",
        "[2606:2800:21f:cb07:6820:80da:af6b:8b2c]",
        "[2001:4860:4860::8888]",
    ] {
        let url = format!("https://{host}/hook?token=1");
        assert_eq!(guard.target(&url).expect(&url).scheme, Scheme::Https);
    }
}

#[test]
fn what_is_no_target_says_why() {
    let guard = Guard::default();
    for (url, told) in [
        ("example.org/hook", "is no URL"),
        ("https://", "is no URL"),
        ("ftp://example.org/", "must begin with https://"),
        ("file:///etc/passwd", "must begin with https://"),
        ("gopher://127.0.0.1:6379/_", "must begin with https://"),
        ("javascript:alert(1)", "must begin with https://"),
        ("https://anna@example.org/", "user name or password"),
        ("https://anna:secret@example.org/", "user name or password"),
        ("http://example.org/", "is not encrypted"),
        ("http://8.8.8.8/", "is not encrypted"),
        ("http://127.0.0.1/", "not on the public Internet"),
    ] {
        let error = guard.target(url).expect_err(url);
        assert!(error.contains(told), "{url}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
    let long = format!("https://example.org/{}", "a".repeat(2_000));
    assert!(guard.target(&long).expect_err("too long").contains("2000 bytes"));
}

#[test]
fn an_operator_opens_a_network_and_nothing_beside_it() {
    let allowed = ["10.1.0.0/16", "127.0.0.1", "fd00:1::/32"].map(|text| text.parse().expect(text));
    let guard = Guard::new(allowed.to_vec());
    for url in [
        "http://127.0.0.1:9000/",
        "http://10.1.2.3/",
        "https://10.1.255.255/",
        "http://[fd00:1::7]/",
        // Which network its name leads to is known when it is resolved.
        "http://hooks.internal/",
    ] {
        assert!(guard.target(url).is_ok(), "{url}");
    }
    for url in [
        "http://127.0.0.2/",
        "http://10.2.0.1/",
        "https://10.0.255.255/",
        "https://[fd00:2::7]/",
        "https://[::ffff:127.0.0.1]/",
        "http://8.8.8.8/",
    ] {
        assert!(guard.target(url).is_err(), "{url}");
    }
}

#[test]
fn networks_are_written_in_full() {
    for (text, told) in [
        ("10.1.2.3/16", "write 10.1.0.0/16"),
        ("10.1", "is no network"),
        ("example.org", "is no network"),
        ("", "is no network"),
        ("10.0.0.0/33", "is no network"),
    ] {
        let error = text.parse::<Network>().expect_err(text);
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn one_host_and_port_are_one_endpoint() {
    let guard = Guard::default();
    let endpoint = |url: &str| guard.target(url).expect(url).endpoint();
    assert_eq!(
        endpoint("https://Example.org/a"),
        endpoint("https://example.org:443/b")
    );
    assert_ne!(
        endpoint("https://example.org/"),
        endpoint("https://example.org:444/")
    );
}
