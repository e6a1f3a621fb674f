//! Tests the `jq` transform with real runners.

use crate::common;
use crate::support;

use std::time::Duration;

use common::{message, message_with_everything};
use config::Config;
use domain::{Body, Stamped, TransformKind};
use jq::{Evaluated, Evaluators, Input, Limits, Program};
use processor::transform::{Failure, Jq, Output, Transform};
use support::wait::{eventually, within};

const OUTPUT_BYTES_MAX: usize = 1000;
/// Long enough for every evaluation that ends, even on a slow machine.
const TIMEOUT_MS: u64 = 60_000;
/// For evaluations that do not end; a runner must start within this time.
const SHORT_MS: u64 = 2_000;

fn definition(expression: &str) -> domain::Transform {
    domain::Transform {
        kind: TransformKind::Jq,
        expression: Some(expression.into()),
        timeout_ms: TIMEOUT_MS,
        ..Default::default()
    }
}

fn of(definition: &domain::Transform) -> Jq {
    Jq::new(definition, OUTPUT_BYTES_MAX, Program::new(env!("CARGO_BIN_EXE_reseq")))
}

/// The result of one expression for one body.
async fn transformed(expression: &str, body: &str) -> Result<Output, Failure> {
    of(&definition(expression)).transform(&message(body)).await
}

