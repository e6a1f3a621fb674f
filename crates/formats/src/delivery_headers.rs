//! The names of the headers that Reseq adds to a delivery.

/// The signature of the other headers and the body (`signatures/sign.rs`).
pub const RESEQ_SIGNATURE: &str = "reseq-signature";

/// All Reseq-* headers of a delivery, or of a request to a transform. `reseq-signature` covers
/// all the others, in this order.
pub const DELIVERY_HEADERS: [&str; 11] = [
    "reseq-attempt",
    "reseq-batch",
    "reseq-destination",
    "reseq-epoch",
    "reseq-id",
    "reseq-key",
    "reseq-last-sequence",
    "reseq-origin",
    "reseq-previous",
    "reseq-sequence",
    RESEQ_SIGNATURE,
];
