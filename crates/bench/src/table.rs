//! The report as text.

use std::fmt;

use super::{
    args::TransformArg,
    counters::Counters,
    report::{Figures, Quantiles, Report, Settings},
    usage::ROLES,
};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.settings)?;
        writeln!(f)?;
        write!(f, "{}", self.main)?;
        self.preload(f)?;
        self.ramp(f)?;
        for problem in &self.problems {
            writeln!(f, "Problem: {problem}")?;
        }
        writeln!(f, "{}", self.main.tallied)
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |value: &dyn fmt::Debug| format!("{value:?}").to_lowercase();
        let (ordering, transform) = (name(&self.ordering), name(&self.transform));
        let (way_in, way_out) = (name(&self.way_in), name(&self.way_out));
        write!(
            f,
            "{} destination(s), {} key(s) each, ordering {ordering}; {} byte bodies; in {way_in} \
             ({} connections), out {way_out};\ntransform {transform}",
            self.destinations, self.keys, self.body_bytes, self.connections
        )?;
        if self.transform == TransformArg::Native {
            let (min, max) = (self.work_min_us, self.work_max_us);
            write!(f, ", {min} to {max} µs of work, {} at once in a processor", self.concurrency)?;
        }
        write!(
            f,
            ". Processes: {} ingest, {} processor, {} sender; embedded Redis. Seed {}.",
            self.ingest, self.processors, self.senders, self.seed
        )?;
        if let Some(pending) = self.pending {
            write!(f, "\nAt most {pending} sent and not delivered yet.")?;
        }
        if self.work_max_us > 0 {
            write!(f, "\nWork is waiting; timers round each up to a whole millisecond.")?;
        }
        Ok(())
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counters { delivered, accepted, repeats, foreign, .. } = self.tallied;
        writeln!(f, "delivered            {delivered} of {accepted} ({repeats} repeats)")?;
        if foreign > 0 {
            writeln!(f, "not sent, yet came   {foreign}")?;
        }
        let ideal = self.ideal_messages_per_s.map_or("-".to_owned(), |ideal| format!("{ideal:.0}"));
        writeln!(
            f,
            "messages/s           {:.0} in {:.3} s (ideal {ideal}; accepted {:.0})",
            self.messages_per_s, self.elapsed_s, self.accepted_per_s
        )?;
        writeln!(f, "{:<20} {:>10} {:>10} {:>10} {:>10}", "in µs", "p50", "p99", "p99.9", "max")?;
        quantiles(f, "latency", self.latency_us)?;
        quantiles(f, "overhead over ideal", self.overhead_us)?;
        if self.sent_late_us_max > 0.0 {
            writeln!(f, "sent behind schedule, at most {:.0} µs", self.sent_late_us_max)?;
        }
        self.costs(f)?;
        writeln!(f, "Limit: {}", self.limit)
    }
}

impl Figures {
    fn costs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["redis"].into_iter().chain(ROLES);
        write!(f, "{:<20}", "CPU")?;
        names.clone().try_for_each(|name| write!(f, " {name:>10}"))?;
        write!(f, "\n{:<20}", "µs a message")?;
        let cpu = |name| self.cpu_us_per_message.get(name).copied().unwrap_or_default();
        names.clone().try_for_each(|name| write!(f, " {:>10.2}", cpu(name)))?;
        write!(f, "\n{:<20}", "cores busy")?;
        let busy = |name| self.cores_busy.get(name).copied().unwrap_or_default();
        names.clone().try_for_each(|name| write!(f, " {:>10.2}", busy(name)))?;
        let (main, children) = (self.redis_main_us_per_message, self.redis_children_us_per_message);
        let calls = &self.redis_calls_per_message;
        let blocks = calls.blocks_per_call.map(|blocks| format!(" (of {blocks:.2} blocks)"));
        let blocks = blocks.unwrap_or_default();
        writeln!(
            f,
            "\nRedis: main thread {main:.2} µs a message ({:.2} cores), beside it children \
             {children:.2} µs;\n{:.4} script calls{blocks} and {:.2} commands a message.",
            busy("redis_main"),
            calls.scripts,
            calls.commands
        )?;
        writeln!(
            f,
            "{:<20} {:>10} {:>12} {:>12}",
            "command", "calls", "a message", "µs a message"
        )?;
        for command in &self.redis_commands {
            let (name, calls) = (&command.name, command.calls);
            let (of_each, took) = (command.calls_per_message, command.us_per_message);
            writeln!(f, "{name:<20} {calls:>10} {of_each:>12.4} {took:>12.3}")?;
        }
        Ok(())
    }
}

impl Report {
    fn preload(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(preload) = &self.preload else { return Ok(()) };
        writeln!(
            f,
            "Preload: {} waiting, accepted at {:.0}/s, {:.2} µs of Redis each; {:.0} bytes each \
             beside the body.\nFirst delivery {:.3} s after the processors and senders were \
             started (their start counts above).",
            preload.waiting,
            preload.accepted_per_s,
            preload.redis_us_per_message,
            preload.memory_bytes_per_message,
            preload.first_delivery_s
        )
    }

    fn ramp(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ramp.is_empty() {
            return Ok(());
        }
        let heads = ["rate", "messages/s", "p50 µs", "p99 µs", "p99.9 µs", "max µs"];
        write!(f, "{:<8}", "ramp")?;
        heads.iter().try_for_each(|head| write!(f, " {head:>11}"))?;
        writeln!(f)?;
        for step in &self.ramp {
            let latency = step.figures.latency_us;
            write!(f, "{:<8}", format!("{} %", step.percent))?;
            let numbers = [step.rate, step.figures.messages_per_s, latency.p50, latency.p99];
            let numbers = numbers.into_iter().chain([latency.p99_9, latency.max]);
            numbers.into_iter().try_for_each(|number| write!(f, " {number:>11.0}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

fn quantiles(f: &mut fmt::Formatter<'_>, name: &str, of: Quantiles) -> fmt::Result {
    let (p50, p99, p99_9, max) = (of.p50, of.p99, of.p99_9, of.max);
    writeln!(f, "{name:<20} {p50:>10.0} {p99:>10.0} {p99_9:>10.0} {max:>10.0}")
}
