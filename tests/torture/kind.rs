//! The kinds of faults: the victim of each, and the duration.

use std::fmt;

use crate::plan::{PODS, Role, Topology};

/// How long a victim gets no other fault after one, in ms.
const REST_MS: u64 = 1500;
/// The rest after a failover, until another failover may begin. Sentinels wait for twice their
/// `failover-timeout`.
const REST_SENTINEL_MS: u64 = 20_000;
const REST_CLUSTER_MS: u64 = 15_000;

/// The connections that a [`Kind::Link`] strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Between {
    /// Between a pod and Redis.
    Redis,
    /// Between the senders and a receiver.
    Receiver,
    /// Between the producers and an ingest pod.
    Ingest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    Cut,
    HalfOpen,
    Delayed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mood {
    Slow,
    Failing,
    /// Accepts, answers, and cuts the connection.
    AnswersThenCuts,
    /// Accepts, and cuts the connection instead of answering.
    AcceptsThenCuts,
}

/// The movement of the servers' clocks. The clocks are not corrected afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clocks {
    OneForward,
    OneBack,
    AllForward,
    AllBack,
    /// One clock is faster or slower for a while.
    OneDrifts,
    /// All clocks are faster or slower, each by another amount.
    AllDrift,
}

/// The resource that a destination uses up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hog {
    /// Connections: its receiver never answers.
    Receiver,
    /// Connections of a transform that hangs.
    Transform,
    /// Look-ups: its DNS server is silent.
    Dns,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// SIGKILL; the pod is started again later.
    Kill(Role),
    /// SIGSTOP and SIGCONT, within the leases.
    FreezeShort(Role),
    /// SIGSTOP and SIGCONT, for longer than any lease.
    FreezeLong(Role),
    /// A pod stops cleanly, and is started again.
    Scale(Role),
    Link(Between, Trouble),
    Receiver(Mood),
    /// A worker abandons its leases.
    WorkerForgets,
    /// SIGKILL of a consumer: it has handled a message that it has not accepted.
    ConsumerKilled,
    RedisKilled,
    RedisFrozen,
    Clock(Clocks),
    /// A replica takes over; the killed server comes back as its replica.
    PrimaryKilled,
    /// A replica takes over; the frozen server comes back and still believes that it is the
    /// primary.
    PrimaryFrozen,
    /// A replica takes over while its primary lives.
    Failover,
    SlotsMoved,
    ScriptFlush,
    /// Sets `maxmemory` to the memory in use.
    MemoryFull,
    /// Sets `maxmemory` to half of the memory in use, until a destination has delivered all messages.
    MemoryLowered,
    /// Redis requires more replicas than it has.
    WritesRefused,
    /// A script does not end until it is killed.
    ScriptBusy,
    /// Redis cannot write its append-only file.
    DiskFull,
    /// The record or the body of a message is deleted or overwritten in Redis.
    Damaged,
    /// The pods' Redis user may not use channels.
    ChannelsTaken,
    /// More connections than a pod accepts, all of them silent.
    ConnectionsFull,
    /// A pod may not open one more file descriptor.
    DescriptorsGone,
    /// The whole backlog of a destination is cancelled.
    Purged,
    /// The backlog is cancelled while a consumer holds messages. One of these is also cancelled separately.
    HeldPurged,
    /// A destination is removed with its backlog, created again, and used.
    Removed,
    /// SIGKILL of the receiver in a separate process. It is started again later.
    ReceiverKilled,
    /// Destinations take as much of the pods as they can.
    Hog(Hog),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Kill(role) => write!(f, "{} killed", role.name()),
            Kind::FreezeShort(role) => write!(f, "{} frozen within its lease", role.name()),
            Kind::FreezeLong(role) => write!(f, "{} frozen beyond its lease", role.name()),
            Kind::Scale(role) => write!(f, "{} replaced", role.name()),
            Kind::Link(between, trouble) => {
                let trouble = match trouble {
                    Trouble::Cut => "cut at a byte",
                    Trouble::HalfOpen => "half-open",
                    Trouble::Delayed => "delayed",
                };
                let between = match between {
                    Between::Redis => "Redis",
                    Between::Receiver => "receiver",
                    Between::Ingest => "ingest",
                };
                write!(f, "connections to {between} {trouble}")
            }
            Kind::Receiver(Mood::Slow) => f.write_str("receiver slow"),
            Kind::Receiver(Mood::Failing) => f.write_str("receiver failing"),
            Kind::Receiver(Mood::AnswersThenCuts) => f.write_str("receiver answers, then cuts"),
            Kind::Receiver(Mood::AcceptsThenCuts) => f.write_str("receiver accepts, then cuts"),
            Kind::WorkerForgets => f.write_str("worker forgets its leases"),
            Kind::ConsumerKilled => f.write_str("consumer killed"),
            Kind::RedisKilled => f.write_str("Redis killed and restarted"),
            Kind::RedisFrozen => f.write_str("Redis frozen"),
            Kind::Clock(Clocks::OneForward) => f.write_str("clock of one server steps forward"),
            Kind::Clock(Clocks::OneBack) => f.write_str("clock of one server steps back"),
            Kind::Clock(Clocks::AllForward) => f.write_str("clocks of all servers step forward"),
            Kind::Clock(Clocks::AllBack) => f.write_str("clocks of all servers step back"),
            Kind::Clock(Clocks::OneDrifts) => f.write_str("clock of one server drifts"),
            Kind::Clock(Clocks::AllDrift) => f.write_str("clocks of all servers drift"),
            Kind::PrimaryKilled => f.write_str("primary killed"),
            Kind::PrimaryFrozen => f.write_str("primary frozen, and back"),
            Kind::Failover => f.write_str("failover asked for"),
            Kind::SlotsMoved => f.write_str("slots moved"),
            Kind::ScriptFlush => f.write_str("SCRIPT FLUSH"),
            Kind::MemoryFull => f.write_str("Redis out of memory"),
            Kind::MemoryLowered => f.write_str("Redis far above maxmemory"),
            Kind::WritesRefused => f.write_str("writes refused (NOREPLICAS)"),
            Kind::ScriptBusy => f.write_str("script does not end (BUSY)"),
            Kind::DiskFull => f.write_str("disk full"),
            Kind::Damaged => f.write_str("message damaged in Redis"),
            Kind::ChannelsTaken => f.write_str("right to channels taken away"),
            Kind::ConnectionsFull => f.write_str("connections of ingest used up"),
            Kind::DescriptorsGone => f.write_str("file descriptors used up"),
            Kind::Purged => f.write_str("purge of a long backlog"),
            Kind::HeldPurged => f.write_str("purge while a consumer holds messages"),
            Kind::Removed => f.write_str("removal with a long backlog"),
            Kind::ReceiverKilled => f.write_str("receiver killed"),
            Kind::Hog(Hog::Receiver) => f.write_str("receiver holds connections"),
            Kind::Hog(Hog::Transform) => f.write_str("transform hangs"),
            Kind::Hog(Hog::Dns) => f.write_str("DNS silent"),
        }
    }
}

