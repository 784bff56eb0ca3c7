//! The screen and the keys of `hob slots top`. Pure: the caller reads the data and the keyboard.

use std::collections::BTreeMap;

use hob_api::Status;
use hob_api::status::Slot;
use hob_slots::Lifetimes;
use hob_slots::maintenance::{ConversationState, SavedConversation};
use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Gauge, Row, Table, TableState};

use crate::commands::slots::ls::{Sort, expires};
use crate::names::label;
use crate::output::{ago, conversations, count, line, size, state};

/// The order in which the key `s` selects them.
const SORTS: [Sort; 7] =
    [Sort::Used, Sort::Bytes, Sort::Own, Sort::Tokens, Sort::State, Sort::Class, Sort::Name];

/// The columns of the list with their widths. The name of a conversation has the rest of the terminal, and no less.
const COLUMNS: [(&str, u16); 8] = [
    ("CONVERSATION", 20),
    ("STATE", 9),
    ("CLASS", 9),
    ("     TOKENS", 11),
    ("      OWN", 9),
    ("   SHARED", 9),
    ("USED", 11),
    ("EXPIRES", 9),
];

/// The columns that a narrow terminal leaves out, the first of them first, as `hob slots ls` does.
const SPARE: [usize; 5] = [5, 2, 4, 6, 3];

#[derive(Clone, Copy, Debug, Default)]
pub struct Budgets {
    pub disk_bytes: u64,
    pub disk_budget: u64,
}

pub struct View {
    slots: Vec<SavedConversation>,
    titles: BTreeMap<String, String>,
    lifetimes: Lifetimes,
    budgets: Budgets,
    /// Bytes of KV in the daemon's memory, and their budget.
    memory: Option<(u64, u64)>,
    /// A summary of each of the daemon's slots.
    hot: Vec<String>,
    sort: Sort,
    reversed: bool,
    selected: TableState,
}

impl View {
    pub fn new(sort: Sort, lifetimes: Lifetimes) -> Self {
        Self {
            slots: Vec::new(),
            titles: BTreeMap::new(),
            lifetimes,
            budgets: Budgets::default(),
            memory: None,
            hot: Vec::new(),
            sort,
            reversed: false,
            selected: TableState::new().with_selected(0),
        }
    }

    /// Replaces the data.
    pub fn show(
        &mut self,
        slots: Vec<SavedConversation>,
        titles: BTreeMap<String, String>,
        budgets: Budgets,
        status: Option<&Status>,
    ) {
        self.slots = slots;
        self.titles = titles;
        self.budgets = budgets;
        self.memory = status.map(|status| (status.memory_bytes, status.memory_budget_bytes));
        let slots = status.into_iter().flat_map(|status| &status.slots);
        self.hot = slots.map(|slot| summary(slot, &self.titles)).collect();
        self.arrange();
    }

    /// Handles a key; `false` quits.
    pub fn press(&mut self, key: KeyCode) -> bool {
        let last = self.slots.len().saturating_sub(1);
        let at = self.selected.selected().unwrap_or(0);
        let to = match key {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('s') => {
                let now = SORTS.iter().position(|sort| *sort == self.sort).unwrap_or(0);
                self.sort = SORTS[(now + 1) % SORTS.len()];
                self.arrange();
                0
            }
            KeyCode::Char('r') => {
                self.reversed = !self.reversed;
                self.arrange();
                0
            }
            KeyCode::Up => at.saturating_sub(1),
            KeyCode::Down => at + 1,
            KeyCode::PageUp => at.saturating_sub(20),
            KeyCode::PageDown => at + 20,
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => at,
        };
        self.selected.select(Some(to.min(last)));
        true
    }

    fn arrange(&mut self) {
        self.sort.sort(&mut self.slots);
        if self.reversed {
            self.slots.reverse();
        }
    }

    pub fn draw(&mut self, frame: &mut Frame) {
        let hot = if self.hot.is_empty() { 0 } else { 1 };
        let [disk, memory, slots, table, help] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(hot),
            Constraint::Min(2),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        bar(frame, disk, "disk", Some((self.budgets.disk_bytes, self.budgets.disk_budget)));
        bar(frame, memory, "memory", self.memory);
        frame.render_widget(Line::from(self.hot.join(" · ")), slots);
        self.list(frame, table);
        let shown = conversations(self.slots.len());
        let sort = format!("{:?}", self.sort).to_lowercase();
        let direction = if self.reversed { ", reversed" } else { "" };
        let keys = format!("{shown} by {sort}{direction} · ↑↓ move · s sort · r reverse · q quit");
        let dimmed = Style::new().add_modifier(Modifier::DIM);
        frame.render_widget(Line::from(keys).style(dimmed), help);
    }