async fn output(expression: &str, message: &Stamped) -> String {
    match of(&definition(expression)).transform(message).await {
        Ok(Output::Deliver(Body { content_type, bytes })) => {
            assert_eq!(content_type, "application/json");
            String::from_utf8(bytes.to_vec()).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn failed_for_good(result: Result<Output, Failure>) -> String {
    let failure = result.unwrap_err();
    assert!(failure.is_final && failure.retry_after.is_none(), "{failure:?}");
    failure.reason
}

#[track_caller]
fn failed_for_now(result: Result<Output, Failure>) -> String {
    let failure = result.unwrap_err();
    assert!(!failure.is_final && failure.retry_after.is_none(), "{failure:?}");
    failure.reason
}

fn expect(json: &str) -> Result<Output, Failure> {
    let bytes = json.to_owned().into();
    Ok(Output::Deliver(Body { content_type: "application/json".into(), bytes }))
}

#[tokio::test]
async fn fields_are_mapped_and_written_compactly() {
    let order = r#" { "nr": 7, "lines": [ {"sku": "a", "n": 1.50}, {"sku": "b", "n": 2} ] } "#;
    let expression = "{order: .nr, skus: [.lines[].sku], total: (.lines | map(.n) | add), \
                      big: 100000000000000000000, text: \"\\(.nr) ü\"}";
    let expected =
        r#"{"order":7,"skus":["a","b"],"total":3.5,"big":100000000000000000000,"text":"7 ü"}"#;
    assert_eq!(transformed(expression, order).await, expect(expected));
    assert_eq!(transformed(".", "null").await, expect("null"));
}

#[tokio::test]
async fn the_message_is_in_the_variables() {
    let mut message = message_with_everything();
    message.message.body.bytes = "{}".into();
    let all = "[$id, $destination, $sequence, $key, $headers]";
    let headers = r#"{"x-reseq-key":"no","x-static":"travelling","x-tenant":"7, 8"}"#;
    let expected = format!(r#"["order-7","erp",42," kontō 7%",{headers}]"#);
    assert_eq!(output(all, &message).await, expected);
    message.message.key = None;
    assert_eq!(output("$key", &message).await, "null");
}

#[tokio::test]
async fn no_output_drops() {
    assert_eq!(transformed("select(.a == 1)", r#"{"a":2}"#).await, Ok(Output::Drop));
    assert_eq!(transformed("select(.a == 1)", r#"{"a":1}"#).await, expect(r#"{"a":1}"#));
}

#[tokio::test]
async fn errors_two_outputs_and_what_is_no_json_fail_for_good() {
    let raised = failed_for_good(transformed("error(\"no such tenant\")", "{}").await);
    assert_eq!(raised, "the expression failed: no such tenant");
    let typed = failed_for_good(transformed(".a.b", r#"{"a":1}"#).await);
    assert_eq!(typed, "the expression failed: cannot index 1 with \"b\"");
    let long = failed_for_good(transformed("error(\"x\" * 5000)", "{}").await);
    assert!(long.len() < 300, "{long}");

    for two in [".[]", "1, (2, 3)", "repeat(1)"] {
        let reason = failed_for_good(transformed(two, "[1,2]").await);
        assert!(reason.contains("more than one output; collect them"), "{reason}");
    }
    let late = failed_for_good(transformed("1, error(\"late\")", "{}").await);
    assert_eq!(late, "the expression failed: late");

    for body in ["", "order 7", "{\"a\":1} {}", "NaN", "# c\n1", "\u{feff}1", "{a:1}", "01"] {
        let reason = failed_for_good(transformed(".", body).await);
        assert!(reason.starts_with("the body is not JSON: "), "{body}: {reason}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let reason = failed_for_good(transformed("1", &deep).await);
    assert_eq!(reason, "the body nests deeper than 1000");
    for output in
        ["nan", "infinite", "{(\"a\"): [nan]}", "\"a\" | tobytes", "{(1|tostring): {(1): 2}}"]
    {
        let reason = failed_for_good(transformed(output, "1").await);
        assert!(reason.starts_with("the output is not JSON") || output.contains("(1)"), "{reason}");
    }
}

#[tokio::test]
async fn a_runner_is_used_again() {
    let jq = of(&definition(".+1"));
    assert_eq!(jq.transform(&message("1")).await, expect("2"));
    let first = jq.idle();
    assert_eq!(first.len(), 1);
    failed_for_good(jq.transform(&message("{}")).await);
    assert_eq!(jq.transform(&message("2")).await, expect("3"));
    assert_eq!(jq.idle(), first);
}

#[tokio::test]
async fn many_at_once_share_a_few_runners() {
    let jq = of(&definition(". * 2"));
    let messages = (0..50).map(|n| message(&n.to_string())).collect::<Vec<_>>();
    let answers = futures::future::join_all(messages.iter().map(|m| jq.transform(m))).await;
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, expect(&(n * 2).to_string()));
    }
    let processors = std::thread::available_parallelism().unwrap().get().max(2);
    assert!((1..=processors).contains(&jq.idle().len()), "{:?}", jq.idle());
}

/// Many quiet destinations with different expressions do not each start a process.
#[tokio::test]
async fn many_expressions_share_a_few_runners() {
    let program = || Program::new(env!("CARGO_BIN_EXE_reseq"));
    // The only runner must forget some expressions.
    let evaluators = Evaluators::with_processes(OUTPUT_BYTES_MAX, program(), 1);
    assert_eq!(evaluate_many(&evaluators).await, 1);
    // A second runner keeps the expressions that do not fit into the first.
    let evaluators = Evaluators::new(OUTPUT_BYTES_MAX, program());
    assert_eq!(evaluate_many(&evaluators).await, 2);
}

/// Evaluates more expressions than one runner keeps compiled, each twice. Returns the number of runners.
async fn evaluate_many(evaluators: &Evaluators) -> usize {
    const EXPRESSIONS: usize = 300;
    let timeout = Duration::from_millis(TIMEOUT_MS);
    let limits = Limits { whole: timeout, step: timeout };
    let input = Input {
        body: "1".into(),
        id: None,
        destination: "erp".into(),
        sequence: None,
        key: None,
        headers: Vec::new(),
    };
    for number in (0..EXPRESSIONS).chain(0..EXPRESSIONS) {
        let evaluated = evaluators.of(&format!(". + {number}")).evaluate(&input, limits).await;
        let expected = (number + 1).to_string().into();
        assert_eq!(evaluated, Ok(Evaluated::One(expected)));
    }
    evaluators.idle().len()
}

/// Waits until no process with this id runs.
async fn ended(id: u32) {
    let path = format!("/proc/{id}/stat");
    eventually("the runner has ended", async || match std::fs::read_to_string(&path) {
        Ok(stat) if !stat.contains(") Z ") => Err(stat),
        _ => Ok(()),
    })
    .await;
}

#[tokio::test]
async fn what_never_ends_is_killed_and_the_next_message_works() {
    let mut definition = definition("if . == 1 then (def f: f; f) else . end");
    definition.timeout_ms = SHORT_MS;
    let jq = of(&definition);
    assert_eq!(jq.transform(&message("0")).await, expect("0"));
    let runner = jq.idle()[0];
    let reason = failed_for_now(jq.transform(&message("1")).await);
    assert!(reason.starts_with("timed out after 2000 ms: the expression was still"), "{reason}");
    ended(runner).await;
    assert!(jq.idle().is_empty());
    assert_eq!(jq.transform(&message("2")).await, expect("2"));
}

#[tokio::test]
async fn a_dropped_attempt_kills_its_runner() {
    let jq = of(&definition("if . == 1 then (def f: f; f) else . end"));
    assert_eq!(jq.transform(&message("0")).await, expect("0"));
    let runner = jq.idle()[0];
    let endless = message("1");
    let attempt = jq.transform(&endless);
    let taken = eventually("the runner is at work", async || match jq.idle().is_empty() {
        true => Ok(()),
        false => Err("it is idle".into()),
    });
    tokio::select! {
        result = attempt => panic!("{result:?}"),
        () = taken => {}
    }
    ended(runner).await;
    assert_eq!(jq.transform(&message("2")).await, expect("2"));
}

#[tokio::test]
async fn memory_and_stack_are_bounded() {
    for hungry in ["[limit(1000000000000; repeat(1))]", "\"x\" * 2000000000", "def f: 1 + f; f"] {
        let jq = of(&definition(&format!("if . == 1 then {hungry} else . end")));
        let reason = failed_for_now(jq.transform(&message("1")).await);
        assert!(reason.contains("memory (512 MiB) or its stack"), "{hungry}: {reason}");
        assert_eq!(jq.transform(&message("2")).await, expect("2"));
    }
}

#[tokio::test]
async fn a_huge_output_fails_for_good() {
    let fits = format!("\"{}\"", "x".repeat(OUTPUT_BYTES_MAX - 2));
    assert_eq!(transformed("\"x\" * 998", "1").await, expect(&fits));
    for over in ["\"x\" * 999", "[range(100000)]"] {
        let reason = failed_for_good(transformed(over, "1").await);
        assert_eq!(reason, "the output is longer than 1000 bytes");
    }
}

#[tokio::test]
async fn a_runner_sees_nothing_of_this_process() {
    let jq = of(&definition("."));
    jq.transform(&message("1")).await.unwrap();
    let environment = std::fs::read(format!("/proc/{}/environ", jq.idle()[0])).unwrap();
    assert_eq!(String::from_utf8_lossy(&environment), "RESEQ_JQ_CHILD=1\0");
    for name in ["env", "$ENV.PATH", "now", "halt", "input"] {
        let reason = failed_for_good(transformed(name, "1").await);
        assert!(reason.starts_with("the expression is wrong: "), "{reason}");
    }
}

#[tokio::test]
async fn an_idle_runner_that_was_killed_costs_no_attempt() {
    let jq = of(&definition("."));
    jq.transform(&message("1")).await.unwrap();
    let runner = jq.idle()[0];
    let id = rustix::process::Pid::from_raw(runner as i32).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    assert_eq!(jq.transform(&message("2")).await, expect("2"));
}

#[tokio::test]
async fn a_program_that_is_no_runner_is_named() {
    let mut definition = definition(".");
    for (program, part) in [
        ("/nonexistent/reseq", "could not be started"),
        ("/bin/true", "does not answer as a jq runner does"),
        ("/bin/echo", "does not answer as a jq runner does"),
    ] {
        let jq = Jq::new(&definition, OUTPUT_BYTES_MAX, Program::new(program));
        let reason = failed_for_now(jq.transform(&message("1")).await);
        let words = [program, part, "RESEQ_JQ_RUNNER must name a reseq"];
        assert!(words.iter().all(|word| reason.contains(word)), "{reason}");
    }
    definition.timeout_ms = 50;
    let silent = std::env::temp_dir().join(format!("reseq-silent-{}", std::process::id()));
    std::fs::write(&silent, "#!/bin/sh\nexec /bin/cat\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&silent, mode).unwrap();
    let jq = Jq::new(&definition, OUTPUT_BYTES_MAX, Program::new(&silent));
    let reason = failed_for_now(jq.transform(&message("1")).await);
    std::fs::remove_file(&silent).unwrap();
    assert!(reason.starts_with("timed out after 50 ms") && reason.contains("RESEQ_JQ_RUNNER"));
}

/// The death of a processor closes its runners' input.
#[tokio::test]
async fn a_runner_ends_with_its_input_even_amid_an_evaluation() {
    use std::{io::Write, process::Stdio};
    let mut runner = tokio::process::Command::new(env!("CARGO_BIN_EXE_reseq"))
        .arg("jq-runner")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut frames = Vec::new();
    let message = serde_json::json!({"body": "1", "id": "", "destination": "d", "sequence": 1,
        "key": null, "headers": []});
    for value in
        [serde_json::json!({"output_bytes_max": 10}), serde_json::json!(["def f: f; f", message])]
    {
        let bytes = rmp_serde::to_vec_named(&value).unwrap();
        frames.write_all(&(bytes.len() as u32).to_be_bytes()).unwrap();
        frames.write_all(&bytes).unwrap();
    }
    let mut input = runner.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut input, &frames).await.unwrap();
    drop(input);
    let status = within("the runner ends", runner.wait()).await.unwrap();
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn a_wrong_expression_is_refused_where_it_is_defined() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "[redis]\nurl = \"embedded\"\n[[destination]]\nname = \"erp\"\nurl = \"http://127.0.0.1:9/\"\n\
                [destination.transform]\nkind = \"jq\"\nexpression = ";
    let load = |expression: &str| {
        std::fs::write(file.path(), format!("{text}'{expression}'\n")).unwrap();
        Config::load(Some(file.path()), []).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(load("{a: .b, at: $sequence}"), Ok(()));
    for (expression, part) in
        [("{a: ", "expected"), ("nosuch", "no filter nosuch"), ("$foo", "no variable $foo")]
    {
        let error = load(expression).unwrap_err();
        let words = ["erp", "transform.expression", part];
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    let too_slow = Duration::from_secs(20);
    let begun = std::time::Instant::now();
    load(&"(".repeat(60_000)).unwrap_err();
    assert!(begun.elapsed() < too_slow);
}

/// A program that uses Reseq as a library is started as a runner. It must not start a second service.
#[tokio::test]
async fn a_service_started_as_a_runner_does_not_start() {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_reseq"));
    command.arg("serve").env("RESEQ_JQ_CHILD", "1").env("RESEQ_REDIS_URL", "embedded");
    command.kill_on_drop(true);
    let output = within("it ends", command.output()).await.unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("RESEQ_JQ_RUNNER must name one"), "{error}");
}
