//! Tests `reseq context`, and the use of contexts in other commands.

use std::{fs, os::unix::fs::PermissionsExt, process::Stdio};

use serde_json::{Value, json};
use tokio::process::Command;

use super::terminal::Terminal;
use crate::support::{
    pods::{Pod, Settings},
    redis::TestRedis,
    wait::within,
};

const TOKEN: &str = "an-admin-token-of-the-context";

/// A user with a separate home directory.
struct User {
    home: tempfile::TempDir,
}

impl User {
    /// Runs a command; returns its exit code, its output and its errors.
    async fn run(&self, args: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reseq"));
        for name in ["RESEQ_URL", "RESEQ_TOKEN", "RESEQ_CONTEXT", "RESEQ_HEADER"] {
            command.env_remove(name);
        }
        command.env("XDG_CONFIG_HOME", self.home.path()).envs(variables.iter().copied());
        command.args(args).stdin(Stdio::null()).kill_on_drop(true);
        let ran = within("a command ends", command.output()).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        (ran.status.code().unwrap(), text(&ran.stdout), text(&ran.stderr))
    }

    async fn ok(&self, args: &[&str]) -> String {
        let (code, out, error) = self.run(args, &[]).await;
        assert_eq!(code, 0, "{args:?}: {out} {error}");
        out
    }
}

#[tokio::test]
async fn context_brings_url_and_token_which_goes_nowhere_else() {
    let redis = TestRedis::start().await;
    let mut settings = Settings::new(redis.url());
    settings.environment = vec![("RESEQ_AUTH_ADMIN_TOKEN".into(), TOKEN.into())];
    let pod = Pod::start("guarded", "ingest", &settings).await;
    let user = User { home: tempfile::tempdir().unwrap() };
    let token = user.home.path().join("token");
    fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let (url, token) = (pod.url(""), token.to_str().unwrap().to_owned());

    assert_eq!(user.ok(&["context", "list"]).await, "none");
    let (code, _, error) = user.run(&["context", "add", "prod", "--url", &url], &[]).await;
    assert!(code == 2 && error.contains("--token-file"), "{error}");
    let add = ["context", "add", "prod", "--url", &url, "--token-file", &token];
    assert_eq!(user.ok(&add).await, "prod is added, and is the current context");
    let (code, _, error) = user.run(&add, &[]).await;
    assert!(code == 2 && error.contains("--replace"), "{error}");
    let nobody = ["context", "add", "nobody", "--url", "http://127.0.0.1:9", "--no-token"];
    assert_eq!(user.ok(&nobody).await, "nobody is added; to use it: reseq context use nobody");
    let file = user.home.path().join("reseq/contexts.toml");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    // Commands use the current context, or another one by name or by variable.
    assert!(user.ok(&["pods"]).await.contains("ingest"));
    for (args, variables) in [
        (&["pods", "--context", "nobody"][..], &[][..]),
        (&["pods"], &[("RESEQ_CONTEXT", "nobody")]),
    ] {
        assert_eq!(user.run(args, variables).await.0, 4, "{args:?}");
    }
    user.ok(&["context", "use", "nobody"]).await;
    let by_name = [("RESEQ_URL", "http://127.0.0.1:9")];
    assert_eq!(user.run(&["pods", "--context", "prod"], &by_name).await.0, 0);
    // With an explicit URL, the token of the context is not used.
    user.ok(&["context", "use", "prod"]).await;
    for (args, variables) in [
        (&["pods", "--url", &url][..], &[][..]),
        (&["pods"], &[("RESEQ_URL", url.as_str())]),
        // A context without a token does not use the token of the environment.
    ] {
        let (code, _, error) = user.run(args, variables).await;
        assert!(code == 3 && error.contains("unauthorized"), "{args:?}: {error}");
    }
    let bare = ["context", "add", "bare", "--url", &url, "--no-token"];
    user.ok(&bare).await;
    let variables = [("RESEQ_TOKEN", TOKEN)];
    let (code, _, error) = user.run(&["pods", "--context", "bare"], &variables).await;
    assert!(code == 3 && error.contains("unauthorized"), "{error}");
    assert_eq!(user.run(&["pods", "--context", "bare", "--token-file", &token], &[]).await.0, 0);

    // No output shows a token.
    let list = user.ok(&["context", "list"]).await;
    let shown = user.ok(&["context", "show"]).await;
    let object: Value =
        serde_json::from_str(&user.ok(&["context", "show", "prod", "-o", "json"]).await).unwrap();
    assert_eq!((&object["current"], &object["token"]), (&json!(true), &json!(true)));
    for text in [&list, &shown, &object.to_string()] {
        assert!(text.contains(&url) && !text.contains(TOKEN), "{text}");
    }
    let (code, _, error) = user.run(&["pods", "--context", "other"], &[]).await;
    assert!(code == 2 && error.contains("only bare, nobody, prod"), "{error}");
    assert_eq!(user.run(&["pods", "--context", "prod", "--url", &url], &[]).await.0, 2);
    // On a terminal, the command asks for the token, and does not show it.
    let home = user.home.path().to_str().unwrap();
    let typed = ["context", "add", "typed", "--url", &url];
    let mut terminal = Terminal::start(&typed, &[("XDG_CONFIG_HOME", home)]);
    terminal.shows("Token of typed (empty: none): ").await;
    terminal.echoes_nothing().await;
    terminal.types(&format!("{TOKEN}\r"));
    assert_eq!(terminal.ended().await, 0);
    assert!(!terminal.raw().contains(TOKEN), "{}", terminal.raw());
    assert_eq!(user.run(&["pods", "--context", "typed"], &[]).await.0, 0);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, _, error) = user.run(&["pods"], &[]).await;
    assert!(code == 1 && error.contains("chmod 600") && !error.contains(TOKEN), "{error}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    for name in ["prod", "typed"] {
        assert_eq!(user.ok(&["context", "delete", name]).await, format!("{name} is deleted"));
    }
    assert!(!fs::read_to_string(&file).unwrap().contains(TOKEN));
}
