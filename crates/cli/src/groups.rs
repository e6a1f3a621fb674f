//! The help of the program: its commands in groups.

use std::fmt::Write as _;

use clap::Command;

/// The commands in groups, each group for one purpose.
const GROUPS: [(&str, &[&str]); 5] = [
    ("See what happens", &["status", "top", "why", "doctor", "pods", "log", "tail", "verify"]),
    ("Send messages", &["send", "replay"]),
    (
        "Manage",
        &[
            "destinations",
            "topics",
            "lanes",
            "sources",
            "messages",
            "dead-letters",
            "operations",
            "repair",
            "tokens",
            "audit",
            "export",
            "import",
        ],
    ),
    ("Run the service", &["serve", "check", "migrate", "reload", "health"]),
    ("Set up this command line", &["context", "completions", "man", "demo"]),
];
/// The width of the names of commands.
const NAME_WIDTH: usize = 15;

/// The program, with a help that shows its commands in groups.
pub fn grouped(command: Command) -> Command {
    let header = *command.get_styles().get_header();
    let name_style = *command.get_styles().get_literal();
    let mut text = String::new();
    for (heading, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{header}{heading}:{header:#}");
        for found in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let aliases: Vec<&str> = found.get_visible_aliases().collect();
            let about = found.get_about().map(ToString::to_string).unwrap_or_default();
            let also = match aliases.is_empty() {
                true => String::new(),
                false => format!(" [alias: {}]", aliases.join(", ")),
            };
            let name = format!("{:<NAME_WIDTH$}", found.get_name());
            let _ = writeln!(text, "  {name_style}{name}{name_style:#}{about}{also}");
        }
        text.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}{header}Options:{header:#}\n\
         {{options}}{{after-help}}"
    ))
}
