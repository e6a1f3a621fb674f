//! A Redis Cluster: which primary serves which slot. A `MOVED` answer corrects one slot. The client reads
//! all slots again once a second, when a slot has no known primary, and while a slot is being migrated.
//!
//! Does not use the cluster connection of redis-rs: while that connection refreshes the slots, all calls wait, and
//! the refresh waits for every node. A dead primary makes it refresh constantly.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use parking_lot::{Mutex, RwLock};
use redis::Value;
use tokio::time::Instant;

use super::{
    dial::Dialer,
    error::{ClientError, is_broken},
    node::{Node, NodeAddress},
};
use config::{Access, Host};

/// The most nodes that one query of the slots asks.
const ASKED_MAX: usize = 16;
/// Once one node has answered, wait at most this long for the others.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// The shortest time between two queries of the slots.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// The known nodes and slots of a cluster.
pub(super) struct Cluster {
    access: Access,
    dialer: Dialer,
    connections: usize,
    patience: Duration,
    /// The nodes that the URL names. Each query asks them first.
    seeds: Vec<Host>,
    nodes: Mutex<HashMap<Host, Arc<Node>>>,
    slots: RwLock<Slots>,
    /// When the slots were last queried. The lock is held during the query.
    asked: tokio::sync::Mutex<Option<Instant>>,
}

/// Ranges of slots, in order, each with its primary.
#[derive(Default, Clone, PartialEq, Eq)]
struct Slots(Vec<(u16, u16, Host)>);

impl Cluster {
    pub(super) fn new(
        seeds: &[Host],
        access: &Access,
        dialer: &Dialer,
        connections: usize,
        patience: Duration,
    ) -> Cluster {
        Cluster {
            access: access.clone(),
            dialer: dialer.clone(),
            connections,
            patience,
            seeds: seeds.to_vec(),
            nodes: Mutex::default(),
            slots: RwLock::default(),
            asked: tokio::sync::Mutex::default(),
        }
    }

    /// The node at this address. Adds it if it is new.
    pub(super) fn node(&self, host: &Host) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        let fresh = || {
            let info = Box::new(self.dialer.info_of(host, &self.access));
            let address = NodeAddress::Fixed(info);
            Node::new(address, self.dialer.clone(), self.connections, self.patience)
        };
        nodes.entry(host.clone()).or_insert_with(fresh).clone()
    }

    /// The nodes known now.
    pub(super) fn hosts(&self) -> Vec<Host> {
        self.nodes.lock().keys().cloned().collect()
    }

    /// The primary that serves a slot, if one is known.
    pub(super) fn of_slot(&self, slot: u16) -> Option<Arc<Node>> {
        let slots = self.slots.read();
        let host = slots.of(slot)?.clone();
        drop(slots);
        Some(self.node(&host))
    }

    /// All primaries.
    pub(super) fn primaries(&self) -> Vec<Arc<Node>> {
        let slots = self.slots.read().clone();
        slots.hosts().into_iter().map(|host| self.node(host)).collect()
    }

    /// Records a `MOVED` answer: this host now serves this slot.
    pub(super) fn moved(&self, slot: u16, host: &Host) {
        let mut slots = self.slots.write();
        slots.set(slot, host);
    }

    /// Asks which primary serves which slot. Concurrent callers share one query.
    pub(super) async fn ask(&self) -> Result<(), ClientError> {
        let wanted = Instant::now();
        let mut asked = self.asked.lock().await;
        if asked.is_some_and(|last| last > wanted || last.elapsed() < ASK_EVERY) {
            return Ok(());
        }
        let newest = self.newest().await;
        *asked = Some(Instant::now());
        let slots = newest?;
        let mut hosts: Vec<Host> = slots.hosts().into_iter().cloned().collect();
        hosts.extend(self.seeds.iter().cloned());
        let mut kept = self.slots.write();
        kept.log_changes(&slots);
        *kept = slots;
        drop(kept);
        let mut nodes = self.nodes.lock();
        // Forget nodes that left the cluster, with their connections.
        nodes.retain(|host, _| hosts.contains(host));
        Ok(())
    }

    /// Returns the view of the most up-to-date node. Nodes that are cut off from the others report outdated views.
    async fn newest(&self) -> Result<Slots, ClientError> {
        let mut hosts = self.seeds.clone();
        let known = self.nodes.lock().clone();
        hosts.extend(known.into_keys().filter(|host| !self.seeds.contains(host)));
        let mut asked: FuturesUnordered<_> =
            hosts.iter().take(ASKED_MAX).map(|host| self.view_of(host)).collect();
        let mut newest: Option<((bool, u64), Slots)> = None;
        let mut problem = ClientError::Unavailable("the cluster has no nodes".into());
        let mut limit = self.patience;
        let begun = Instant::now();
        while let Ok(Some(view)) = tokio::time::timeout_at(begun + limit, asked.next()).await {
            match view {
                Ok((rank, slots)) => {
                    limit = ANSWER_MAX.min(self.patience);
                    if newest.as_ref().is_none_or(|(other, _)| rank > *other) {
                        newest = Some((rank, slots));
                    }
                }
                Err(error) => problem = error,
            }
        }
        newest.map(|(_, slots)| slots).ok_or(problem)
    }

    /// A node's view: whether the node considers the cluster healthy, the epoch, and the slots.
    async fn view_of(&self, host: &Host) -> Result<((bool, u64), Slots), ClientError> {
        let node = self.node(host);
        let mut link = node.take().await?;
        let mut pipe = redis::pipe();
        pipe.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
        let (info, slots): (String, Vec<Vec<Value>>) =
            match pipe.query_async(&mut link.connection).await {
                Ok(found) => found,
                Err(error) => {
                    if is_broken(&error) {
                        node.discard(&link, &error);
                    }
                    return Err(error.into());
                }
            };
        let field = |name: &str| {
            let mut fields = info.lines().filter_map(|line| line.trim().split_once(':'));
            fields.find(|(found, _)| *found == name).map_or("", |(_, value)| value)
        };
        let epoch = field("cluster_current_epoch").parse().unwrap_or(0);
        Ok(((field("cluster_state") == "ok", epoch), Slots::read(slots, host)?))
    }
}

