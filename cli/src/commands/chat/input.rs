//! Lines of `hob chat`: messages and slash commands.

use crate::output::{Align, Table, wrapped};

/// A line at the keyboard.
#[derive(Debug, PartialEq, Eq)]
pub enum Input<'a> {
    Say(&'a str),
    Command(Command<'a>),
    Nothing,
    /// A mistyped command.
    Unknown(&'a str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    New,
    Retry,
    Continue,
    /// Empty: shows it.
    Model(&'a str),
    /// Empty: shows it.
    System(&'a str),
    Stats,
    /// Empty: shows those that are attached.
    File(&'a str),
    Save(&'a str),
    Summarise,
    /// How many messages it begins with; may be empty.
    Branch(&'a str),
    /// Empty: shows how full it is.
    Context(&'a str),
    Help,
    Quit,
}

/// What Tab completes.
pub const WORDS: [&str; 14] = [
    "/again",
    "/branch",
    "/context",
    "/continue",
    "/file",
    "/help",
    "/model",
    "/new",
    "/quit",
    "/retry",
    "/save",
    "/stats",
    "/summarise",
    "/system",
];

/// What `/help` says of each.
const COMMANDS: [(&str, &str); 12] = [
    ("/retry", "answer the last message once more; also /again"),
    ("/continue", "go on with an answer that was stopped or reached its limit"),
    ("/new", "start another conversation"),
    ("/model [NAME]", "show the models of this machine; with a NAME, run that one"),
    ("/system [TEXT]", "show the instructions; with a TEXT, replace them"),
    ("/file [PATH]", "attach a text or PDF file; without a PATH, show those attached"),
    ("/stats", "tokens by origin, times and tokens a second"),
    ("/save FILE", "write the conversation to FILE as Markdown"),
    ("/context [N]", "show how full the context is; give it N tokens, or auto"),
    ("/summarise", "read a summary of the oldest messages in their place"),
    ("/branch [N]", "go on in a new conversation with copies of the last N messages"),
    ("/quit", "end; also Ctrl-D"),
];

const KEYS: &str = "Alt+Enter, or \\ at a line's end, begins another line; Ctrl-C stops an answer";

/// The commands behind which Tab completes paths.
pub const BEFORE_PATHS: [&str; 2] = ["/file ", "/save "];

/// How like a command a mistyped one is, at least.
const LIKENESS: f64 = 0.8;

impl<'a> Input<'a> {
    pub fn of(text: &'a str) -> Self {
        let text = text.trim();
        if text.is_empty() {
            return Self::Nothing;
        }
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match Command::of(word, rest.trim()) {
            Some(command) => Self::Command(command),
            // A path or a fraction may begin a sentence.
            None if !word.starts_with('/') || word[1..].contains('/') => Self::Say(text),
            None if rest.is_empty() || nearest(word).is_some() => Self::Unknown(word),
            None => Self::Say(text),
        }
    }
}

impl<'a> Command<'a> {
    /// `None` for a command that takes no words and has some: it may begin a sentence.
    fn of(word: &str, rest: &'a str) -> Option<Self> {
        let command = match word {
            "/model" => return Some(Self::Model(rest)),
            "/system" => return Some(Self::System(rest)),
            "/file" => return Some(Self::File(rest)),
            "/save" => return Some(Self::Save(rest)),
            "/branch" => return Some(Self::Branch(rest)),
            "/context" => return Some(Self::Context(rest)),
            "/quit" | "/exit" | "/q" => Self::Quit,
            "/new" => Self::New,
            "/again" | "/retry" => Self::Retry,
            "/continue" => Self::Continue,
            "/stats" => Self::Stats,
            "/summarise" | "/summarize" => Self::Summarise,
            "/help" | "/?" => Self::Help,
            _ => return None,
        };
        rest.is_empty().then_some(command)
    }
}

/// What `/help` shows at a terminal that is `columns` wide.
pub fn help(columns: Option<usize>) -> String {
    let mut table = Table::untitled_with([Align::Left, Align::Left]).wrap(1);
    for (command, what) in COMMANDS {
        table.row(vec![command.to_owned(), what.to_owned()]);
    }
    table.text(columns) + &wrapped(KEYS, columns)
}

/// The command that a mistyped word is like.
pub fn nearest(word: &str) -> Option<&'static str> {
    WORDS
        .iter()
        .map(|known| (strsim::jaro_winkler(&known[1..], word.trim_start_matches('/')), *known))
        .filter(|(likeness, _)| *likeness > LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_message_unless_it_is_a_command() {
        assert_eq!(Input::of(" hello \n"), Input::Say("hello"));
        assert_eq!(Input::of("/quit"), Input::Command(Command::Quit));
        assert_eq!(Input::of("/system Be\nbrief. "), Input::Command(Command::System("Be\nbrief.")));
        assert_eq!(Input::of("/model"), Input::Command(Command::Model("")));
        let file = Input::Command(Command::File("my notes.md"));
        assert_eq!(Input::of("/file my notes.md"), file);
        assert_eq!(Input::of("/nwe"), Input::Unknown("/nwe"));
        assert_eq!(Input::of("/modle tiny"), Input::Unknown("/modle"));
        assert_eq!(Input::of("/usr/bin is a directory"), Input::Say("/usr/bin is a directory"));
        assert_eq!(Input::of("/new is a command"), Input::Unknown("/new"));
        assert_eq!(Input::of("/xyzzy it says"), Input::Say("/xyzzy it says"));
        assert_eq!(Input::of("  "), Input::Nothing);
    }

    #[test]
    fn the_help_fits_its_terminal_and_names_every_command() {
        let wide = help(Some(80));
        assert_eq!(wide.lines().count(), COMMANDS.len() + 1, "a line each: {wide}");
        let narrow = help(Some(40));
        for (help, columns) in [(&wide, 80), (&narrow, 40)] {
            assert!(help.lines().all(|line| line.chars().count() <= columns), "{help}");
            let mut others = WORDS.iter().filter(|word| **word != "/help");
            assert!(others.all(|word| help.contains(word)), "{help}");
        }
        let indent = format!("\n{:16}", "");
        assert!(narrow.contains(&indent), "a second line begins below the first: {narrow}");
    }

    #[test]
    fn a_mistyped_command_has_a_nearest_one() {
        assert_eq!(nearest("/stat"), Some("/stats"));
        assert_eq!(nearest("/modle"), Some("/model"));
        assert_eq!(nearest("/xyzzy"), None);
        assert!(WORDS.iter().all(|word| Command::of(word, "").is_some()));
    }
}
