#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| reseq::fuzzing::addresses(input));
