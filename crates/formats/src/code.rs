//! The codes of errors, in one table. The API, the answers over TCP, the metrics and
//! `docs/reference/errors.md` use this table.
//!
//! Clients rely on a code and on its status: never change either. To add a code, add it here,
//! then regenerate the table of the reference (CONTRIBUTING.md says how).

use std::fmt;

use http::StatusCode;

/// The status that a client gets with a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// This HTTP status. A client over TCP gets the code instead.
    Status(StatusCode),
    /// The 4xx that the HTTP library chose, or 400.
    AnyClientError,
    /// The code exists only over TCP, and has no HTTP status.
    OnlyTcp,
}

/// One row of the table.
struct Entry {
    text: &'static str,
    answer: Answer,
    title: &'static str,
    meaning: &'static str,
    remedy: &'static str,
}

/// An error that clients may receive.
pub trait Coded {
    /// The stable code, and a sentence for people that says what happened and what to do.
    fn coded(&self) -> (Code, String);
}

macro_rules! codes {
    ($($code:ident $text:literal $answer:ident, $title:literal: $meaning:literal, $remedy:literal;)*) => {
        /// A stable code of an error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $code,)*
        }

        impl Code {
            /// All codes, in the order of the reference.
            pub const ALL: &[Code] = &[$(Code::$code),*];

            const fn entry(self) -> Entry {
                match self {
                    $(Code::$code => Entry {
                        text: $text,
                        answer: $answer,
                        title: $title,
                        meaning: $meaning,
                        remedy: $remedy,
                    },)*
                }
            }
        }
    };
}

const BAD_REQUEST: Answer = Answer::Status(StatusCode::BAD_REQUEST);
const UNAUTHORIZED: Answer = Answer::Status(StatusCode::UNAUTHORIZED);
const FORBIDDEN: Answer = Answer::Status(StatusCode::FORBIDDEN);
const NOT_FOUND: Answer = Answer::Status(StatusCode::NOT_FOUND);
const METHOD_NOT_ALLOWED: Answer = Answer::Status(StatusCode::METHOD_NOT_ALLOWED);
const REQUEST_TIMEOUT: Answer = Answer::Status(StatusCode::REQUEST_TIMEOUT);
const CONFLICT: Answer = Answer::Status(StatusCode::CONFLICT);
const PRECONDITION_FAILED: Answer = Answer::Status(StatusCode::PRECONDITION_FAILED);
const TOO_LARGE: Answer = Answer::Status(StatusCode::PAYLOAD_TOO_LARGE);
const URI_TOO_LONG: Answer = Answer::Status(StatusCode::URI_TOO_LONG);
const UNSUPPORTED: Answer = Answer::Status(StatusCode::UNSUPPORTED_MEDIA_TYPE);
const UNPROCESSABLE: Answer = Answer::Status(StatusCode::UNPROCESSABLE_ENTITY);
const TOO_MANY: Answer = Answer::Status(StatusCode::TOO_MANY_REQUESTS);
const INTERNAL: Answer = Answer::Status(StatusCode::INTERNAL_SERVER_ERROR);
const UNAVAILABLE: Answer = Answer::Status(StatusCode::SERVICE_UNAVAILABLE);
const CLIENT_ERROR: Answer = Answer::AnyClientError;
const ONLY_TCP: Answer = Answer::OnlyTcp;

