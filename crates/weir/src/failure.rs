//! How a command ends: with an exit code, and for failures with a message and a remedy.

use std::process::ExitCode;

use weir_document::Problem;

use crate::cmd::hint::with_database;
use crate::cmd::output::note;

/// The result of a command that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// A good result. Exit code 0.
    Good,
    /// A bad result: a missed objective, a failed cell, or a worse metric. Exit code 1.
    BadResult,
    /// An undecided result: too few valid repeats. Exit code 4.
    Undecided,
    /// Interrupted by Ctrl-C; finished cells are stored. Exit code 130.
    Interrupted,
}

impl Exit {
    /// Returns the worse of two results.
    pub fn and(self, other: Self) -> Self {
        let badness = |exit: &Self| match exit {
            Self::Good => 0,
            Self::Undecided => 1,
            Self::BadResult => 2,
            Self::Interrupted => 3,
        };
        if badness(&self) >= badness(&other) { self } else { other }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Good => ExitCode::SUCCESS,
            Exit::BadResult => ExitCode::from(1),
            Exit::Undecided => ExitCode::from(4),
            Exit::Interrupted => ExitCode::from(130),
        }
    }
}

/// Who has to act on a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Wrong use: arguments, a scenario, a configuration. Exit code 2.
    Use,
    /// The environment: a binary is missing, a port is in use, a disk is full. Exit code 3.
    Environment,
}

/// A failure of a command.
#[derive(Debug)]
pub struct Failure {
    /// Who has to act. This decides the exit code.
    pub blame: Blame,
    /// The message and the remedy. The message contains the location: file and line, argument or address.
    pub problem: Problem<()>,
    /// Further errors in the same input.
    pub more: Vec<Failure>,
}

impl Failure {
    /// A failure that the user caused: wrong arguments, an invalid scenario or an invalid configuration.
    pub fn wrong_use(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Blame::Use, message, remedy)
    }

    /// A failure that the environment caused.
    pub fn environment(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Blame::Environment, message, remedy)
    }

    fn new(blame: Blame, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { blame, problem: Problem::new(message, remedy), more: Vec::new() }
    }

    /// Combines one or more failures into one. The result has `Blame::Use` if one of the failures has it.
    pub fn of_all(failures: Vec<Failure>) -> Self {
        let is_wrong_use = failures.iter().any(|failure| failure.blame == Blame::Use);
        let mut all = failures.into_iter();
        let mut first = all.next().unwrap_or_else(|| Self::wrong_use("", ""));
        first.more = all.collect();
        if is_wrong_use {
            first.blame = Blame::Use;
        }
        first
    }

    /// Prints all messages to standard error, and returns the exit code.
    pub fn report(&self) -> ExitCode {
        self.print();
        self.more.iter().for_each(Self::print);
        if !self.more.is_empty() {
            note(format_args!("{} errors", self.more.len() + 1));
        }
        match self.blame {
            Blame::Use => ExitCode::from(2),
            Blame::Environment => ExitCode::from(3),
        }
    }

    fn print(&self) {
        note(format_args!("error: {}", self.problem.message));
        if !self.problem.remedy.is_empty() {
            note(format_args!(" help: {}", with_database(&self.problem.remedy)));
        }
    }
}
