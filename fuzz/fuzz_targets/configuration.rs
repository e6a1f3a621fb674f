#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| reseq_testing::fuzzing::configuration(input));