codes! {
    InvalidJson "invalid_json" BAD_REQUEST, "Invalid JSON":
        "The body is not JSON. A batch is empty, has more than 10,000 lines, or its lines name more than 100,000 \
         destinations in all.",
        "Fix the JSON, or split the batch.";
    InvalidField "invalid_field" BAD_REQUEST, "Invalid field":
        "A field, header or query parameter is missing, unknown or out of range. `detail` names it.",
        "Fix the field.";
    InvalidBody "invalid_body" BAD_REQUEST, "Incomplete body":
        "The connection broke before the body was complete.",
        "Send it again.";
    InvalidRequest "invalid_request" CLIENT_ERROR, "Invalid request":
        "Reseq could not read the request, for example because the path is not UTF-8.",
        "Fix what `detail` names.";
    Unauthorized "unauthorized" UNAUTHORIZED, "No valid token":
        "The request has no token, or it is unknown, revoked or expired.",
        "Send `Authorization: Bearer <token>` with a valid token.";
    Forbidden "forbidden" FORBIDDEN, "Not allowed":
        "The token does not have the scope that the call needs, or does not list the destination.",
        "Use another token, or create one that allows this call.";
    ForbiddenOrigin "forbidden_origin" FORBIDDEN, "Not from this machine or page":
        "No token exists, so the process answers only programs of its own machine, and `Host` or `Origin` names \
         another, or a header says that the request comes through a proxy or from a page of another site. Or the request has the cookie of the console, but does not come from a page of this process.",
        "Create a token, or set `auth.mode = \"none\"` if something else controls who can reach Reseq. A proxy in \
         front of the console must not change `Host`.";
    NoSignature "no_signature" UNAUTHORIZED, "No signature":
        "The destination verifies signatures (`verify`), and the message has no signature, or came in a way that \
         has none: as JSON, in a batch, by a topic, by a replay, or over TCP.",
        "Sign the request, or send a token with the scope `ingest`.";
    InvalidSignature "invalid_signature" UNAUTHORIZED, "Signature not valid":
        "The signature of this body matches no secret of the destination, or a header of the signature cannot be \
         read. `detail` says which. Nothing was stored.",
        "Compare the secrets, and send exactly the bytes that were signed.";
    TimestampOutsideTolerance "timestamp_outside_tolerance" UNAUTHORIZED, "Signed too long ago":
        "The time in the signature is further from the time of Reseq than `verify.tolerance_ms` of the \
         destination allows: it may be a recorded request that is sent again. Nothing was stored.",
        "Sign and send it again. If it happens often, synchronise the clocks.";
    TooManyTokens "too_many_tokens" CONFLICT, "Too many tokens":
        "The deployment has 10,000 tokens.",
        "Revoke tokens that are not used.";
    UnknownToken "unknown_token" NOT_FOUND, "Unknown token":
        "There is no token with this id (any more).",
        "List the tokens.";
    UnknownDestination "unknown_destination" NOT_FOUND, "Unknown destination":
        "The destination does not exist.",
        "Create it, or fix its name.";
    UnknownTopic "unknown_topic" NOT_FOUND, "Unknown topic":
        "The topic does not exist.",
        "Create it, or fix its name.";
    UnknownMessage "unknown_message" NOT_FOUND, "Unknown message":
        "The sequence was never stamped, the message has left and the log no longer has it, or it is not a \
         dead letter. `detail` says which.",
        "Nothing to retry.";
    UnknownOperation "unknown_operation" NOT_FOUND, "Unknown operation":
        "There is no bulk operation with this id (any more).",
        "List the operations of the destination.";
    NotFound "not_found" NOT_FOUND, "Unknown path":
        "This process does not serve this path. The routes that send messages exist only in processes with \
         the role ingest.",
        "Fix the path, or send to an ingest process.";
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED, "Method not allowed":
        "The path exists, the method does not.",
        "Fix the method.";
    RequestTimeout "request_timeout" REQUEST_TIMEOUT, "Request too slow":
        "The head of the request was not complete within `http.header_timeout_ms`. Nothing was stored.",
        "Send it again.";
    BodyTimeout "body_timeout" REQUEST_TIMEOUT, "Body too slow":
        "The body came more slowly than `http.body_bytes_per_second_min`. Nothing was stored.",
        "Send it again, faster.";
    FrameTimeout "frame_timeout" ONLY_TCP, "Frame too slow":
        "The frame came more slowly than `http.body_bytes_per_second_min`. It was not stored.",
        "Connect again and send it again.";
    InvalidFrame "invalid_frame" ONLY_TCP, "Incomplete frame":
        "The connection ended within a frame; a last line without its `\\n` is not a message.",
        "Connect again and send the whole frame.";
    IdempotencyConflict "idempotency_conflict" UNPROCESSABLE, "Idempotency key used before":
        "The idempotency key was used before for another body.",
        "Use a new key for a new message. If the source sends the same event again with another body, define the \
         destination with `idempotency_compare = \"key\"`.";
    SourceGap "source_gap" CONFLICT, "Not the next message of its source":
        "The message names the position of the one before it in its source (`after`), and the destination has \
         another one as the last: `mark` in the answer, or none. Either messages before it are missing, or Redis has \
         forgotten some.",
        "Send the messages of this source again, from the first one after `mark`. If there is no mark, begin without \
         `after`.";
    SourcesFull "sources_full" CONFLICT, "Too many sources":
        "The destination has the marks of `sources_max` sources.",
        "Remove the marks of sources that have ended, or raise `sources_max`.";
    NoKey "no_key" UNPROCESSABLE, "No key in the message":
        "The destination takes its ordering key or idempotency key from the message (`key_from`, \
         `idempotency_key_from`), and the message does not have it, or it is not one text of allowed length. \
         Nothing was stored for this destination.",
        "Read `detail`. Send the key, or change where the destination takes it from.";
    RefusedAddress "refused_address" UNPROCESSABLE, "Address not allowed":
        "The `url` of a destination or of its transform leads to an address that is not public and not in \
         `outgoing.allow`, or to Reseq itself or its Redis. `detail` names the address.",
        "Fix the URL, or add the network to `outgoing.allow` in the configuration file.";
    DefinedInFile "defined_in_file" CONFLICT, "Defined in the configuration file":
        "The destination or topic belongs to the configuration file of this process.",
        "Change the file.";
    WrongState "wrong_state" CONFLICT, "Not possible in this state":
        "The state of the destination, lane or message does not allow the call. `detail` says why.",
        "Read `detail`.";
    WrongVersion "wrong_version" PRECONDITION_FAILED, "Changed meanwhile":
        "`If-Match` names another version of the definition than the current one, or `If-None-Match: *` met a \
         definition. Nothing was changed.",
        "Read the definition again, and repeat the change on it.";
    BodyTooLarge "body_too_large" TOO_LARGE, "Body too large":
        "The body is longer than `http.body_bytes_max`, or the request is longer than `http.batch_bytes_max`.",
        "Send less, or raise the limit.";
    UriTooLong "uri_too_long" URI_TOO_LONG, "URI too long":
        "The path and query of the request are longer than 8,192 bytes.",
        "Shorten them.";
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED, "Unsupported media type":
        "`POST /v1/messages` takes `application/json` and `application/x-ndjson`, without `Content-Encoding`. Or an \
         expression of the destination reads the body, and Reseq cannot decode the message's `Content-Encoding`.",
        "Set `Content-Type`, or use the raw route. Send the body as it is, or as `gzip`, `deflate` or `br`.";
    BacklogFull "backlog_full" TOO_MANY, "Backlog full":
        "The destination has reached `backlog_max`, `backlog_bytes_max` or `idempotency_keys_max`. Nothing was stored.",
        "Send again after `Retry-After`.";
    RateLimited "rate_limited" TOO_MANY, "Too many messages in a second":
        "The token has sent as many messages as its `rate_per_second_max` allows, or the destination got as many as \
         its `ingest_rate_per_second_max`. Nothing was stored.",
        "Send again after `Retry-After`.";
    TooManyRequests "too_many_requests" TOO_MANY, "Too many requests at once":
        "The token has as many requests in progress and TCP connections as `auth.requests_per_token_max` allows, or \
         it holds a quarter of the connections with calls that wait for messages, of the views of the console, or of \
         the streams of deliveries. Nothing was stored or changed.",
        "Send again when others have ended.";
    Unreadable "unreadable" INTERNAL, "Unreadable data":
        "Redis holds data that this version cannot read.",
        "Look at the log of the process.";
    Damaged "damaged" INTERNAL, "Damaged data":
        "Data of the destination is damaged. If a key has the wrong Redis type, `detail` names it; the destination \
         halts, and nothing has changed. Otherwise part of the call may have been carried out, but no message that \
         was refused with this code was stored. Other destinations continue.",
        "See `/readyz` and the log; then run `reseq repair`.";
    Paused "paused" TOO_MANY, "Ingest paused":
        "Ingest of the destination is paused. Nothing was stored.",
        "Send again after somebody resumes it.";
    MemoryHigh "memory_high" UNAVAILABLE, "Redis memory high":
        "Redis uses `ingest.memory_high_percent` of its `maxmemory`, or has no memory left. Nothing was stored.",
        "Send again after `Retry-After`.";
    RedisUnavailable "redis_unavailable" UNAVAILABLE, "Redis unavailable":
        "Redis does not answer. Nothing was stored or changed, except what the answer of a bulk operation counts.",
        "Send again after `Retry-After`.";
    RedisRefusesWrites "redis_refuses_writes" UNAVAILABLE, "Redis refuses writes":
        "Redis answers, but refuses all writes; `detail` has its own sentence (`NOREPLICAS`, `MISCONF`, `BUSY`, \
         `READONLY`). Nothing was stored or changed, except what the answer of a bulk operation counts.",
        "Fix what the sentence names, then send again.";
    NoRights "no_rights" UNAVAILABLE, "Missing Redis right":
        "The Redis user lacks a right, which `detail` names. Nothing was stored or changed.",
        "Grant the right, then send again.";
    NoSecretsKey "no_secrets_key" UNAVAILABLE, "Key of secrets missing":
        "The secrets of the destination are encrypted with a key that this process does not have (`secrets.key`). \
         Nothing was stored or changed.",
        "Give the process the key, then send again.";
    NewerSchema "newer_schema" UNAVAILABLE, "Newer schema":
        "Redis holds a schema that is newer than this process. Nothing was stored or changed.",
        "Send to another process; upgrade this one.";
    NotConfirmed "not_confirmed" UNAVAILABLE, "Not confirmed":
        "Redis did not confirm in time. The call may have been carried out, or the message is stored but has \
         not yet reached its durability.",
        "Send a message again only with its idempotency key.";
    CannotConfirm "cannot_confirm" UNAVAILABLE, "Durability not available":
        "Redis can no longer provide the `durability` of the destination. Nothing was stored.",
        "Change what `detail` names.";
    Aborted "aborted" UNAVAILABLE, "Earlier message failed":
        "An earlier message of the same batch or connection was not stored, and this one must not overtake \
         it. Nothing was stored.",
        "Send the earlier message and this one again, in order.";
    KeyUnavailable "key_unavailable" UNAVAILABLE, "Key not found in time":
        "The expression of `key_from` or `idempotency_key_from` did not end within 1 s, or its process died. \
         Nothing was stored.",
        "Send again after `Retry-After`. If it fails each time, change the expression.";
    NoRoom "no_room" UNAVAILABLE, "Too many bytes in flight":
        "The process holds as many bytes of bodies as `ingest.bytes_in_flight_max` allows. Nothing was stored.",
        "Send again later, or to another process.";
    ConnectionsFull "connections_full" UNAVAILABLE, "Too many connections":
        "Each of `http.connections_max` connections has a request in progress, and a token where one is needed. \
         Nothing was stored.",
        "Send again later, or to another process.";
    Draining "draining" UNAVAILABLE, "Process stopping":
        "The process is stopping. If the call was a bulk operation, it stopped halfway, and the answer counts \
         what it did.",
        "Send again, to another process.";
}

