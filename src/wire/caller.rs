//! Who makes a request, and what it may do.

use std::sync::Arc;

use super::{code::Code, problem::Problem};
use crate::domain::{DestinationName, Grant, Scope};

/// Who makes a request. The guard of the routes adds it to each request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// For the log: the id of its token, or why it needs none.
    pub who: Arc<str>,
    grant: Arc<Grant>,
}

impl Caller {
    /// A caller with this grant.
    pub fn new(who: &str, grant: Arc<Grant>) -> Caller {
        Caller { who: who.into(), grant }
    }

    /// What it may do.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// True if it may use all destinations.
    pub fn is_unlimited(&self) -> bool {
        self.grant.destinations.is_none()
    }

    /// True if it may use this destination.
    pub fn covers(&self, destination: &DestinationName) -> bool {
        self.grant.covers(destination)
    }

    /// Refuses a call that needs a scope that it does not have.
    pub fn check_scope(&self, scope: Scope) -> Result<(), Problem> {
        if self.grant.allows(scope) {
            return Ok(());
        }
        let held: Vec<&str> = self.grant.scopes.iter().map(|scope| scope.as_str()).collect();
        let held = held.join(", ");
        let detail =
            format!("this call needs a token with the scope {scope}; this one has: {held}");
        Err(Problem::new(Code::Forbidden, detail))
    }

    /// Refuses a call for a destination that its token does not list.
    pub fn check(&self, destination: &DestinationName) -> Result<(), Problem> {
        self.check_all(std::slice::from_ref(destination))
    }

    /// Refuses a call for destinations of which its token does not list all.
    pub fn check_all(&self, destinations: &[DestinationName]) -> Result<(), Problem> {
        match destinations.iter().find(|name| !self.covers(name)) {
            None => Ok(()),
            Some(name) => {
                let detail =
                    format!("this token does not list the destination {:?}", name.as_str());
                Err(Problem::new(Code::Forbidden, detail))
            }
        }
    }

    /// Refuses a call that concerns all destinations.
    pub fn check_unlimited(&self) -> Result<(), Problem> {
        if self.is_unlimited() {
            return Ok(());
        }
        let detail = "this call concerns all destinations, and this token is limited to some";
        Err(Problem::new(Code::Forbidden, detail))
    }
}
