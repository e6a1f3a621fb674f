//! The OpenAPI document is a file of the program. This writes it from the code, or checks that it is current.

use std::fs;

use reseq_testing::support::source::root;

const FILE: &str = "web/api-docs/openapi.json";

#[test]
fn openapi_document_says_what_the_code_says() {
    let text = api::document(ingest::http::routes) + "\n";
    if std::env::var("RESEQ_WRITE_DOCS").is_ok_and(|value| value == "1") {
        fs::write(root().join(FILE), text).unwrap();
        return;
    }
    let is_current = fs::read_to_string(root().join(FILE)).unwrap() == text;
    assert!(is_current, "{FILE} is not what the code says: run this test with RESEQ_WRITE_DOCS=1");
}
