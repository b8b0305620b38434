//! The reference page about the commands and flags of a program.

use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command};

use crate::markdown::{one_line, page, prose, sentences, slug, table};

/// Returns the page for `command` and its visible subcommands. It contains usage, arguments, and the text after the
/// help.
pub fn commands(title: &str, introduction: &str, mut command: Command) -> String {
    command.build();
    let mut body = String::new();
    append(&mut body, &command, command.get_name());
    page(title, introduction, body.trim_start())
}

fn append(text: &mut String, command: &Command, name: &str) {
    *text += &format!("\n## `{name}`\n");
    let about = command.get_long_about().or(command.get_about());
    *text += &format!("{}\n\n", about.map(|about| paragraphs(&about.to_string())).unwrap_or_default());
    let usage = command.clone().render_usage().to_string();
    let usage: Vec<&str> = usage.trim_start_matches("Usage: ").lines().map(str::trim_start).collect();
    *text += &format!("```text\n{}\n```\n", usage.join("\n"));
    append_arguments(text, command);
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        *text += &format!("\n```text\n{}\n```\n", after.to_string().trim_end());
    }
    let subcommands: Vec<Vec<String>> = visible(command).map(|command| summary(command, name)).collect();
    if !subcommands.is_empty() {
        *text += &format!("\n{}", table(&["command", "meaning"], subcommands));
    }
    for subcommand in visible(command) {
        append(text, subcommand, &format!("{name} {}", subcommand.get_name()));
    }
}

