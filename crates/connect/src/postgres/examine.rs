//! `check`: whether Postgres has all that the source needs.

use super::{Postgres, Settings};
use crate::source::{Fault, Finding};

/// What was checked, and why it is not as it must be.
type Found = (String, Option<Fault>);

/// A text in SQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Postgres {
    /// The first value of a query.
    async fn value(&mut self, sql: &str) -> Result<Option<String>, Fault> {
        let rows = self.query(sql).await?;
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten())
    }

    /// Adds a finding: the query must return this.
    async fn expect(&mut self, found: &mut Vec<Found>, what: String, sql: &str, advice: &str) {
        let problem = match self.value(sql).await {
            Ok(Some(value)) if value == "t" => None,
            Ok(_) => Some(Fault::Halted(advice.to_owned())),
            Err(problem) => Some(problem),
        };
        found.push((what, problem));
    }

    /// Why the slot does not get the rows that are wanted, if so. It would look like a table without rows.
    pub(super) async fn publication_problem(&mut self) -> Result<Option<String>, Fault> {
        let mut found = Vec::new();
        self.examine_publication(&mut found).await;
        match found.into_iter().find_map(|(what, fault)| Some((what, fault?))) {
            None => Ok(None),
            Some((what, Fault::Halted(advice))) => Ok(Some(format!("{what}: {advice}"))),
            Some((_, fault)) => Err(fault),
        }
    }

    pub(super) async fn examine(&mut self) -> Vec<Finding> {
        let mut found = Vec::new();
        let reached = self.value("SELECT version()").await;
        let what = format!("Postgres at {}:{}", self.target.host, self.target.port);
        if let Err(problem) = reached {
            return vec![(what, Some(problem.to_string()))];
        }
        found.push((what, None));
        let all: [(&str, &str, &str); 3] = [
            (
                "wal_level",
                "SELECT current_setting('wal_level') = 'logical'",
                "set wal_level = logical, and restart Postgres",
            ),
            (
                "the primary",
                "SELECT NOT pg_is_in_recovery()",
                "this server is a standby: name the primary",
            ),
            (
                "right of replication",
                "SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user",
                "the user may not replicate: ALTER ROLE … REPLICATION",
            ),
        ];
        for (what, sql, advice) in all {
            self.expect(&mut found, what.to_owned(), sql, advice).await;
        }
        self.examine_publication(&mut found).await;
        self.examine_slot(&mut found).await;
        found
            .into_iter()
            .map(|(what, fault)| (what, fault.map(|fault| fault.to_string())))
            .collect()
    }

    async fn examine_publication(&mut self, found: &mut Vec<Found>) {
        let Settings { publication, table, columns, .. } = self.settings.clone();
        let name = quoted(&publication);
        let target =
            table.as_deref().map_or_else(String::new, |table| format!(" FOR TABLE {table}"));
        self.expect(
            found,
            format!("publication {publication}"),
            &format!("SELECT pubinsert FROM pg_publication WHERE pubname = {name}"),
            &format!(
                "it does not exist, or has no inserts: CREATE PUBLICATION {publication}{target} WITH (publish = 'insert')"
            ),
        )
        .await;
        let Some(table) = table else { return };
        let (schema, relation) = table.split_once('.').unwrap_or_default();
        let (schema, relation) = (quoted(schema), quoted(relation));
        self.expect(
            found,
            format!("table {table} in it"),
            &format!(
                "SELECT true FROM pg_publication_tables WHERE pubname = {name} \
                 AND schemaname = {schema} AND tablename = {relation}"
            ),
            &format!(
                "it is not: ALTER PUBLICATION {publication} ADD TABLE {table}, and if it is partitioned SET \
                 (publish_via_partition_root = true). Rows that it got meanwhile are not sent: insert them again"
            ),
        )
        .await;
        for column in columns.names() {
            self.expect(
                found,
                format!("column {column}"),
                &format!(
                    "SELECT true FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid \
                     JOIN pg_namespace ON relnamespace = pg_namespace.oid WHERE nspname = {schema} \
                     AND relname = {relation} AND attname = {} AND attnum > 0 AND NOT attisdropped",
                    quoted(column)
                ),
                "the table has no such column",
            )
            .await;
        }
    }

    async fn examine_slot(&mut self, found: &mut Vec<Found>) {
        let what = format!("slot {}", self.settings.slot);
        let problem = match self.usable_slot().await {
            Err(fault) => Some(fault),
            Ok(Some(_)) => None,
            Ok(None) if !self.settings.create_slot => {
                Some(Fault::Halted("it does not exist, and create_slot is false".to_owned()))
            }
            Ok(None) => {
                let free = "SELECT count(*) < current_setting('max_replication_slots')::int \
                            FROM pg_replication_slots";
                let advice = "there is no room for it: raise max_replication_slots";
                return self.expect(found, what, free, advice).await;
            }
        };
        found.push((what, problem));
    }
}