impl Kind {
    /// The kinds of the usual storms.
    pub fn all(topology: Topology) -> Vec<Kind> {
        let mut all = Vec::new();
        for role in Role::ALL {
            all.extend([Kind::Kill(role), Kind::FreezeLong(role), Kind::Scale(role)]);
        }
        all.extend([Kind::FreezeShort(Role::Processor), Kind::FreezeShort(Role::Sender)]);
        for between in [Between::Receiver, Between::Ingest, Between::Redis] {
            for trouble in [Trouble::Cut, Trouble::HalfOpen, Trouble::Delayed] {
                all.push(Kind::Link(between, trouble));
            }
        }
        for mood in [Mood::Slow, Mood::Failing, Mood::AnswersThenCuts, Mood::AcceptsThenCuts] {
            all.push(Kind::Receiver(mood));
        }
        all.extend([
            Kind::WorkerForgets,
            Kind::ConsumerKilled,
            Kind::ScriptFlush,
            Kind::MemoryFull,
        ]);
        all.extend([Kind::Damaged, Kind::ChannelsTaken]);
        all.extend([Kind::ConnectionsFull, Kind::DescriptorsGone]);
        all.extend([Kind::Purged, Kind::Removed, Kind::ReceiverKilled]);
        if topology != Topology::Sentinel {
            // A primary that answers PING with MISCONF is dead for sentinels. They promote another
            // one, and the writes that the old one accepts before it learns of that are lost.
            all.push(Kind::DiskFull);
        }
        match topology {
            Topology::Single => all.extend([Kind::RedisKilled, Kind::RedisFrozen]),
            Topology::Sentinel => {
                all.extend([Kind::PrimaryKilled, Kind::PrimaryFrozen, Kind::Failover]);
            }
            Topology::Cluster => {
                all.extend([Kind::PrimaryKilled, Kind::PrimaryFrozen, Kind::Failover]);
                all.push(Kind::SlotsMoved);
            }
        }
        all
    }

    /// The kinds that affect consumers: an operator, and pods that are replaced.
    pub fn of_consumers() -> Vec<Kind> {
        let mut all = vec![Kind::HeldPurged, Kind::ConsumerKilled, Kind::RedisKilled];
        let (killed, frozen) = (Kind::Kill(Role::Sender), Kind::FreezeLong(Role::Sender));
        all.extend([killed, frozen, Kind::Scale(Role::Sender), Kind::Scale(Role::Ingest)]);
        all
    }