impl Slots {
    /// Parses the answer of `CLUSTER SLOTS` from the node at `asked`.
    fn read(ranges: Vec<Vec<Value>>, asked: &Host) -> Result<Slots, ClientError> {
        let mut slots = Vec::with_capacity(ranges.len());
        for range in ranges {
            let mut parts = range.into_iter();
            let mut next = || parts.next().ok_or_else(unreadable);
            let (first, last, primary) = (next()?, next()?, next()?);
            let number = |value| redis::from_redis_value::<u16>(value).map_err(|_| unreadable());
            let primary: Vec<Value> = redis::from_redis_value(primary).map_err(|_| unreadable())?;
            let mut primary = primary.into_iter();
            let host = primary.next().and_then(|name| redis::from_redis_value::<String>(name).ok());
            let port = primary.next().ok_or_else(unreadable)?;
            // If a node does not know its own name, use the address of the query.
            let host = host.filter(|name| !name.is_empty() && name != "?");
            let host = (host.unwrap_or_else(|| asked.0.clone()), number(port)?);
            slots.push((number(first)?, number(last)?, host));
        }
        slots.sort_unstable();
        Ok(Slots(slots))
    }

    fn of(&self, slot: u16) -> Option<&Host> {
        let at = self.0.partition_point(|(_, last, _)| *last < slot);
        self.0.get(at).filter(|(first, _, _)| *first <= slot).map(|(_, _, host)| host)
    }

    /// The primaries.
    fn hosts(&self) -> BTreeSet<&Host> {
        self.0.iter().map(|(_, _, host)| host).collect()
    }

    /// Logs which primaries are new in `now`, and which are gone.
    fn log_changes(&self, now: &Slots) {
        let (before, now) = (self.hosts(), now.hosts());
        if before.is_empty() || before == now {
            return;
        }
        let named = |some: Vec<&&Host>| {
            let names = some.into_iter().map(|(host, port)| format!("{host}:{port}"));
            names.collect::<Vec<_>>().join(" ")
        };
        let gone = named(before.difference(&now).collect());
        let new = named(now.difference(&before).collect());
        tracing::warn!(gone, new, "other servers are primaries of the cluster");
    }

    /// Assigns one slot to another host.
    fn set(&mut self, slot: u16, host: &Host) {
        let mut changed = Vec::with_capacity(self.0.len() + 2);
        for (first, last, owner) in std::mem::take(&mut self.0) {
            if !(first..=last).contains(&slot) {
                changed.push((first, last, owner));
                continue;
            }
            if first < slot {
                changed.push((first, slot - 1, owner.clone()));
            }
            if slot < last {
                changed.push((slot + 1, last, owner));
            }
        }
        changed.push((slot, slot, host.clone()));
        changed.sort_unstable();
        self.0 = changed;
    }
}

fn unreadable() -> ClientError {
    ClientError::Unreadable(
        "the cluster describes its slots in another shape than documented".into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(port: u16) -> Host {
        ("h".to_owned(), port)
    }

    #[test]
    fn moved_slot_is_found_at_its_new_place_and_others_stay() {
        let mut slots = Slots(vec![(0, 99, host(1)), (200, 299, host(2))]);
        slots.set(50, &host(3));
        slots.set(150, &host(3));
        let found = [0, 49, 50, 51, 99, 100, 150, 199, 200, 299, 300]
            .map(|slot| slots.of(slot).map_or(0, |(_, port)| *port));
        assert_eq!(found, [1, 1, 3, 1, 1, 0, 3, 0, 2, 2, 0]);
    }

    #[test]
    fn a_node_without_a_name_is_where_it_was_asked() {
        let text = |text: &str| Value::BulkString(text.into());
        let range = |name: &str| {
            vec![Value::Int(0), Value::Int(9), Value::Array(vec![text(name), Value::Int(7)])]
        };
        let read = Slots::read(vec![range("")], &("asked".to_owned(), 1)).unwrap();
        assert_eq!(read.of(9), Some(&("asked".to_owned(), 7)));
        assert!(Slots::read(vec![vec![Value::Int(0)]], &host(1)).is_err());
    }
}
