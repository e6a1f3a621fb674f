//! The differences between two definitions of a destination, and the fields of one that differ from the defaults.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::Destination;

/// A field that differs between two definitions. Secrets are masked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = DefinitionChange)]
pub struct Change {
    /// The path of the field, such as `delivery.lanes_max`.
    pub field: String,
    /// The value before the change; null if there was none.
    pub before: Value,
    /// The value after the change; null if there is none.
    pub after: Value,
}

type Fields = BTreeMap<String, Value>;

impl Destination {
    /// The changes if `other` replaced this definition.
    pub fn changes_to(&self, other: &Destination) -> Vec<Change> {
        let (before, after) = (self.fields(), other.fields());
        let [shown_before, shown_after] = [self, other].map(|one| one.masked().fields());
        let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| before.get(*name) != after.get(*name));
        let shown = |of: &Fields, name: &String| of.get(name).cloned().unwrap_or_default();
        let change = |name: &String| Change {
            before: shown(&shown_before, name),
            after: shown(&shown_after, name),
            field: name.clone(),
        };
        names.into_iter().map(change).collect()
    }

    /// The fields that differ from their defaults, by path. A later version of Reseq, which has more fields, returns
    /// the same.
    pub fn set_fields(&self) -> BTreeMap<String, Value> {
        let default = Destination::new(self.name.clone(), "").fields();
        let mut fields = self.fields();
        fields.retain(|name, value| name == "name" || default.get(name) != Some(value));
        fields
    }

    fn fields(&self) -> Fields {
        let mut fields = Fields::new();
        add_fields(String::new(), serde_json::json!(self), &mut fields);
        fields
    }
}

fn add_fields(path: String, value: Value, fields: &mut Fields) {
    match value {
        Value::Object(inner) => {
            for (name, value) in inner {
                let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                add_fields(path, value, fields);
            }
        }
        value => drop(fields.insert(path, value)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::destination::{Secrets, Sign};

    #[test]
    fn changes_name_each_field_and_show_no_secret() {
        let mut before = Destination::new("erp".parse().unwrap(), "http://a/");
        before.headers.insert("authorization".into(), "one".into());
        let mut after = before.clone();
        assert_eq!(before.changes_to(&after), []);
        after.url = Some("http://b/".into());
        after.delivery.lanes_max = 7;
        after.headers.insert("authorization".into(), "two".into());
        after.sign = Some(Sign { secrets: Secrets::new(["three"]) });
        let lanes_max = before.delivery.lanes_max;
        let changes = before.changes_to(&after).into_iter();
        let changes: Vec<_> =
            changes.map(|Change { field, before, after }| json!([field, before, after])).collect();
        assert_eq!(
            json!(changes),
            json!([
                ["delivery.lanes_max", lanes_max, 7],
                ["headers.authorization", "***", "***"],
                ["sign.secrets", null, ["***"]],
                ["url", "http://a/", "http://b/"],
            ])
        );
        let set = Vec::from_iter(after.set_fields().into_keys());
        let expected = "delivery.lanes_max headers.authorization name sign.secrets url";
        assert_eq!(set.join(" "), expected);
    }
}
