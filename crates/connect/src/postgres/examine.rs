//! The command `check`: whether Postgres has all that the source needs.

use super::{Postgres, Settings};
use crate::source::{Fault, Finding};

/// The subject of a check, the query that must return true, and advice if it does not.
type Question = [String; 3];

/// Quotes a text for SQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Postgres {
    /// Makes a check. Returns the fault if the answer is not true.
    async fn ask(&mut self, [_, sql, advice]: &Question) -> Option<Fault> {
        match self.query(sql).await {
            Ok(rows) => match rows.first().and_then(|row| row.first()?.as_deref()) {
                Some("t") => None,
                _ => Some(Fault::Halted(advice.clone())),
            },
            Err(fault) => Some(fault),
        }
    }

    /// The reason why the slot does not get the wanted rows, if so. Without this check, the table would seem to have no
    /// rows.
    pub(super) async fn publication_problem(&mut self) -> Result<Option<String>, Fault> {
        for question in questions_of_publication(&self.settings) {
            match self.ask(&question).await {
                None => {}
                Some(Fault::Halted(advice)) => {
                    return Ok(Some(format!("{}: {advice}", question[0])));
                }
                Some(fault) => return Err(fault),
            }
        }
        Ok(None)
    }

    pub(super) async fn examine(&mut self) -> Vec<Finding> {
        let what = format!("Postgres at {}:{}", self.target.host, self.target.port);
        if let Err(problem) = self.query("SELECT 1").await {
            return vec![(what, Some(problem))];
        }
        let mut found = vec![(what, None)];
        let of_server = [
            [
                "wal_level",
                "SELECT current_setting('wal_level') = 'logical'",
                "set wal_level = logical, and restart Postgres",
            ],
            [
                "the primary",
                "SELECT NOT pg_is_in_recovery()",
                "this server is a standby: name the primary",
            ],
            [
                "right of replication",
                "SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user",
                "the user may not replicate: ALTER ROLE … REPLICATION",
            ],
        ];
        let questions = of_server.map(|question| question.map(str::to_owned)).into_iter();
        for question in questions.chain(questions_of_publication(&self.settings)) {
            let problem = self.ask(&question).await;
            let [what, ..] = question;
            found.push((what, problem));
        }
        found.push((format!("slot {}", self.settings.slot), self.slot_problem().await));
        found
    }

    async fn slot_problem(&mut self) -> Option<Fault> {
        match self.slot().await {
            Err(fault) => Some(fault),
            Ok(Some(_)) => None,
            Ok(None) if !self.settings.create_slot => {
                Some(Fault::Halted("it does not exist, and create_slot is false".to_owned()))
            }
            Ok(None) => {
                let free = "SELECT count(*) < current_setting('max_replication_slots')::int \
                            FROM pg_replication_slots";
                let advice = "there is no room for it: raise max_replication_slots";
                self.ask(&["", free, advice].map(str::to_owned)).await
            }
        }
    }
}

fn questions_of_publication(settings: &Settings) -> Vec<Question> {
    let Settings { publication, table, columns, .. } = settings;
    let name = quoted(publication);
    let target = table.as_deref().map_or_else(String::new, |table| format!(" FOR TABLE {table}"));
    let mut questions = vec![[
        format!("publication {publication}"),
        format!("SELECT pubinsert FROM pg_publication WHERE pubname = {name}"),
        format!(
            "it does not exist, or has no inserts: CREATE PUBLICATION {publication}{target} WITH (publish = 'insert')"
        ),
    ]];
    let Some(table) = table else { return questions };
    let (schema, relation) = table.split_once('.').unwrap_or_default();
    let (schema, relation) = (quoted(schema), quoted(relation));
    questions.push([
        format!("table {table} in it"),
        format!(
            "SELECT true FROM pg_publication_tables WHERE pubname = {name} \
             AND schemaname = {schema} AND tablename = {relation}"
        ),
        format!(
            "it is not: ALTER PUBLICATION {publication} ADD TABLE {table}, and if it is partitioned SET \
             (publish_via_partition_root = true). Rows that it got meanwhile are not sent: insert them again"
        ),
    ]);
    questions.extend(columns.names().into_iter().map(|column| {
        let sql = format!(
            "SELECT true FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid \
             JOIN pg_namespace ON relnamespace = pg_namespace.oid WHERE nspname = {schema} \
             AND relname = {relation} AND attname = {} AND attnum > 0 AND NOT attisdropped",
            quoted(column)
        );
        [format!("column {column}"), sql, "the table has no such column".to_owned()]
    }));
    questions
}
