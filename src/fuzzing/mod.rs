//! Fuzz targets for the parsers of input: one function for each target of `fuzz/`. Each also checks
//! the result of its parser. A unit test runs the inputs in `fuzz/corpus`, one per line in base64.

mod addresses;
mod definitions;
mod frames;
mod signatures;
mod tokens;

pub use addresses::addresses;
pub use api::fuzzing::cursors;
pub use definitions::{configuration, definitions};
pub use frames::frames;
pub use ingest::fuzzing::{headers, messages};
pub use signatures::{signatures, verification};
pub use tokens::tokens;

/// Checks one input.
pub type Target = fn(&[u8]);

/// Every target, by its name.
pub const TARGETS: [(&str, Target); 10] = [
    ("addresses", addresses),
    ("configuration", configuration),
    ("cursors", cursors),
    ("definitions", definitions),
    ("frames", frames),
    ("headers", headers),
    ("messages", messages),
    ("signatures", signatures),
    ("tokens", tokens),
    ("verification", verification),
];

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use base64::{Engine, prelude::BASE64_STANDARD};

    use super::*;

    fn names(folder: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
        let name =
            |path: std::path::PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
        entries.map(|entry| name(entry.unwrap().path())).collect()
    }

    #[test]
    fn every_input_that_fuzzing_found_is_read() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
        let targets: BTreeSet<String> =
            TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
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
}
