//! Selects dead letters.

use clap::{Args, builder::PossibleValuesParser};
use serde_json::{Value, json};

use crate::{filters::Range, usage::WrongUsage};
use client::paths::{Field, flag, object, text};

/// Options that filter dead letters.
#[derive(Debug, Clone, Default, Args)]
pub struct Filter {
    /// Only this ordering key; "" means no key
    #[arg(long)]
    key: Option<String>,
    /// Only dead letters of this stage
    #[arg(long, value_parser = PossibleValuesParser::new(["transform", "delivery"]))]
    stage: Option<String>,
    #[command(flatten)]
    range: Range,
    /// Only dead letters with this text in the reason or in one of the errors
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

impl Filter {
    /// The fields of this filter in a request.
    pub fn fields(&self) -> Vec<Field> {
        let mut fields = vec![
            ("key", text(self.key.as_deref())),
            ("stage", text(self.stage.as_deref())),
            ("error", text(self.error.as_deref())),
        ];
        fields.extend(self.range.fields());
        fields
    }
}

/// A selection: sequences, all dead letters, or a filter.
#[derive(Debug, Clone, Default, Args)]
pub struct Selection {
    /// Sequences of the dead letters
    #[arg(value_name = "SEQUENCE")]
    sequences: Vec<u64>,
    /// All dead letters of the destination
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: Filter,
}

impl Selection {
    /// The body of the request with this selection.
    pub fn request(&self, dry_run: bool) -> anyhow::Result<Value> {
        let filter = object(&self.filter.fields());
        let is_filtered = filter.as_object().is_some_and(|filter| !filter.is_empty());
        let ways = [!self.sequences.is_empty(), self.all, is_filtered];
        if ways.iter().filter(|way| **way).count() != 1 {
            let problem = "select dead letters in one way: name sequences, or give --all, or give \
                           some of --key, --stage, --error, --from-sequence, --to-sequence, \
                           --from-time and --to-time";
            return Err(WrongUsage(problem.to_owned()).into());
        }
        Ok(object(&[
            ("sequences", (!self.sequences.is_empty()).then(|| json!(self.sequences))),
            ("all", flag(self.all)),
            ("filter", is_filtered.then_some(filter)),
            ("dry_run", flag(dry_run)),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_letters_are_selected_in_exactly_one_way() {
        let named = Selection { sequences: vec![3, 4], ..Selection::default() };
        assert_eq!(named.request(false).unwrap(), json!({"sequences": [3, 4]}));
        let all = Selection { all: true, ..Selection::default() };
        assert_eq!(all.request(true).unwrap(), json!({"all": true, "dry_run": true}));
        let range = Range { from_sequence: Some(7), ..Range::default() };
        let filter = Filter { key: Some(String::new()), range, ..Filter::default() };
        let filtered = Selection { filter: filter.clone(), ..Selection::default() };
        let request = json!({"filter": {"key": "", "from_sequence": 7}});
        assert_eq!(filtered.request(false).unwrap(), request);
        for wrong in [Selection::default(), Selection { all: true, filter, ..Selection::default() }]
        {
            assert!(wrong.request(false).unwrap_err().is::<WrongUsage>());
        }
    }
}
