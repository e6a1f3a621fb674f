//! Tests that valid configurations are accepted, and that errors name the invalid field.

use super::*;

/// Loads a file with this text. If the text has no URL of Redis, Redis is embedded.
fn load(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let redis = [("RESEQ_REDIS_URL", EMBEDDED)].iter().filter(|_| !text.contains("url = 'redis"));
    let redis = redis.filter(|_| !["mysql", "unix"].iter().any(|scheme| text.contains(scheme)));
    let variables: Vec<_> = redis.chain(variables).copied().collect();
    load_alone(text, &variables)
}

fn load_alone(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
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
    let cases: [Case; 14] = [
        ("[http]\nlisten_on = 'x'\n", &[], "listen_on"),
        (tcp, &[], "morse"),
        ("[http]\nlisten = 'nowhere'\n", &[], "listen"),
        ("[http]\njson_depth_max = 7\n", &[], "http.json_depth_max"),
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
fn traces_endpoint_is_read_from_reseq_then_otel_variable() {
    let of_all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318");
    let own = ("RESEQ_TRACING_OTLP_ENDPOINT", "https://own:4318/x");
    let endpoint = |variables: &[_]| load("", variables).unwrap().tracing.otlp_endpoint;
    assert_eq!(endpoint(&[]), "");
    assert_eq!(endpoint(&[of_all]), of_all.1);
    assert_eq!((endpoint(&[own, of_all]), endpoint(&[of_all, own])), (own.1.into(), own.1.into()));
    let config = load("", &[("RESEQ_TRACING_SAMPLE_RATIO", "1")]).unwrap();
    assert_eq!((config.tracing.sample_ratio, config.tracing.is_on()), (1.0, false));
    for (name, text) in [
        ("RESEQ_TRACING_SAMPLE_RATIO", "1.1"),
        ("RESEQ_TRACING_SAMPLE_RATIO", "NaN"),
        ("RESEQ_TRACING_SAMPLE_RATIO", "some"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
    ] {
        let error = load("", &[(name, text)]).unwrap_err().to_lowercase().replace(['.', '_'], " ");
        let field = if name.ends_with("RATIO") { "sample ratio" } else { "otlp endpoint" };
        assert!(error.contains(field), "{error}");
    }
    let json = load("[log]\nformat = \"json\"\n", &[]).unwrap().log;
    assert!(json.is_json());
    assert!(!load("", &[("RESEQ_LOG_FORMAT", "text")]).unwrap().log.is_json());
    assert!(load("", &[("RESEQ_LOG_FORMAT", "xml")]).unwrap_err().contains("RESEQ_LOG_FORMAT"));
}

#[test]
fn an_embedded_redis_is_started_only_when_asked_for_by_name() {
    let error = load_alone("", &[]).unwrap_err();
    assert!(error.contains("redis.url") && error.contains("embedded"), "{error}");
    let error = load_alone("[redis]\nurl = 'embedded'\n", &[("RESEQ_REDIS_URL", "")]).unwrap_err();
    assert!(error.contains("redis.url"), "{error}");
    assert!(load_alone("[redis]\nurl = 'embedded'\n", &[]).unwrap().redis.is_embedded());
}

#[test]
fn what_kubernetes_sets_for_services_is_never_taken_for_a_field() {
    let variables = [
        ("RESEQ_SERVICE_HOST", "10.0.0.11"),
        ("RESEQ_PORT", "tcp://10.0.0.11:8080"),
        ("RESEQ_REDIS_PORT", "tcp://10.0.0.12:6379"),
        ("RESEQ_REDIS_PORT_6379_TCP_ADDR", "10.0.0.12"),
        ("RESEQ_HTTP_SERVICE_PORT", "8080"),
    ];
    let with = load("", &variables).unwrap();
    let without = load("", &[]).unwrap();
    assert_eq!(toml::Value::try_from(with).unwrap(), toml::Value::try_from(without).unwrap());
    // The value is not like those of Kubernetes, so the variable counts as misspelled.
    let error = load("", &[("RESEQ_PORT", "8080")]).unwrap_err();
    assert!(error.contains("RESEQ_PORT"), "{error}");
}

#[test]
fn the_password_of_redis_is_never_shown() {
    let config = load("[redis]\nurl = 'redis://u:s3cret@h:1/0'\n", &[]).unwrap();
    assert!(!format!("{config:?}").contains("s3cret"));
    let urls = [
        "unix:///run/redis.sock?user=u&pass=s3cret",
        "redis+sentinel://u:s3cret@h:1,i:2/main",
        "redis+cluster://:s3cret@h:1,i:2",
    ];
    for url in urls {
        let text = format!("[redis]\nurl = '{url}'\nsentinel_password = 's3cret'\n");
        let config = load(&text, &[]).unwrap();
        assert!(!format!("{config:?}").contains("s3cret"), "{url}");
        assert!(config.redis.url_masked().contains(if url.starts_with('u') {
            "run"
        } else {
            "h:1,i:2"
        }));
    }
    // Errors do not show refused URLs either.
    let wrong = [
        "redis+cluster://u:s3cret@h",
        "redis+sentinel://u:s3cret@h:1",
        "redis+what://u:s3cret@h",
        "redis+cluster://u:s3cret",
        "redis+sentinel://:s3cret/x@h/main",
    ];
    for url in wrong {
        let error = load(&format!("[redis]\nurl = '{url}'\n"), &[]).unwrap_err();
        assert!(error.contains("redis.url") && !error.contains("s3cret"), "{error}");
    }
}

#[test]
fn unreadable_file_error_names_the_place_and_no_secret() {
    let wrong = [
        ("[redis]\nsentinel_pasword = 's3cret'\n", "line 2, column 1: unknown field"),
        (
            "[[destination]]\nheaders = 's3cret'\n",
            "line 2, column 11 (headers): invalid type: a string, expected",
        ),
        ("[[destination]]\nheaders = { a = 's3cret', b = 3 }\n", "line 2, column"),
        ("[redis]\nsentinel_password = 's3cret\n", "line 2, column"),
    ];
    for (text, named) in wrong {
        let error = load(text, &[]).unwrap_err();
        assert!(error.contains(named) && !error.contains("s3cret"), "{error}");
    }
}

#[test]
fn where_redis_is_follows_from_the_url_alone() {
    let parse = |url: &str| Topology::parse(url);
    let host = |name: &str, port| (name.to_owned(), port);
    let access = |user: Option<&str>, password: Option<&str>, database| Access {
        user: user.map(str::to_owned),
        password: password.map(str::to_owned),
        database,
    };
    let found = parse("redis+sentinel://u:p%40ss@a:1,[::1]:2,c:3/main/4");
    let sentinels = vec![host("a", 1), host("::1", 2), host("c", 3)];
    let expected = Topology::Sentinel {
        sentinels,
        service: "main".into(),
        access: access(Some("u"), Some("p@ss"), 4),
        is_tls: false,
    };
    assert!(found == Ok(expected));
    let found = parse("redis+cluster://:pw@a:1,b:2/");
    let nodes = vec![host("a", 1), host("b", 2)];
    assert!(
        found
            == Ok(Topology::Cluster { nodes, access: access(None, Some("pw"), 0), is_tls: false })
    );
    for url in ["redis://h:1/2", "unix:///run/redis.sock"] {
        assert!(parse(url) == Ok(Topology::Single { url: url.into() }));
    }
    for url in ["rediss://h:1/2", "rediss+sentinel://u@a:1/main/4", "rediss+cluster://a:1,b:2"] {
        let topology = parse(url).unwrap_or_else(|problem| panic!("{url}: {problem}"));
        assert!(topology.is_tls() && topology.masked() == url, "{url}: {}", topology.masked());
    }
    let Ok(Topology::Sentinel { access, .. }) = parse("redis+sentinel://:p/w@a:1/main") else {
        panic!("a password may hold a slash")
    };
    assert_eq!(access.password.as_deref(), Some("p/w"));
    let wrong = [
        ("redis+sentinel://a:1,b:2", "service"),
        ("redis+sentinel://a:1,b:2/", "service"),
        ("redis+sentinel://a:1/main/x", "database"),
        ("redis+sentinel://a/main", "port"),
        ("redis+cluster://a:1,b", "port"),
        ("redis+cluster://a:1,b:0", "host:port"),
        ("redis+cluster://a:1,b:99999", "port"),
        ("redis+cluster://a:1/3", "one database"),
        ("redis+cluster://", "port"),
        ("redis://", "redis://"),
        ("rediss://", "host"),
        ("rediss://h:1/#insecure", "#"),
        ("rediss+cluster://a:1/3", "one database"),
        ("h:1", "redis://"),
    ];
    for (url, named) in wrong {
        let problem = parse(url).err().unwrap_or_default();
        assert!(problem.contains(named), "{url}: {problem:?} does not name {named:?}");
    }
}

#[test]
fn the_example_configuration_is_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reseq.example.toml");
    let config = Config::load(Some(&path), []).unwrap();
    assert!(!config.destinations.is_empty() && !config.tcp.is_empty());
}

#[test]
fn secrets_come_from_files_and_variables_and_are_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name).display().to_string()
    };
    let (url, key) = (file("url", "redis://:hidden@127.0.0.1:7/\n"), file("key", &"A".repeat(43)));
    let (url, key) = (url.as_str(), key.as_str());
    let config = load_alone("", &[("RESEQ_REDIS_URL_FILE", url)]).unwrap();
    assert_eq!(config.redis.url, "redis://:hidden@127.0.0.1:7/");
    let text = format!(
        "[redis]\nurl = {{ env = 'MY_URL' }}\nsentinel_password.file = '{url}'\n\
         [[destination]]\nname = 'erp'\nurl = 'http://h/'\nheaders = {{ x-a = {{ env = 'MY_URL' }} }}\n\
         [destination.transform.headers]\nx-b = {{ file = '{url}' }}\n"
    );
    let config = load_alone(&text, &[("MY_URL", "redis://:hidden@h:7/")]).unwrap();
    assert_eq!(config.redis.url, config.destinations[0].headers["x-a"]);
    assert_eq!(config.redis.sentinel_password, "redis://:hidden@127.0.0.1:7/");
    assert_eq!(config.destinations[0].transform.headers["x-b"], config.redis.sentinel_password);
    assert!(!format!("{config:?}").contains("hidden"), "{config:?}");
    for (variables, problem) in [
        (
            &[("RESEQ_REDIS_URL_FILE", url), ("RESEQ_REDIS_URL", "redis://h:7/")][..],
            "leave one out",
        ),
        (
            &[("RESEQ_REDIS_URL_FILE", "/nonexistent")],
            "RESEQ_REDIS_URL_FILE is not valid: the file",
        ),
        (&[("RESEQ_SECRETS_KEY_FILE", key)], "secrets.key is not valid: key 1: is not base64"),
        (&[("RESEQ_SECRETS_REQUIRED", "maybe")], "neither true nor false"),
        (&[("RESEQ_SECRETS_REQUIRED", "true")], "secrets.required is not valid"),
        (&[("RESEQ_HTTP_LISTEN_FILE", url)], "no such field exists"),
    ] {
        let names_file = variables[0].0 == "RESEQ_REDIS_URL_FILE";
        let error = if names_file { load_alone("", variables) } else { load("", variables) };
        let error = error.unwrap_err();
        assert!(error.contains(problem) && !error.contains("hidden"), "{error}");
    }
}
