//! What configuration is taken, and what is refused by name.

use super::*;

fn load(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("reseq.toml");
    std::fs::write(&path, text).unwrap();
    let variables = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    Config::load(Some(&path), variables).map_err(|error| error.to_string())
}

#[test]
fn the_environment_is_over_the_file() {
    let text = "[http]\nlisten = \"127.0.0.1:1\"\n[sender]\nlease_ms = 700\n";
    let variables = [("RESEQ_HTTP_LISTEN", "127.0.0.1:2"), ("RESEQ_SHUTDOWN_MS", "900")];
    let config = load(text, &variables).unwrap();
    assert_eq!(config.http.listen.port(), 2);
    assert_eq!((config.sender.lease_ms, config.shutdown_ms), (700, 900));
}

#[test]
fn what_is_unknown_or_wrong_is_refused_by_name() {
    let tcp = "[[tcp]]\nlisten='127.0.0.1:7000'\ndestination='erp'\nframing='morse'\n";
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
    let cases: [Case; 13] = [
        ("[http]\nlisten_on = 'x'\n", &[], "listen_on"),
        (tcp, &[], "morse"),
        ("[http]\nlisten = 'nowhere'\n", &[], "listen"),
        ("[redis]\npartitions = 0\n", &[], "redis.partitions"),
        ("[redis]\nurl = 'mysql://x'\n", &[], "redis.url"),
        ("", &[("RESEQ_HTTP_LISTN", "x")], "RESEQ_HTTP_LISTN"),
        ("", &[("RESEQ_SHUTDOWN_MS", "soon")], "RESEQ_SHUTDOWN_MS"),
        ("[[destination]]\nname='erp'\nurl='x:'\n", &[], "url"),
        ("[[destination]]\nname='E R P'\nurl='http://h/'\n", &[], "name"),
        ("[ingest]\nmemory_high_percent = 101\n", &[], "ingest.memory_high_percent"),
        ("[[topic]]\nname='all'\ndestinations=[]\n", &[], "\"all\": destinations"),
        ("[[topic]]\nname='all'\ndestinations=['erp', 'erp']\n", &[], "twice"),
        ("[[topic]]\nname='A L L'\ndestinations=['erp']\n", &[], "name"),
    ];
    for (text, variables, named) in cases {
        let error = load(text, variables).unwrap_err();
        assert!(error.contains(named), "{error:?} does not name {named:?}");
    }
}

#[test]
fn the_password_of_redis_is_never_shown() {
    let config = load("[redis]\nurl = 'redis://u:s3cret@h:1/0'\n", &[]).unwrap();
    assert!(!format!("{config:?}").contains("s3cret"));
    let config = load("[redis]\nurl = 'unix:///run/redis.sock?user=u&pass=s3cret'\n", &[]).unwrap();
    assert!(!format!("{config:?}").contains("s3cret"));
}

#[test]
fn the_example_configuration_is_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("reseq.example.toml");
    let config = Config::load(Some(&path), []).unwrap();
    assert!(!config.destinations.is_empty() && !config.tcp.is_empty());
}
