//! One run: starts the processes, sends the messages, waits for the arrivals, and checks them.

use std::{
    io::Write,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use config::Config;
use tokio::time::sleep;
use tools::harness::{Harness, Interrupt};

use super::{
    args::BenchArgs,
    chart, hostile, idle,
    load::{Load, Sent},
    outcome::Outcome,
    plan::{Phase, Plan},
    program,
    progress::Progress,
    receive::{Arrived, Receivers, Tally},
    report::{Figures, Preload, Report, Settings, Step, rounded},
    setup,
    surroundings::Surroundings,
    usage::{self, Usage},
    verify::{Verified, judge},
};

/// Stop waiting if no message arrives for this long beyond the longest work.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The time between two checks whether all messages have arrived.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Messages without --messages, --seconds and --rate.
const MESSAGES: u64 = 100_000;
/// Seconds without --messages and --seconds.
const SECONDS: u64 = 10;

/// Runs the bench and prints its report. True if every message arrived, in order.
pub async fn run(args: BenchArgs) -> anyhow::Result<bool> {
    args.check()?;
    let reseq = program::reseq(args.reseq.as_deref())?;
    let mut interrupt = Interrupt::listen()?;
    let mut progress = Progress::new();
    progress.note("starting Redis");
    let mut harness = Harness::open("bench", reseq).await?;
    let mut surroundings = None;
    let played = tokio::select! {
        played = play(&args, &mut harness, &mut surroundings, &mut progress) => played.map(Some),
        () = interrupt.wait() => Ok(None),
    };
    progress.note("stopping everything");
    let ended = harness.ended();
    let (problems, logs) = harness.close().await;
    let missing = surroundings.as_ref().and_then(Surroundings::problem);
    progress.finish();
    let is_well = match &played {
        Ok(Some(outcome)) => outcome.is_well() && ended.is_empty() && missing.is_none(),
        Ok(None) => true,
        Err(_) => false,
    };
    if !is_well {
        eprintln!("The logs of all processes are kept in {}", logs.keep().display());
    }
    let Some(mut outcome) = played? else { bail!("interrupted: everything was stopped") };
    if let Some(problem) = missing {
        bail!(problem);
    }
    outcome.problems().extend(ended.into_iter().chain(problems));
    if let Some(file) = &args.svg {
        keep(file, &chart::draw(outcome.ramp())?)?;
    }
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string(&outcome)?)?,
        false => write!(out, "{outcome}")?,
    }
    out.flush()?;
    Ok(outcome.is_well())
}

/// Writes the chart. Creates its directory if needed.
fn keep(file: &Path, picture: &str) -> anyhow::Result<()> {
    let directory = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    let kept = directory.and_then(|()| std::fs::write(file, picture));
    kept.with_context(|| format!("writing {}; give --svg another file", file.display()))
}

/// The bench, after ingest has started.
pub struct Bench<'a> {
    pub args: &'a BenchArgs,
    pub config: Config,
    pub plan: Plan,
    pub tally: Arc<Tally>,
    pub load: Arc<Load>,
    pub harness: &'a mut Harness,
    pub progress: &'a mut Progress,
    /// The number of the first message of the next phase.
    pub base: u64,
    /// Kept here because dropping the receivers ends them.
    _receivers: Receivers,
}

async fn play(
    args: &BenchArgs,
    harness: &mut Harness,
    surroundings: &mut Option<Surroundings>,
    progress: &mut Progress,
) -> anyhow::Result<Outcome> {
    let surroundings = &*surroundings.insert(Surroundings::prepare(args, harness).await?);
    if args.idle {
        return Ok(Outcome::Idle(idle::measure(args, harness, surroundings, progress).await?));
    }
    if args.hostile.is_some() {
        let hostile = hostile::measure(args, harness, surroundings, progress).await?;
        return Ok(Outcome::Hostile(hostile));
    }
    let plan = Plan::of(args);
    let tally = Arc::new(Tally::new(plan.clone()));
    let (way, framing) = (args.way_out, args.framing.into());
    let receivers = Receivers::start(way, framing, tally.clone(), surroundings).await?;
    let config = setup::config(args, surroundings, &receivers)?;
    progress.note("starting the processes");
    let listeners = setup::start_ingest(harness, args, &config, surroundings).await?;
    let load = Arc::new(Load::new(args, plan.clone(), tally.clone(), listeners));
    let (base, _receivers) = (0, receivers);
    let mut bench = Bench { args, config, plan, tally, load, harness, progress, base, _receivers };
    if let Some(times) = args.failover {
        return Ok(Outcome::Failovers(bench.failover(times).await?));
    }
    let (mut main, preload) = bench.main().await?;
    let ramp = bench.ramp(main.messages_per_s).await?;
    for Step { figures, .. } in &ramp {
        main.tallied.judge_also(figures.tallied);
    }
    let settings = Settings::of(args);
    Ok(Outcome::Load(Box::new(Report { settings, main, preload, ramp, problems: Vec::new() })))
}