    fn list(&mut self, frame: &mut Frame, area: Rect) {
        let shown = fitting(area.width);
        let rows = self.slots.iter().map(|slot| {
            let cells = [
                line(&named(&slot.conversation, &self.titles), 40),
                state(slot.state.as_str()).to_owned(),
                slot.class.to_string(),
                format!("{:>11}", count(slot.tokens.into())),
                format!("{:>9}", size(slot.own_bytes)),
                format!("{:>9}", size(slot.shared_bytes)),
                ago(slot.age_secs),
                expires(slot, &self.lifetimes),
            ];
            let cells = shown.iter().map(|place| cells[*place].clone());
            Row::new(cells).style(Style::new().fg(colour(slot.state)))
        });
        let widths = shown.iter().map(|place| match *place {
            0 => Constraint::Fill(1),
            place => Constraint::Length(COLUMNS[place].1),
        });
        let titles = shown.iter().map(|place| COLUMNS[*place].0);
        let head = Row::new(titles).style(Style::new().add_modifier(Modifier::BOLD));
        let chosen = Style::new().add_modifier(Modifier::REVERSED);
        let table = Table::new(rows, widths).header(head).row_highlight_style(chosen);
        frame.render_stateful_widget(table, area, &mut self.selected);
    }
}

/// The places of the columns that a terminal has room for.
fn fitting(columns: u16) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..COLUMNS.len()).collect();
    for spare in SPARE {
        let with_gaps: u16 = shown.iter().map(|place| COLUMNS[*place].1 + 1).sum();
        if with_gaps - 1 <= columns {
            break;
        }
        shown.retain(|place| *place != spare);
    }
    shown
}

