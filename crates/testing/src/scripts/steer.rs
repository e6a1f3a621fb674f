//! The calls of owners and of interventions.

use store::{rows::LaneSets, transitions::*};

use super::{Call, Calls, LONG, LONG_MS, RECORD, SCHEMA, TROUBLE, made};

impl Calls {
    pub fn acquire_partition(&self, token: &str) -> Call {
        let args = acquire_partition::Args {
            own_token: token,
            lease_ms: LONG_MS,
            seen_epoch: LONG.to_owned(),
            seen_owner: "",
        };
        made("acquire_partition", args.words(&self.keys.partition))
    }

    pub fn init_epoch(&self) -> Call {
        let args = init_epoch::Args { seen_epoch: "0 0".to_owned() };
        made("init_epoch", args.words(&self.keys.partition))
    }

    pub fn heartbeat(&self) -> Call {
        let args = heartbeat::Args { role: "sender", pod: "pod".to_owned(), lasts_ms: LONG_MS };
        made("heartbeat", args.words(&self.all))
    }

    pub fn migrate(&self) -> Call {
        let args = migrate::Args { schema: SCHEMA.parse().unwrap() };
        made("migrate", args.words(&self.keys.partition))
    }

    pub fn resign_partition(&self, token: &str) -> Call {
        let args = resign_partition::Args {
            token,
            seen_epoch: LONG.to_owned(),
            vouched_epoch: String::new(),
        };
        made("resign_partition", args.words(&self.keys.partition))
    }

    /// Releases lanes, each given by its key, the last settled sequence, and the most messages to
    /// release.
    pub fn release(&self, token: &str, lanes: &[(&str, u64, usize)]) -> Call {
        let settled = lanes.iter().map(|(_, upto, _)| *upto).filter(|upto| *upto > 0);
        let log =
            settled.clone().map(|sequence| release::LogRow { sequence, entry: b"entry".to_vec() });
        let fields: Vec<String> = settled.map(|sequence| format!("{sequence}i")).collect();
        let args = release::Args {
            log: log.collect(),
            bodies: fields.iter().map(String::as_str).collect(),
            idempotency_keys: vec!["once"],
            ..self.release_of(token, lanes)
        };
        made("release", args.words(&self.keys))
    }

    /// A release that keeps no log.
    pub(super) fn release_of<'a>(
        &'a self,
        token: &'a str,
        lanes: &[(&'a str, u64, usize)],
    ) -> release::Args<'a> {
        let sets = lanes.iter().map(|(lane, ..)| LaneSets::of(&self.keys, self.set(lane)));
        let row = |(key, upto, most): &(&'a str, u64, usize)| release::RequestRow {
            key,
            upto: *upto,
            accounted_bytes: "4".to_owned(),
            held_upto: 0,
            most: *most,
        };
        release::Args {
            token,
            owner_epoch: self.epoch(),
            version: self.version(),
            destination: self.name.as_str(),
            ordering: self.ordering,
            seen_epoch: LONG.to_owned(),
            bytes_max: 1_000_000,
            log_max: 1,
            refused_max: 1,
            refused_bytes_max: 1_000_000,
            previous_max: 100,
            wait_max_ms: LONG_MS,
            sets: sets.collect(),
            lanes: lanes.iter().map(row).collect(),
            ..release::Args::default()
        }
    }

    pub fn postpone(&self, token: &str, lane: &str, sequence: u64, wait: &str) -> Call {
        let args = postpone::Args {
            token,
            owner_epoch: self.epoch(),
            destination: self.name.as_str(),
            ordering: self.ordering,
            seen_epoch: LONG.to_owned(),
            lane,
            sequence,
            failed: 1,
            wait_ms: wait.parse().unwrap(),
            problem: TROUBLE.to_owned(),
            version: self.version(),
        };
        made("postpone", args.words(&self.keys, self.set(lane)))
    }

