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
        self.first_problem(questions_of_publication(&self.settings)).await
    }

    /// Why rows that are inserted from now on cannot be sent, if so. Rows from before a column was renamed still can.
    pub(super) async fn column_problem(&mut self) -> Result<Option<String>, Fault> {
        self.first_problem(questions_of_columns(&self.settings)).await
    }

    async fn first_problem(&mut self, questions: Vec<Question>) -> Result<Option<String>, Fault> {
        for question in questions {
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

    pub(super) async fn examine(&mut self, mark: Option<&str>) -> Vec<Finding> {
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
        let questions = questions.chain(questions_of_publication(&self.settings));
        for question in questions.chain(questions_of_columns(&self.settings)) {
            let problem = self.ask(&question).await;
            let [what, ..] = question;
            found.push((what, problem));
        }
        found.push(self.slot_finding(mark).await);
        found
    }

    /// Whether the slot can be read after the mark, or without one can be begun.
    async fn slot_finding(&mut self, mark: Option<&str>) -> Finding {
        let what = format!("slot {}", self.settings.slot);
        if let Some(mark) = mark {
            return (what, self.start_after(mark).await.err());
        }
        let begins = self.slot().await.and_then(|slot| self.may_begin(slot.as_ref()));
        if let Err(fault) = begins {
            return (what, Some(fault));
        }
        // A process that has not asked for the slot may begin only if there is none.
        let free = "SELECT count(*) < current_setting('max_replication_slots')::int \
                    FROM pg_replication_slots";
        let advice = "there is no room for it: raise max_replication_slots";
        let problem = self.ask(&["", free, advice].map(str::to_owned)).await;
        (format!("{what}, which the first start creates"), problem)
    }
}

/// The schema and the name of the table, quoted for SQL.
fn quoted_table(table: &str) -> (String, String) {
    let (schema, name) = table.split_once('.').unwrap_or_default();
    (quoted(schema), quoted(name))
}

fn questions_of_publication(settings: &Settings) -> Vec<Question> {
    let Settings { publication, table, .. } = settings;
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
    let (schema, relation) = quoted_table(table);
    questions.push([
        format!("table {table}"),
        format!(
            "SELECT true FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid \
             WHERE nspname = {schema} AND relname = {relation}"
        ),
        "it does not exist: write its name as Postgres has it".to_owned(),
    ]);
    questions.push([
        format!("table {table} in publication {publication}"),
        format!(
            "SELECT true FROM pg_publication_tables WHERE pubname = {name} \
             AND schemaname = {schema} AND tablename = {relation}"
        ),
        format!(
            "it is not: ALTER PUBLICATION {publication} ADD TABLE {table}, and if it is partitioned SET \
             (publish_via_partition_root = true). Rows that it got meanwhile are not sent: insert them again"
        ),
    ]);
    questions
}

fn questions_of_columns(settings: &Settings) -> Vec<Question> {
    let Settings { table: Some(table), columns, .. } = settings else { return Vec::new() };
    let (schema, relation) = quoted_table(table);
    let question = |column: &String| {
        let sql = format!(
            "SELECT true FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid \
             JOIN pg_namespace ON relnamespace = pg_namespace.oid WHERE nspname = {schema} \
             AND relname = {relation} AND attname = {} AND attnum > 0 AND NOT attisdropped",
            quoted(column)
        );
        [format!("column {column}"), sql, "the table has no such column".to_owned()]
    };
    columns.names().into_iter().map(question).collect()
}