/// A bar with the used part of a budget; `None` without a daemon.
fn bar(frame: &mut Frame, area: Rect, name: &str, used: Option<(u64, u64)>) {
    let Some((bytes, budget)) = used else {
        return frame.render_widget(Line::from(format!("{name:<7} no daemon runs")), area);
    };
    let ratio = if budget == 0 { 0.0 } else { (bytes as f64 / budget as f64).clamp(0.0, 1.0) };
    let [title, rest] =
        Layout::horizontal([Constraint::Length(8), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Line::from(name), title);
    let label = format!("{} of {}", size(bytes), size(budget));
    let colour = if ratio > 0.9 { Color::Red } else { Color::Blue };
    frame.render_widget(
        Gauge::default().ratio(ratio).label(label).gauge_style(Style::new().fg(colour)),
        rest,
    );
}

/// The title, or what the id says.
fn named(id: &str, titles: &BTreeMap<String, String>) -> String {
    titles.get(id).cloned().unwrap_or_else(|| label(id))
}

fn summary(slot: &Slot, titles: &BTreeMap<String, String>) -> String {
    let Slot { slot, conversation, state, .. } = slot;
    match conversation {
        Some(id) => format!("{slot} {} {state}", line(&named(id.as_str(), titles), 20)),
        None => format!("{slot} {state}"),
    }
}

fn colour(state: ConversationState) -> Color {
    match state {
        ConversationState::Open => Color::Green,
        ConversationState::Hot => Color::Yellow,
        ConversationState::Warm | ConversationState::Cold => Color::Reset,
        ConversationState::Expired => Color::DarkGray,
    }
}

#[cfg(test)]
mod tests {
    use hob_slots::{ModelHash, TtlClass};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    use super::*;

    #[test]
    fn conversations_budgets_and_slots_are_shown() {
        let mut view = view();
        let screen = screen(&mut view);
        let expected = [
            "disk  ",
            "2.0 MiB of 8.0 MiB",
            "memory  ",
            "1.0 MiB of 4.0 MiB",
            "0 young decoding · 1 free",
            "CONVERSATION",
            "3 conversations by used · ↑↓ move · s sort · r reverse · q quit",
        ];
        for words in expected {
            assert!(screen.contains(words), "{words:?} is missing:\n{screen}");
        }
        let row = screen.lines().find(|line| line.starts_with("young")).unwrap();
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>(),
            ["young", "open", "long", "1,000", "10", "B", "0", "B", "7", "s", "ago", "-"]
        );
        assert_eq!(order(&screen), ["young", "large", "old"]);
        let row = screen.lines().find(|line| line.starts_with("large")).unwrap();
        assert!(row.contains("on disk") && row.ends_with("in 59 min"), "{row}");
    }

    #[test]
    fn titles_stand_in_place_of_ids() {
        let mut view = view();
        view.titles.insert("old".to_owned(), "The cat".to_owned());
        let screen = screen(&mut view);
        assert!(screen.lines().any(|line| line.starts_with("The cat")), "{screen}");
    }

    #[test]
    fn a_narrow_terminal_shows_names_and_fewer_columns() {
        for (columns, left_out) in [(80, ["CLASS", "SHARED"]), (40, ["TOKENS", "OWN"])] {
            let screen = screen_in(columns, &mut view());
            let head = screen.lines().find(|line| line.contains("STATE")).unwrap();
            assert!(head.starts_with("CONVERSATION") && head.ends_with("EXPIRES"), "{screen}");
            assert!(left_out.iter().all(|title| !head.contains(title)), "{screen}");
        }
    }

    #[test]
    fn keys_sort_move_and_quit() {
        let mut view = view();
        assert!(view.press(KeyCode::Char('s')));
        assert_eq!(order(&screen(&mut view)), ["large", "old", "young"], "by bytes");
        assert!(view.press(KeyCode::Char('r')));
        assert_eq!(order(&screen(&mut view))[0], "young");
        assert!(screen(&mut view).contains("by bytes, reversed"));
        for _ in 0..5 {
            assert!(view.press(KeyCode::Down));
        }
        assert_eq!(view.selected.selected(), Some(2), "the last one is as far as it goes");
        assert!(view.press(KeyCode::Up) && view.press(KeyCode::Char('x')));
        assert_eq!(view.selected.selected(), Some(1));
        assert!(!view.press(KeyCode::Char('q')) && !view.press(KeyCode::Esc));
    }

    #[test]
    fn the_screen_works_without_a_daemon_and_without_conversations() {
        let mut view = View::new(Sort::Name, Lifetimes::default());
        view.show(Vec::new(), BTreeMap::new(), Budgets::default(), None);
        let screen = screen(&mut view);
        assert!(screen.contains("memory  no daemon runs"), "{screen}");
        assert!(screen.contains("0 conversations by name"), "{screen}");
        view.press(KeyCode::Down);
        let mut small = Terminal::new(TestBackend::new(3, 2)).unwrap();
        small.draw(|frame| view.draw(frame)).unwrap();
    }

    fn view() -> View {
        let mut view = View::new(Sort::Used, Lifetimes::default());
        let slots = vec![
            slot("old", 5_000, 100, ConversationState::Expired),
            slot("young", 7, 10, ConversationState::Open),
            slot("large", 60, 5_000, ConversationState::Cold),
        ];
        let status = json!({
            "memory_bytes": 1 << 20, "memory_budget_bytes": 4 << 20,
            "slots": [
                {"slot": 0, "conversation": "young", "state": "decoding"},
                {"slot": 1, "conversation": null, "state": "free"},
            ],
        });
        let budgets = Budgets { disk_bytes: 2 << 20, disk_budget: 8 << 20 };
        view.show(slots, BTreeMap::new(), budgets, Some(&serde_json::from_value(status).unwrap()));
        view
    }

    fn slot(
        name: &str,
        age_secs: u64,
        own_bytes: u64,
        state: ConversationState,
    ) -> SavedConversation {
        SavedConversation {
            conversation: name.to_owned(),
            fingerprint: ModelHash([1; 8]),
            class: TtlClass::Long,
            tokens: 1_000,
            turns: 1,
            blocks: 1,
            snapshots: 0,
            object_bytes: 0,
            file_bytes: 0,
            own_bytes,
            shared_bytes: 0,
            created_at: 0,
            used_at: 1_000_000 - age_secs,
            age_secs,
            expired: state == ConversationState::Expired,
            state,
        }
    }

    fn screen(view: &mut View) -> String {
        screen_in(100, view)
    }

    fn screen_in(columns: u16, view: &mut View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, 12)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let width = usize::from(buffer.area.width);
        let cells: Vec<_> = buffer.content.iter().map(|cell| cell.symbol()).collect();
        let lines = cells.chunks(width).map(|cells| cells.concat().trim_end().to_owned());
        lines.collect::<Vec<_>>().join("\n")
    }

    fn order(screen: &str) -> Vec<String> {
        let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
        let names = screen.lines().filter_map(first);
        names.filter(|name| ["old", "young", "large"].contains(&name.as_str())).collect()
    }
}