    pub fn halt(&self, token: &str, lane: &str, sequence: u64) -> Call {
        let args = halt::Args {
            token,
            owner_epoch: self.epoch(),
            ordering: self.ordering,
            seen_epoch: LONG.to_owned(),
            lane,
            sequence,
            failed: 1,
            problem: TROUBLE.to_owned(),
            version: self.version(),
        };
        made("halt", args.words(&self.keys, self.set(lane)))
    }

    /// Withdraws messages, each given by its lane (from 1) and its sequence. With an empty token,
    /// the caller is not the owner.
    pub fn withdraw(
        &self,
        how: &str,
        token: &str,
        lanes: &[&str],
        messages: &[(usize, u64)],
    ) -> Call {
        let lanes = lanes.iter().map(|key| self.lane(key));
        let message = |(lane, sequence): &(usize, u64)| withdraw::WithdrawnMessage {
            lane: *lane,
            sequence: *sequence,
        };
        let args = withdraw::Args {
            destination: self.name.as_str(),
            version: self.version(),
            ordering: self.ordering,
            processing: self.processing,
            seen_epoch: LONG.to_owned(),
            how: how.to_owned(),
            who: if token.is_empty() { String::new() } else { format!("{token} {}", self.epoch) },
            reason: "why",
            failed: 1,
            problem: TROUBLE.to_owned(),
            letters_max: 100,
            lanes: lanes.collect(),
            messages: messages.iter().map(message).collect(),
        };
        made("withdraw", args.words(&self.keys))
    }

    pub fn retry(&self, lane: &str, sequence: u64, repaired: &str) -> Call {
        let args = retry_head::Args {
            destination: self.name.as_str(),
            version: self.version(),
            ordering: self.ordering,
            lane,
            sequence,
            repaired: repaired.as_bytes().to_vec(),
            stored_bytes: RECORD.len(),
            record_schema: SCHEMA.parse().unwrap(),
            repaired_body: b"",
        };
        made("retry_head", args.words(&self.keys, self.set(lane)))
    }

    /// Repairs messages, each given by its lane (from 1) and its sequence.
    pub fn repair(&self, lanes: &[&str], messages: &[(usize, u64)]) -> Call {
        let lanes = lanes.iter().map(|key| self.lane(key));
        let message = |(lane, sequence): &(usize, u64)| repair::RepairedMessage {
            lane: *lane,
            sequence: *sequence,
            is_unreadable: false,
            is_processed: false,
            is_leased: false,
        };
        let args = repair::Args {
            destination: self.name.as_str(),
            version: self.version(),
            ordering: self.ordering,
            processing: self.processing,
            repairs: true,
            lanes: lanes.collect(),
            messages: messages.iter().map(message).collect(),
        };
        made("repair", args.words(&self.keys))
    }

    pub fn expire(&self, age_ms: &str) -> Call {
        let args =
            expire::Args { version: self.version(), age_max: age_ms.parse().unwrap(), most: 500 };
        made("expire", args.words(&self.keys))
    }

    pub fn discard(&self, letters: &[u64]) -> Call {
        let args = discard::Args { version: self.version(), sequences: letters.to_vec() };
        made("discard", args.words(&self.keys))
    }

    /// Notes the state of a bulk operation. Redis keeps two operations.
    pub fn note_operation(&self, id: &str, state: &str) -> Call {
        let args = note_operation::Args {
            operation: format!("{}/{id}", self.name),
            state,
            kept_ms: LONG_MS,
            most: 2,
        };
        made("note_operation", args.words(&self.keys, id))
    }

    pub fn cancel_operation(&self, id: &str) -> Call {
        made("cancel_operation", cancel_operation::Args {}.words(&self.keys, id))
    }

    pub fn pause(&self, paused: &str) -> Call {
        let word = |name| if paused.contains(name) { "1" } else { "0" };
        let args = pause::Args {
            ingest: word("ingest"),
            processing: word("processing"),
            delivery: word("delivery"),
        };
        made("pause", args.words(&self.keys))
    }
}
