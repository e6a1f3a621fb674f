//! The calls of owners and of interventions.

use super::{Call, Calls, LONG, RECORD, SCHEMA, TROUBLE, call};

impl Calls {
    pub fn acquire_partition(&self, token: &str) -> Call {
        let p = &self.keys.partition;
        call("acquire_partition", &[&p.epoch(), &p.owner()], &[token, LONG, LONG, ""])
    }

    pub fn init_epoch(&self) -> Call {
        call("init_epoch", &[&self.keys.partition.epoch()], &["0 0"])
    }

    pub fn heartbeat(&self) -> Call {
        call("heartbeat", &[&self.pods], &["sender", "pod", LONG])
    }

    pub fn migrate(&self) -> Call {
        call("migrate", &[&self.keys.partition.epoch()], &[SCHEMA])
    }

    pub fn resign_partition(&self, token: &str) -> Call {
        let p = &self.keys.partition;
        call("resign_partition", &[&p.owner(), &p.wake_owner(), &p.epoch()], &[token, LONG, ""])
    }

    /// Releases lanes, each given by its key, the last settled sequence, and the most messages to
    /// release.
    pub fn release(&self, token: &str, lanes: &[(&str, u64, usize)]) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [
            &p.epoch(),
            &p.owner(),
            &k.hash(),
            &k.messages(),
            &k.attempts(),
            &p.releasable(),
            &k.lanes(),
            &k.withdrawals(),
            &k.idempotency_keys(),
            &k.log(),
            &k.log_order(),
            &k.halted(),
            &k.bodies(),
            &k.dead_letters(),
            &k.previous(),
            &k.consumer_leases(),
            &k.consumer_lease_ends(),
            &p.consumers(),
            &p.wake_releasable(),
            &p.withdrawing(),
        ];
        let name = self.name.as_str();
        let args = [token, &self.epoch, &self.version, name, self.ordering, LONG, "1000000", "1"];
        let of_lanes: Vec<&str> = lanes.iter().map(|(lane, ..)| *lane).collect();
        let mut made = self.with_lanes(call("release", &keys, &args), &of_lanes);
        let settled: Vec<&u64> = lanes.iter().map(|(_, to, _)| to).filter(|to| **to > 0).collect();
        let count = settled.len().to_string();
        made.args.extend([lanes.len().to_string(), count.clone(), count]);
        made.args.extend(["1", "1000000", "100", LONG].map(str::to_owned));
        for (lane, settled_to, most) in lanes {
            made.args.extend([(*lane).to_owned(), settled_to.to_string()]);
            made.args.extend(["4", "0"].map(str::to_owned));
            made.args.push(most.to_string());
        }
        for sequence in &settled {
            made.args.extend([sequence.to_string(), "entry".to_owned()]);
        }
        made.args.extend(settled.iter().map(|sequence| format!("{sequence}i")));
        made.args.push("once".to_owned());
        made
    }

    pub fn postpone(&self, token: &str, lane: &str, sequence: u64, wait: &str) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let in_progress = k.in_progress(self.set(lane));
        let keys = [
            &p.epoch(),
            &p.owner(),
            &k.attempts(),
            &p.releasable(),
            &k.lanes(),
            &in_progress,
            &k.hash(),
            &k.consumer_leases(),
        ];
        let (name, sequence) = (self.name.as_str(), sequence.to_string());
        let args = [token, &self.epoch, name, self.ordering, LONG, lane, &sequence, "1", wait];
        let mut made = call("postpone", &keys, &args);
        made.args.extend([TROUBLE.to_owned(), self.version.clone()]);
        made
    }

    pub fn halt(&self, token: &str, lane: &str, sequence: u64) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [
            &p.epoch(),
            &p.owner(),
            &k.hash(),
            &k.attempts(),
            &k.halted(),
            &k.lanes(),
            &k.messages(),
        ];
        let sequence = sequence.to_string();
        let args = [token, &self.epoch, self.ordering, LONG, lane, &sequence, "1", TROUBLE];
        let mut made = call("halt", &keys, &args);
        made.args.push(self.version.clone());
        let mut made = self.with_lanes(made, &[lane]);
        made.keys.push(k.consumer_leases());
        made
    }

    /// Withdraws messages, each given by its lane (from 1) and its sequence. An empty token is no
    /// owner's.
    pub fn withdraw(
        &self,
        how: &str,
        token: &str,
        lanes: &[&str],
        messages: &[(usize, u64)],
    ) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [
            &p.epoch(),
            &p.owner(),
            &k.hash(),
            &k.waiting(),
            &k.messages(),
            &k.attempts(),
            &p.delayed(),
            &k.halted(),
            &k.withdrawals(),
            &k.dead_letters(),
            &k.dead_letter_messages(),
            &p.releasable(),
            &k.lanes(),
            &self.builtin(),
            &self.worker(),
            &p.wake_waiting(),
            &p.wake_releasable(),
            &k.bodies(),
            &k.dead_lettered_at(),
            &k.withdrawn(),
            &p.leases(),
            &k.consumer_leases(),
            &k.consumer_lease_ends(),
            &p.consumers(),
            &p.withdrawing(),
        ];
        let (name, count) = (self.name.as_str(), lanes.len().to_string());
        let who = if token.is_empty() { String::new() } else { format!("{token} {}", self.epoch) };
        let args = [name, &self.version, self.ordering, self.processing, LONG, how, &who, "why"];
        let mut made = self.with_lanes(call("withdraw", &keys, &args), lanes);
        made.args.extend(["1".to_owned(), TROUBLE.to_owned(), count, "100".to_owned()]);
        made.args.extend(lanes.iter().map(|lane| (*lane).to_owned()));
        for (lane, sequence) in messages {
            made.args.extend([lane.to_string(), sequence.to_string()]);
        }
        made
    }

    pub fn retry(&self, lane: &str, sequence: u64, repaired: &str) -> Call {
        let (k, p, set) = (&self.keys, &self.keys.partition, self.set(lane));
        let keys = [
            &k.hash(),
            &k.waiting(),
            &k.messages(),
            &k.attempts(),
            &p.delayed(),
            &k.halted(),
            &p.releasable(),
            &k.lanes(),
            &self.builtin(),
            &self.worker(),
            &p.wake_waiting(),
            &p.wake_releasable(),
            &k.in_progress(set),
            &k.ready(set),
            &p.epoch(),
            &k.bodies(),
        ];
        let (name, sequence) = (self.name.as_str(), sequence.to_string());
        let length = RECORD.len().to_string();
        let args = [name, &self.version, self.ordering, lane, &sequence, repaired, &length];
        let mut made = call("retry_head", &keys, &args);
        made.args.extend([SCHEMA.to_owned(), String::new()]);
        made
    }

    /// Repairs messages, each given by its lane (from 1) and its sequence.
    pub fn repair(&self, lanes: &[&str], messages: &[(usize, u64)]) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [
            &p.epoch(),
            &k.hash(),
            &k.waiting(),
            &k.messages(),
            &k.attempts(),
            &p.leases(),
            &p.delayed(),
            &k.halted(),
            &k.withdrawals(),
            &k.dead_letters(),
            &k.dead_letter_messages(),
            &k.dead_lettered_at(),
            &k.bodies(),
            &k.log(),
            &p.releasable(),
            &k.lanes(),
            &self.builtin(),
            &self.worker(),
            &p.wake_waiting(),
            &p.wake_releasable(),
            &k.withdrawn(),
            &p.withdrawing(),
        ];
        let (name, count) = (self.name.as_str(), lanes.len().to_string());
        let args = [name, &self.version, self.ordering, self.processing, "1", &count];
        let mut made = self.with_lanes(call("repair", &keys, &args), lanes);
        made.args.extend(lanes.iter().map(|lane| (*lane).to_owned()));
        for (lane, sequence) in messages {
            made.args.extend([lane.to_string(), sequence.to_string(), String::new()]);
        }
        made
    }

    fn of_dead_letters(&self, script: &'static str, args: &[&str]) -> Call {
        let (k, epoch) = (&self.keys, self.keys.partition.epoch());
        let keys = [
            &k.hash(),
            &k.dead_letters(),
            &k.dead_letter_messages(),
            &epoch,
            &k.bodies(),
            &k.dead_lettered_at(),
        ];
        call(script, &keys, args)
    }

    pub fn expire(&self, age_ms: &str) -> Call {
        self.of_dead_letters("expire", &[&self.version, age_ms, "500"])
    }

    pub fn discard(&self, letters: &[u64]) -> Call {
        let mut made = self.of_dead_letters("discard", &[&self.version]);
        made.args.extend(letters.iter().map(u64::to_string));
        made
    }

    /// Notes the state of a bulk operation. Two are kept.
    pub fn note_operation(&self, id: &str, state: &str) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [&k.hash(), &p.epoch(), &k.operation(id), &p.operations()];
        call("note_operation", &keys, &[&format!("{}/{id}", self.name), state, LONG, "2"])
    }

    pub fn cancel_operation(&self, id: &str) -> Call {
        let k = &self.keys;
        call("cancel_operation", &[&k.partition.epoch(), &k.operation(id)], &[])
    }

    pub fn pause(&self, paused: &str) -> Call {
        let word = |name| if paused.contains(name) { "1" } else { "0" };
        let epoch = self.keys.partition.epoch();
        call("pause", &[&self.keys.hash(), &epoch], &[word("ingest"), word("delivery")])
    }
}
