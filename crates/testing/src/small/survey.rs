//! Visits all states of a small world, only on the model, and counts the paths from each to an end.

use std::collections::HashMap;

use crate::{
    small::Counts,
    small::node::{Action, Node, World},
};

#[derive(Debug, Default)]
pub struct Survey {
    pub states: u64,
    pub transitions: u64,
    /// Paths from the beginning to an end.
    pub paths: u128,
    pub counts: Counts,
    /// Paths from each state, by its digest.
    ways: HashMap<u64, u128>,
}

impl Survey {
    pub fn ways_from(&self, node: &Node) -> u128 {
        self.ways.get(&node.digest()).copied().unwrap_or(0)
    }
}

/// Visits every state once.
pub fn survey(world: &World) -> Result<Survey, String> {
    let mut survey = Survey::default();
    let (first, _) = Node::first(world);
    let mut path = Vec::new();
    survey.paths = visit(world, &first, &mut survey, &mut path)
        .map_err(|broken| format!("{broken}\nafter\n{}", shown(&path)))?;
    Ok(survey)
}

pub fn shown(path: &[Action]) -> String {
    path.iter().map(|action| format!("{action:?}\n")).collect()
}

fn visit(
    world: &World,
    node: &Node,
    survey: &mut Survey,
    path: &mut Vec<Action>,
) -> Result<u128, String> {
    let digest = node.digest();
    match survey.ways.get(&digest) {
        Some(0) => return Err("it goes round in circles".to_owned()),
        Some(ways) => return Ok(*ways),
        None => {}
    }
    survey.ways.insert(digest, 0);
    survey.states += 1;
    let actions = node.actions(world);
    if actions.is_empty()
        && let Some(unsettled) = node.unsettled()
    {
        return Err(unsettled);
    }
    let mut ways = u128::from(actions.is_empty());
    for action in actions {
        path.push(action);
        let action = &path[path.len() - 1];
        let mut next = node.clone();
        let (_, came_up) = next.happen(world, action)?;
        for what in came_up {
            *survey.counts.entry(what).or_default() += 1;
        }
        survey.transitions += 1;
        ways = ways.saturating_add(visit(world, &next, survey, path)?);
        path.pop();
    }
    survey.ways.insert(digest, ways);
    Ok(ways)
}
