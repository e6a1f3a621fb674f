//! The inputs that fuzzing found, one per line in base64.

use std::{collections::BTreeSet, fs, path::Path};

use base64::{Engine, prelude::BASE64_STANDARD};

use reseq_testing::fuzzing::TARGETS;

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let name = |path: std::path::PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    entries.map(|entry| name(entry.unwrap().path())).collect()
}

#[test]
fn every_input_that_fuzzing_found_is_read() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&fuzz.join("fuzz_targets")), targets);
    assert_eq!(names(&fuzz.join("corpus")), targets);
    for (name, target) in TARGETS {
        let path = fuzz.join("corpus").join(format!("{name}.base64"));
        let inputs = fs::read_to_string(&path).unwrap();
        assert!(inputs.lines().count() > 4, "{name}: only {} inputs", inputs.lines().count());
        for (number, input) in inputs.lines().enumerate() {
            // Shows the input that caused a panic.
            println!("{}:{}", path.display(), number + 1);
            target(&BASE64_STANDARD.decode(input).unwrap());
        }
    }
}