    /// The kinds that move clocks, make Redis refuse, or take places of pods. They have separate
    /// storms, unless TORTURE_KINDS names them.
    pub fn of_shares() -> Vec<Kind> {
        let steps = [Clocks::OneForward, Clocks::OneBack, Clocks::AllForward, Clocks::AllBack];
        let clocks = steps.into_iter().chain([Clocks::OneDrifts, Clocks::AllDrift]);
        let mut all: Vec<Kind> = clocks.map(Kind::Clock).collect();
        all.extend([Kind::MemoryLowered, Kind::WritesRefused, Kind::ScriptBusy]);
        all.extend([Hog::Receiver, Hog::Transform, Hog::Dns].map(Kind::Hog));
        all
    }

    /// The name of the victim. Two faults never strike the same victim at once.
    pub fn victim(self, target: usize) -> String {
        match self {
            Kind::Kill(role)
            | Kind::FreezeShort(role)
            | Kind::FreezeLong(role)
            | Kind::Scale(role) => format!("{}-{}", role.name(), target + 1),
            Kind::Link(between, _) => format!("{between:?} link {}", target + 1),
            Kind::Receiver(_) => format!("receiver {}", target + 1),
            Kind::ReceiverKilled => "receiver that is a process".into(),
            Kind::ConnectionsFull | Kind::DescriptorsGone => {
                format!("{}-{}", Role::ALL[target / PODS].name(), target % PODS + 1)
            }
            Kind::Purged => "backlog to purge".into(),
            Kind::HeldPurged => "messages of consumers".into(),
            Kind::Removed => "backlog to remove".into(),
            Kind::WorkerForgets => "worker".into(),
            Kind::ConsumerKilled => "consumer".into(),
            // A separate victim, so that it can overlap with other faults of Redis.
            Kind::Clock(_) => "clocks".into(),
            Kind::Hog(hog) => format!("places of pods, by {hog:?}"),
            _ => "Redis".into(),
        }
    }

    pub fn targets(self, destinations: usize) -> usize {
        match self {
            Kind::Kill(_) | Kind::FreezeShort(_) | Kind::FreezeLong(_) | Kind::Scale(_) => PODS,
            Kind::Link(Between::Redis, _) | Kind::DescriptorsGone => PODS * Role::ALL.len(),
            Kind::Link(Between::Ingest, _) | Kind::ConnectionsFull => PODS,
            Kind::WorkerForgets | Kind::ConsumerKilled | Kind::ReceiverKilled => 1,
            Kind::Purged | Kind::HeldPurged | Kind::Removed | Kind::Hog(_) => 1,
            // The last receiver is a separate process, which cannot simulate these faults.
            Kind::Receiver(_) => destinations - 1,
            // Faults of Redis strike the server of a destination.
            _ => destinations,
        }
    }

    /// How long the victim gets no other fault afterwards, in ms.
    pub fn rest_ms(self, topology: Topology) -> u64 {
        match (self, topology) {
            (Kind::PrimaryKilled | Kind::PrimaryFrozen | Kind::Failover, Topology::Sentinel) => {
                REST_SENTINEL_MS
            }
            (
                Kind::PrimaryKilled | Kind::PrimaryFrozen | Kind::Failover | Kind::SlotsMoved,
                Topology::Cluster,
            ) => REST_CLUSTER_MS,
            _ => REST_MS,
        }
    }

    /// The duration of the fault, in ms.
    pub fn lasts(self) -> std::ops::Range<u64> {
        match self {
            Kind::Kill(_) | Kind::RedisKilled | Kind::PrimaryKilled | Kind::ReceiverKilled => {
                100..1500
            }
            Kind::FreezeShort(_) => 200..900,
            Kind::FreezeLong(_) => 2500..4000,
            Kind::Scale(_) => 0..500,
            Kind::Link(_, Trouble::Delayed) | Kind::Receiver(Mood::Slow) => 1000..3000,
            Kind::Link(_, _) | Kind::Receiver(_) => 500..2000,
            Kind::RedisFrozen => 300..2500,
            Kind::Clock(Clocks::OneDrifts | Clocks::AllDrift) => 1000..3000,
            Kind::Clock(_) => 0..1,
            Kind::MemoryFull | Kind::DiskFull | Kind::MemoryLowered => 500..2000,
            Kind::WritesRefused => 200..1500,
            Kind::ChannelsTaken => 500..2000,
            Kind::ConnectionsFull | Kind::DescriptorsGone => 500..2000,
            Kind::Hog(_) => 1000..3000,
            Kind::PrimaryFrozen => 100..1500,
            Kind::WorkerForgets | Kind::ScriptFlush | Kind::Failover | Kind::SlotsMoved => 0..1,
            Kind::Damaged | Kind::Purged | Kind::HeldPurged | Kind::Removed => 0..1,
            Kind::ConsumerKilled | Kind::ScriptBusy => 0..1,
        }
    }
}
