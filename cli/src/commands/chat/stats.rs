//! What `/stats` shows: the last answer, and all of this run.

use std::time::Duration;

use hob_api::Turn;
use hob_api::turn::PromptTokens;

use crate::commands::turn::Answer;
use crate::output::{count, seconds, speed};

#[derive(Default)]
pub struct Stats {
    last: Option<Figures>,
    all: Figures,
    answers: u64,
}

#[derive(Clone, Default)]
struct Figures {
    prompt: PromptTokens,
    answer_tokens: u64,
    /// From the request to the first token.
    waiting: Duration,
    /// From the first token to the last.
    answering: Duration,
    saved_ms: f64,
}

impl Stats {
    pub fn add(&mut self, answer: &Answer) {
        let turn: Turn = serde_json::from_value(answer.hob.clone()).unwrap_or_default();
        let figures = Figures {
            prompt: turn.origins(),
            answer_tokens: answer.usage["completion_tokens"].as_u64().unwrap_or(0),
            waiting: answer.first.unwrap_or(answer.total),
            answering: answer.first.map_or(Duration::ZERO, |first| answer.total - first),
            saved_ms: turn.saved_ms.unwrap_or(0.0),
        };
        self.answers += 1;
        self.all.add(&figures);
        self.last = Some(figures);
    }

    pub fn lines(&self) -> String {
        let Some(last) = &self.last else {
            return "no answer yet".to_owned();
        };
        let answers = if self.answers == 1 { "answer" } else { "answers" };
        let head = format!("{} {answers}", count(self.answers));
        format!("last answer\n{}\n{head}\n{}", last.lines(), self.all.lines())
    }
}

impl Figures {
    fn add(&mut self, other: &Self) {
        self.prompt.shared += other.prompt.shared;
        self.prompt.memory += other.prompt.memory;
        self.prompt.disk += other.prompt.disk;
        self.prompt.away += other.prompt.away;
        self.prompt.moved += other.prompt.moved;
        self.prompt.repaired += other.prompt.repaired;
        self.prompt.lossy += other.prompt.lossy;
        self.prompt.computed += other.prompt.computed;
        self.answer_tokens += other.answer_tokens;
        self.waiting += other.waiting;
        self.answering += other.answering;
        self.saved_ms += other.saved_ms;
    }

    fn lines(&self) -> String {
        let PromptTokens { shared, memory, disk, away, moved, computed, .. } = self.prompt;
        let all = shared + memory + disk + away + moved + computed;
        let [all, shared, memory, disk, computed] =
            [all, shared, memory, disk, computed].map(|tokens| count(tokens as u64));
        let away = match away {
            0 => String::new(),
            away => format!(" · {} away", count(away as u64)),
        };
        let moved = match moved {
            0 => String::new(),
            moved => format!(" · {} moved", count(moved as u64)),
        };
        let saved = match self.saved_ms {
            ms if ms >= 1000.0 => format!(" · saved {}", seconds(ms)),
            _ => String::new(),
        };
        let tokens = count(self.answer_tokens);
        // The first token is not among those of this time.
        let by_second = self.answer_tokens.saturating_sub(1) as f64 / self.answering.as_secs_f64();
        let speed = if by_second.is_finite() && by_second > 0.0 {
            format!(" · {}", speed(by_second))
        } else {
            String::new()
        };
        let [waiting, answering] =
            [self.waiting, self.answering].map(|time| seconds(time.as_secs_f64() * 1000.0));
        format!(
            "  prompt  {all} tokens: {shared} hot · {memory} from memory · {disk} from disk{away}{moved} · \
             {computed} computed\n  answer  {tokens} tokens{speed}\n  \
             time    {waiting} to the first token · {answering} answering{saved}"
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_are_counted_by_origin_and_by_second() {
        let mut stats = Stats::default();
        assert_eq!(stats.lines(), "no answer yet");
        let tokens = json!({"shared": 0, "memory": 100, "disk": 6000, "away": 64, "computed": 31});
        let answer = Answer {
            usage: json!({"completion_tokens": 41}),
            hob: json!({"tokens": tokens, "saved_ms": 1500}),
            first: Some(Duration::from_millis(500)),
            total: Duration::from_millis(2500),
            ..Answer::default()
        };
        stats.add(&answer);
        stats.add(&answer);
        insta::assert_snapshot!(stats.lines(), @r"
        last answer
          prompt  6,195 tokens: 0 hot · 100 from memory · 6,000 from disk · 64 away · 31 computed
          answer  41 tokens · 20 tok/s
          time    0.5 s to the first token · 2.0 s answering · saved 1.5 s
        2 answers
          prompt  12,390 tokens: 0 hot · 200 from memory · 12,000 from disk · 128 away · 62 computed
          answer  82 tokens · 20 tok/s
          time    1.0 s to the first token · 4.0 s answering · saved 3.0 s
        ");
    }
}