/// A table row for a subcommand: a link to its section, and what the subcommand does.
fn summary(command: &Command, parent: &str) -> Vec<String> {
    let name = format!("{parent} {}", command.get_name());
    let about = command.get_about().map(|about| prose(&about.to_string())).unwrap_or_default();
    vec![format!("[`{name}`](#{})", slug(&name)), about]
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

/// Appends one table for each heading of the help. Positional arguments come first.
fn append_arguments(text: &mut String, command: &Command) {
    let is_own = |argument: &&Arg| {
        let is_of_clap = matches!(
            argument.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        );
        // Hidden positional arguments are also listed, because the help shows them only in the usage line.
        (!argument.is_hide_set() || argument.is_positional()) && !is_of_clap
    };
    let arguments: Vec<&Arg> = command.get_arguments().filter(is_own).collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for argument in &arguments {
        if !headings.contains(&argument.get_help_heading()) {
            headings.push(argument.get_help_heading());
        }
    }
    for heading in headings {
        let of_heading = arguments.iter().filter(|argument| argument.get_help_heading() == heading);
        let (positional, flags): (Vec<&Arg>, Vec<&Arg>) =
            of_heading.partition(|argument| argument.is_positional());
        let rows = positional.into_iter().chain(flags).map(row);
        *text += &heading.map_or("\n".to_owned(), |heading| format!("\n**{heading}**\n\n"));
        *text += &table(&["argument", "default", "meaning"], rows);
    }
}

fn row(argument: &Arg) -> Vec<String> {
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.map(|help| paragraphs(&help.to_string())).unwrap_or_default();
    let help = help.split("\n\n").fold(String::new(), |before, next| sentences(&before, next));
    // If a default depends on something else, the help text contains it as `[default: ..]`. Move it to the column for
    // defaults.
    let (help, default) =
        match help.split_once(" [default: ").map(|(help, rest)| (help, rest.split_once(']'))) {
            Some((before, Some((default, after)))) => (format!("{before}{after}"), default.to_owned()),
            _ => (help, default_of(argument)),
        };
    vec![name(argument), default, meaning(argument, help)]
}

/// The flags of an argument and the name of its value, like `-o, --out FILE`.
fn name(argument: &Arg) -> String {
    let values = argument.get_action().takes_values().then(|| {
        let names = argument.get_value_names().unwrap_or_default();
        names.iter().map(|name| name.to_string()).collect::<Vec<_>>().join(" ")
    });
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    let words: Vec<String> =
        [flags.join(", ")].into_iter().chain(values).filter(|word| !word.is_empty()).collect();
    format!("`{}`", words.join(" "))
}

fn default_of(argument: &Arg) -> String {
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    match argument.is_required_set() {
        true => "required".to_owned(),
        false if defaults.is_empty() || !argument.get_action().takes_values() => String::new(),
        false => format!("`{}`", defaults.join(" ")),
    }
}

/// The help of an argument, followed by its possible values.
fn meaning(argument: &Arg, help: String) -> String {
    let mut meaning = help;
    if argument.get_action().takes_values() && !argument.is_hide_possible_values_set() {
        let values = argument.get_possible_values();
        let values: Vec<String> = values.iter().filter(|value| !value.is_hide_set()).map(value).collect();
        if !values.is_empty() {
            meaning = sentences(&meaning, &format!("Values: {}", values.join("; ")));
        }
    }
    if matches!(argument.get_action(), ArgAction::Append | ArgAction::Count) && !meaning.contains("repeat") {
        meaning = sentences(&meaning, "Can be repeated");
    }
    meaning
}

fn value(value: &PossibleValue) -> String {
    let help = value.get_help().map(|help| format!(": {}", prose(&one_line(&help.to_string()))));
    format!("`{}`{}", value.get_name(), help.unwrap_or_default())
}

/// Converts a help text to Markdown. Each paragraph is on one line.
fn paragraphs(text: &str) -> String {
    text.trim().split("\n\n").map(|paragraph| prose(&one_line(paragraph))).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use clap::value_parser;

    use super::*;

    fn program() -> Command {
        let format = ["csv", "json"].map(PossibleValue::new);
        Command::new("weir")
            .about("Tests")
            .version("1")
            .subcommand(Command::new("guard").hide(true))
            .subcommand(
                Command::new("export")
                    .about("Export a run")
                    .after_long_help("Exit codes:\n  0  done")
                    .arg(Arg::new("run").value_name("RUN").required(true).help("Id of <a> run"))
                    .arg(
                        Arg::new("out")
                            .short('o')
                            .long("out")
                            .value_name("FILE")
                            .long_help("File\n\nElse standard\noutput. [default: -]"),
                    )
                    .arg(
                        Arg::new("format")
                            .long("format")
                            .value_name("FORMAT")
                            .default_value("csv")
                            .value_parser([format[0].clone().help("A table"), format[1].clone()])
                            .help("Format"),
                    )
                    .arg(
                        Arg::new("cell")
                            .long("cell")
                            .value_name("N")
                            .action(ArgAction::Append)
                            .value_parser(value_parser!(u32))
                            .help_heading("Parts")
                            .help("Cell"),
                    )
                    .arg(Arg::new("force").long("force").action(ArgAction::SetTrue).help("Overwrite"))
                    .arg(Arg::new("secret").long("secret").hide(true)),
            )
    }

    #[test]
    fn a_page_has_every_visible_command_and_argument() {
        let page = commands("Commands", "Look up a flag.", program());
        assert_eq!(
            page,
            "# Commands\nLook up a flag.\n\n\
             ## `weir`\nTests\n\n```text\nweir [COMMAND]\n```\n\n\
             | command | meaning |\n|---|---|\n| [`weir export`](#weir-export) | Export a run |\n\n\
             ## `weir export`\nExport a run\n\n```text\nweir export [OPTIONS] <RUN>\n```\n\n\
             | argument | default | meaning |\n|---|---|---|\n\
             | `RUN` | required | Id of &lt;a> run |\n\
             | `-o, --out FILE` | - | File. Else standard output. |\n\
             | `--format FORMAT` | `csv` | Format. Values: `csv`: A table; `json` |\n\
             | `--force` |  | Overwrite |\n\
             \n**Parts**\n\n\
             | argument | default | meaning |\n|---|---|---|\n\
             | `--cell N` |  | Cell. Can be repeated |\n\
             \n```text\nExit codes:\n  0  done\n```\n"
        );
    }
}