impl Bench<'_> {
    /// Runs the main phase, whose numbers the report shows.
    async fn main(&mut self) -> anyhow::Result<(Figures, Option<Preload>)> {
        let seconds = match (self.args.messages, self.args.seconds, self.args.rate) {
            (None, None, Some(_)) => Some(SECONDS),
            (_, seconds, _) => seconds,
        };
        let messages = match seconds {
            Some(_) => u64::MAX / 2,
            None => self.args.messages.unwrap_or(MESSAGES),
        };
        let time = seconds.map(Duration::from_secs);
        let phase = Phase { base: 0, messages, time, rate: self.args.rate };
        if self.args.preload {
            let (figures, preload) = self.preload(phase).await?;
            return Ok((figures, Some(preload)));
        }
        setup::start_rest(self.harness, self.args, &self.config).await?;
        // Ignore the result: if the senders do not share the partitions, the measurement shows that.
        let _ = setup::wait_until_shared(self.harness, &self.config).await;
        if self.args.warm_up > 0 {
            let warm_up = Phase { messages: self.args.warm_up, time: None, rate: None, ..phase };
            let (judged, _, _) = self.phase("warming up", warm_up).await?;
            let (accepted, delivered) = (judged.accepted, judged.delivered);
            if accepted != delivered {
                bail!("of {accepted} messages to warm up {delivered} arrived");
            }
        }
        let (judged, used, late) = self.phase("measuring", phase).await?;
        let begin = judged.first_sent;
        Ok((Figures::of(judged, &used, begin, late), None))
    }

    /// Runs the steps of the ramp, at percentages of this throughput.
    async fn ramp(&mut self, messages_per_s: f64) -> anyhow::Result<Vec<Step>> {
        let mut steps = Vec::new();
        for &percent in &self.args.ramp {
            let rate = messages_per_s * percent as f64 / 100.0;
            let time = Some(Duration::from_secs(self.args.ramp_seconds));
            let phase = Phase { base: 0, messages: u64::MAX / 2, time, rate: Some(rate) };
            let what = format!("at {percent} %");
            let (judged, used, late) = self.phase(&what, phase).await?;
            let begin = judged.first_sent;
            let figures = Figures::of(judged, &used, begin, late);
            steps.push(Step { percent, rate: rounded(rate, 1), figures });
        }
        Ok(steps)
    }

    /// Sends, waits for the arrivals, and checks them. Also returns the use of resources, and the longest delay behind
    /// the schedule.
    async fn phase(
        &mut self,
        what: &str,
        phase: Phase,
    ) -> anyhow::Result<(Verified, Usage, Duration)> {
        let phase = Phase { base: self.base, ..phase };
        self.progress.follow(what, &self.load, &self.tally);
        let blocks_before = usage::blocks(self.harness).await;
        let before = Usage::now(self.harness).await?;
        let sent = self.load.send(phase).await?;
        self.arrivals(accepted(&sent)).await;
        let mut used = Usage::now(self.harness).await?.since(&before);
        used.blocks = usage::blocks(self.harness).await.saturating_sub(blocks_before);
        let (judged, _, late) = self.judge(phase, sent);
        Ok((judged, used, late))
    }

    /// Sends all messages, and only then starts processors and senders.
    async fn preload(&mut self, phase: Phase) -> anyhow::Result<(Figures, Preload)> {
        self.progress.follow("loading", &self.load, &self.tally);
        let empty = Usage::now(self.harness).await?;
        let sent = self.load.send(phase).await?;
        let full = Usage::now(self.harness).await?;
        let count = accepted(&sent);
        self.progress.follow("draining", &self.load, &self.tally);
        let begin = self.tally.now();
        setup::start_rest(self.harness, self.args, &self.config).await?;
        self.arrivals(count).await;
        let used = Usage::now(self.harness).await?.since(&full);
        let (judged, _, late) = self.judge(phase, sent);
        let each = count.max(1) as f64;
        let grown = full.redis.memory as f64 - empty.redis.memory as f64;
        let loading = full.since(&empty);
        let first_delivery = judged.first_arrival.saturating_sub(begin);
        let figures = Figures::of(judged, &used, begin, late);
        let preload = Preload {
            waiting: count,
            accepted_per_s: figures.accepted_per_s,
            memory_bytes_per_message: rounded(grown / each - self.args.body_bytes as f64, 1),
            first_delivery_s: rounded(first_delivery.as_secs_f64(), 3),
            redis_us_per_message: rounded(loading.redis.cpu.as_secs_f64() * 1e6 / each, 2),
        };
        Ok((figures, preload))
    }

    /// Ends a phase and checks its arrivals. Also returns the arrivals, and the longest delay behind the schedule.
    pub fn judge(&mut self, phase: Phase, sent: Vec<Sent>) -> (Verified, Arrived, Duration) {
        let longest = sent.iter().map(|sent| sent.at.len()).max().unwrap_or_default() as u64;
        self.base = phase.base + longest * self.plan.streams;
        let arrived = self.tally.take(self.base);
        let late = sent.iter().map(|sent| sent.late).max().unwrap_or_default();
        let slots = (self.args.concurrency * self.args.working()).max(1);
        (judge(&self.plan, phase, &sent, &arrived, slots), arrived, late)
    }

    /// Waits until this many messages have arrived, or no message has arrived for too long.
    pub async fn arrivals(&mut self, count: u64) {
        let silence_max = SILENCE_MAX + Duration::from_micros(self.args.work_max_us);
        let (mut last, mut heard) = (0, Instant::now());
        loop {
            let delivered = self.tally.delivered();
            if delivered >= count || heard.elapsed() > silence_max {
                return;
            }
            if delivered > last {
                (last, heard) = (delivered, Instant::now());
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

/// The number of accepted messages.
pub fn accepted(sent: &[Sent]) -> u64 {
    sent.iter().map(|sent| sent.sequences.len() as u64).sum()
}