impl Code {
    /// The text of the code that clients receive.
    pub const fn as_str(self) -> &'static str {
        self.entry().text
    }

    /// The path of the page that explains the code; the `type` of its problems.
    pub fn page(self) -> String {
        format!("/problems/{}", self.as_str())
    }

    /// The HTTP status. A code that exists only over TCP has the status of a bad request.
    pub const fn status(self) -> StatusCode {
        match self.entry().answer {
            Answer::Status(status) => status,
            Answer::AnyClientError | Answer::OnlyTcp => StatusCode::BAD_REQUEST,
        }
    }

    /// The HTTP status as the reference shows it.
    pub fn shown_status(self) -> String {
        match self.entry().answer {
            Answer::Status(status) => status.as_str().to_owned(),
            Answer::AnyClientError => "4xx".to_owned(),
            Answer::OnlyTcp => "TCP only".to_owned(),
        }
    }

    /// True if the same request may succeed later.
    pub fn is_temporary(self) -> bool {
        matches!(self.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
    }

    /// A short name of the error, for people.
    pub const fn title(self) -> &'static str {
        self.entry().title
    }

    /// Explains what happened, for people. Terms of the product are between backticks.
    pub const fn meaning(self) -> &'static str {
        self.entry().meaning
    }

    /// Says what the client can do, for people.
    pub const fn remedy(self) -> &'static str {
        self.entry().remedy
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_code_has_a_text_of_its_own_and_whole_sentences() {
        let mut texts = HashSet::new();
        for code in Code::ALL {
            let text = code.as_str();
            assert!(texts.insert(text), "{text} is there twice");
            assert!(text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{text}");
            assert!(!code.title().is_empty() && !code.title().ends_with('.'), "{text}");
            for sentences in [code.meaning(), code.remedy()] {
                assert!(
                    sentences.ends_with('.') && !sentences.contains('\n'),
                    "{text}: {sentences}"
                );
            }
            let status = code.status();
            assert!(status.is_client_error() || status.is_server_error(), "{text}: {status}");
        }
    }
}
