//! The shortest tests of the packages: systemd accepts the units, and the chart can be rendered. `make test-dist`
//! installs the packages themselves.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::support::source::{program, root};

/// The output of a program; `None` if this machine does not have it.
fn run(command: &mut Command) -> Option<Output> {
    match command.stdin(Stdio::null()).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!(
                "not tested, because this machine has no {}",
                command.get_program().to_string_lossy()
            );
            None
        }
        Err(error) => panic!("{}: {error}", command.get_program().to_string_lossy()),
    }
}

fn printed(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The unit of reseq-connect.
const CONNECT: &str = "reseq-connect@.service";
const UNITS: [&str; 3] = ["reseq.service", "reseq@.service", CONNECT];

/// Writes the units of the deb into a folder, with the program under test instead of the installed one.
fn write_units(folder: &Path) {
    let source = root().join("packaging/deb");
    for unit in UNITS {
        let text = fs::read_to_string(source.join(unit)).unwrap();
        let program = program();
        // One program stands for both.
        let text = text.replace("/usr/bin/reseq-connect", "/usr/bin/reseq");
        fs::write(folder.join(unit), text.replace("/usr/bin/reseq", program.to_str().unwrap()))
            .unwrap();
        let settings = folder.join(format!("{unit}.d"));
        fs::create_dir(&settings).unwrap();
        for file in ["common.conf", "hardening.conf"] {
            if file == "hardening.conf" || unit != CONNECT {
                fs::copy(source.join(file), settings.join(file)).unwrap();
            }
        }
    }
}

#[test]
fn units_are_valid_and_confined() {
    let folder = tempfile::tempdir().unwrap();
    write_units(folder.path());
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        // The units of the system follow those of the folder.
        command.env("SYSTEMD_UNIT_PATH", format!("{}:", folder.path().display()));
        run(command.args(arguments))
    };
    let units = ["reseq.service", "reseq@ingest.service", "reseq-connect@orders.service"];
    let Some(verified) = analyze(&[&["verify", "--man=no"], &units[..]].concat()) else { return };
    assert!(verified.status.success() && verified.stderr.is_empty(), "{}", printed(&verified));
    for unit in UNITS {
        let file = folder.path().join(unit);
        let exposure =
            ["security", "--no-pager", "--offline=true", "--threshold=12", file.to_str().unwrap()];
        let exposure = analyze(&exposure).unwrap();
        assert!(exposure.status.success(), "{}", printed(&exposure));
    }
}

#[test]
fn chart_renders_with_each_example() {
    if run(Command::new("go").arg("version")).is_none() {
        return;
    }
    let packages = tempfile::tempdir().unwrap();
    let mut test = Command::new(root().join("packaging/chart/test.sh"));
    let output = test.arg("--quick").env("DIST", packages.path()).output().unwrap();
    let printed = printed(&output);
    assert!(output.status.success(), "{printed}");
    for example in fs::read_dir(root().join("packaging/chart/examples")).unwrap() {
        let name = example.unwrap().file_name().into_string().unwrap();
        assert!(
            printed.contains(&format!("helm template {name}")),
            "{name} was not rendered: {printed}"
        );
    }
}
