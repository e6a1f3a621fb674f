//! Converts the OpenAPI document to version 3.0, for generators that do not support 3.1. Changes only what 3.1 writes
//! differently: types with `null`, `const`, exclusive limits, examples of schemas, tuples.

use serde_json::{Map, Value, json};

/// Converts the document from version 3.1 to 3.0.
pub(super) fn of(mut document: Value) -> Value {
    change(&mut document);
    document["openapi"] = json!("3.0.3");
    document
}

/// Converts this part of the document, and all parts inside it.
fn change(part: &mut Value) {
    match part {
        Value::Object(fields) => {
            for (name, inner) in fields.iter_mut() {
                match (name.as_str(), inner) {
                    // These are values of the API, not parts of the document.
                    ("example" | "default" | "enum" | "const", _) => {}
                    // These are names of fields; a name may look like a keyword.
                    ("properties", Value::Object(fields)) => fields.values_mut().for_each(change),
                    (_, inner) => change(inner),
                }
            }
            change_schema(fields);
        }
        Value::Array(items) => items.iter_mut().for_each(change),
        _ => {}
    }
}

fn change_schema(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get("type").cloned() {
        let (null, mut others): (Vec<_>, Vec<_>) = types.into_iter().partition(|one| one == "null");
        schema.remove("type");
        match others.len() {
            1 => schema.insert("type".into(), others.remove(0)),
            _ => schema.insert(
                "anyOf".into(),
                others.into_iter().map(|one| json!({"type": one})).collect(),
            ),
        };
        if !null.is_empty() {
            schema.insert("nullable".into(), json!(true));
        }
    }
    for name in ["oneOf", "anyOf"] {
        without_null(schema, name);
    }
    if let Some(value) = schema.remove("const") {
        schema.insert("enum".into(), json!([value]));
    }
    for (limit, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if let Some(number) = schema.get(exclusive).filter(|value| value.is_number()).cloned() {
            schema.insert(limit.into(), number);
            schema.insert(exclusive.into(), json!(true));
        }
    }
    if let Some(Value::Array(examples)) = schema.get("examples").cloned() {
        schema.remove("examples");
        schema.extend(examples.into_iter().next().map(|first| ("example".to_owned(), first)));
    }
    if schema.remove("prefixItems").is_some() {
        schema.insert("items".into(), json!({}));
    }
    schema.remove("propertyNames");
}

/// Replaces the alternative `null` among several schemas by `nullable`.
fn without_null(schema: &mut Map<String, Value>, name: &str) {
    let Some(Value::Array(all)) = schema.get_mut(name) else { return };
    let before = all.len();
    all.retain(|one| one != &json!({"type": "null"}));
    if all.len() == before {
        return;
    }
    // A reference may have no siblings, so it goes into `allOf`.
    if all.len() == 1 {
        let only = Value::Array(std::mem::take(all));
        schema.remove(name);
        schema.insert("allOf".into(), only);
    }
    schema.insert("nullable".into(), json!(true));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(mut schema: Value) -> Value {
        change(&mut schema);
        schema
    }

    #[test]
    fn what_may_be_null_is_nullable() {
        assert_eq!(
            changed(json!({"type": ["string", "null"]})),
            json!({"type": "string", "nullable": true})
        );
        let reference = json!({"$ref": "#/components/schemas/Head"});
        assert_eq!(
            changed(json!({"oneOf": [{"type": "null"}, reference]})),
            json!({"allOf": [reference], "nullable": true})
        );
        assert_eq!(
            changed(json!({"anyOf": [{"type": "null"}, {"type": ["integer", "string"]}]})),
            json!({"allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}], "nullable": true})
        );
    }

    #[test]
    fn other_keywords_of_3_1_become_those_of_3_0() {
        assert_eq!(
            changed(json!({"const": "a", "exclusiveMinimum": 0, "examples": [1, 2]})),
            json!({"enum": ["a"], "minimum": 0, "exclusiveMinimum": true, "example": 1})
        );
        assert_eq!(
            changed(json!({"type": "array", "prefixItems": [{"type": "string"}]})),
            json!({"type": "array", "items": {}})
        );
    }

    #[test]
    fn names_of_fields_and_values_stay() {
        let schema = json!({
            "properties": {"const": {"type": "string"}, "examples": {"type": "array", "items": {}}},
            "example": {"type": ["a", "null"]},
        });
        assert_eq!(changed(schema.clone()), schema);
    }
}
