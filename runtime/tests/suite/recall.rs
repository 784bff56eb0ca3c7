//! What a conversation's new text asks for comes back before it is computed.

use hob_runtime::{
    BackReason, Engine, EngineOptions, Purpose, Recovery, TurnEvent, TurnRequest, Way,
};
use hob_slots::Layer;
use hob_slots::Token;
use hob_slots::format::SegmentRef;
use hob_slots::recall::Retrievals;

use crate::support::wait::until;
use crate::support::*;

const BUDGET: usize = 640;

/// A conversation that states a fact, talks about other things for long, and then asks for the fact. Returns the
/// last answer, and the positions of the fact's value.
fn session(options: EngineOptions, budget: usize) -> (Answer, std::ops::Range<usize>) {
    let model = fake();
    let disk = OnDisk::with(&model, options);
    let Session { last, fact, .. } = talk(&model, &disk, 0..16, Session::of(budget));
    (last.expect("it has turns"), fact)
}

/// What was said so far.
struct Session {
    budget: Option<usize>,
    timeline: Vec<Token>,
    segments: Vec<SegmentRef>,
    /// The positions of the fact's value.
    fact: std::ops::Range<usize>,
    last: Option<Answer>,
}

impl Session {
    fn of(budget: usize) -> Self {
        Self {
            budget: Some(budget),
            timeline: Vec::new(),
            segments: Vec::new(),
            fact: 0..0,
            last: None,
        }
    }
}

/// The segment of a message without a key of its own.
fn message(end: usize, layer: Layer, number: usize) -> SegmentRef {
    SegmentRef::new(end as u32, layer, SegmentRef::message_key(number))
}

fn talk(
    model: &std::sync::Arc<dyn hob_runtime::Model>,
    disk: &OnDisk,
    turns: std::ops::Range<usize>,
    session: Session,
) -> Session {
    let Session { budget, mut timeline, mut segments, mut fact, mut last } = session;
    for n in turns {
        let text = match n {
            2 => "by the way, the code of my locker is 48213".to_owned(),
            15 => "what is the code of my locker?".to_owned(),
            n => format!(
                "let us talk about subject number {n}, it is a long and winding road of words"
            ),
        };
        let prompt = [timeline, tokens(model, &user(&text))].concat();
        if n == 2 {
            let value = tokens(model, "48213");
            let at = prompt.windows(value.len()).position(|tokens| tokens == value);
            fact = at.map(|at| at..at + value.len()).expect("the message has it");
        }
        segments.push(message(prompt.len(), Layer::User, 2 * n + 1));
        // The engine computes the last token of an answer when no turn waits: where blocks end depends on it.
        if budget.is_some() {
            settle(&disk.engine);
        }
        let mut request = TurnRequest { budget, ..endless("chat", &prompt, 24) };
        request.keep.segments.clone_from(&segments);
        let answer = ask(&disk.engine, request);
        timeline = answer.timeline.clone();
        segments.push(message(timeline.len(), Layer::Assistant, 2 * n + 2));
        last = Some(answer);
    }
    Session { budget, timeline, segments, fact, last }
}

/// Waits until the engine has read the words of as many blocks in time, and no more of what is away. Returns how
/// many it has read late.
fn indexed(engine: &Engine, least: u64) -> u64 {
    let ahead = || status(engine).counters.indexed_ahead;
    until("the words of what is away are read", || {
        let before = ahead();
        std::thread::sleep(std::time::Duration::from_millis(50));
        before >= least && ahead() == before
    });
    status(engine).counters.indexed_late
}

#[test]
fn words_are_read_before_a_question_asks_for_them() {
    let model = fake();
    let mut disk = OnDisk::new(&model);
    let session = talk(&model, &disk, 0..15, Session::of(BUDGET));
    let blocks = session.timeline.len() as u64 / 64;
    let before = indexed(&disk.engine, blocks);
    let session = talk(&model, &disk, 15..16, session);
    let late = indexed(&disk.engine, blocks);
    assert!(
        late - before <= 3,
        "{late} after {before}: the question pays for its own message alone"
    );

    settle(&disk.engine);
    disk.restart();
    let mut opened = request("chat", &session.timeline, 0);
    opened.keep.segments.clone_from(&session.segments);
    let opened = TurnRequest {
        budget: Some(BUDGET),
        purpose: Purpose::Prewarm,
        restores_only: true,
        ..opened
    };
    finish(disk.engine.submit(opened).expect("there is room")).expect("it is restored");
    indexed(&disk.engine, blocks);
    talk(&model, &disk, 16..17, session);
    let late = indexed(&disk.engine, blocks);
    assert!(late <= 3, "{late} after a restart");
}

/// Waits until the engine has read all that it reads ahead. Returns whether it has read anything.
fn reads_ahead(engine: &Engine) -> bool {
    let read = || status(engine).counters.read_ahead_bytes;
    (0..1_800).any(|_| {
        let before = read();
        std::thread::sleep(std::time::Duration::from_millis(100));
        before > 0 && before == read()
    })
}

#[test]
fn what_is_like_the_newest_text_is_read_ahead_in_a_turn_to_which_nothing_comes_back() {
    let model = fake();
    let mut disk = OnDisk::new(&model);
    let session = talk(&model, &disk, 0..15, Session::of(BUDGET));
    settle(&disk.engine);
    // Without an embedder, nothing is chosen by meaning.
    disk.restart_with(EngineOptions { retrievals: Retrievals::MEANING, ..options() });
    let session = talk(&model, &disk, 15..16, session);
    let answer = session.last.expect("it has turns");
    assert!(!answer.report.away.is_empty(), "else the session is too short to show anything");
    assert!(answer.moved.iter().all(|moved| moved.way == Way::Out), "{:?}", answer.moved);
    assert!(reads_ahead(&disk.engine), "what is away is like what was said last");
}

#[test]
fn what_is_next_to_what_came_back_is_in_memory_for_the_next_question() {
    let model = fake();
    let mut disk = OnDisk::new(&model);
    let said = |texts: &[&str]| -> Vec<String> {
        let filler =
            |n: usize| format!("subject {n} is a long and winding road of many words and names");
        texts.iter().map(|text| (*text).to_owned()).chain((0..24).map(filler)).collect()
    };
    // The first question brings the first fact back; the second fact is in the block behind it.
    let facts = ["the code of my locker is 48213", "the colour of the bicycle is turquoise"];
    let mut timeline: Vec<Token> = Vec::new();
    let mut segments: Vec<SegmentRef> = Vec::new();
    let mut turn = |disk: &OnDisk, text: &str, budget: usize| {
        let prompt = [timeline.clone(), tokens(&model, &user(text))].concat();
        segments.push(message(prompt.len(), Layer::User, segments.len() + 1));
        let mut request = TurnRequest { budget: Some(budget), ..endless("chat", &prompt, 24) };
        request.keep.segments.clone_from(&segments);
        let answer = ask(&disk.engine, request);
        timeline.clone_from(&answer.timeline);
        segments.push(message(timeline.len(), Layer::Assistant, segments.len() + 1));
        answer
    };
    for text in said(&facts) {
        turn(&disk, &text, BUDGET);
    }
    settle(&disk.engine);
    disk.restart();
    turn(&disk, "what is the code of my locker?", BUDGET);
    assert!(reads_ahead(&disk.engine), "what is next to it is read");
    // With room for what it asks for.
    let answer = turn(&disk, "and what colour is the bicycle?", 2 * BUDGET);
    assert!(answer.report.tokens.memory > 0, "{:?} {:?}", answer.report.tokens, answer.moved);
}

fn is_away(answer: &Answer, range: &std::ops::Range<usize>) -> bool {
    answer.report.away.iter().any(|away| away.start < range.end && range.start < away.end)
}

#[test]
fn what_the_new_text_asks_for_comes_back() {
    let (answer, fact) = session(options(), BUDGET);
    assert!(!is_away(&answer, &fact), "{fact:?} {:?} {:?}", answer.report.away, answer.moved);
    let back = answer
        .moved
        .iter()
        .find(|moved| moved.range.start <= fact.start && fact.start < moved.range.end);
    let way = back.map(|moved| moved.way);
    assert_eq!(way, Some(Way::Back(BackReason::Words)), "{:?}", answer.moved);
}

#[test]
fn others_leave_for_what_the_new_text_asks_for() {
    // In the smallest two, a quarter of the budget for the newest text leaves no room for the fact.
    for budget in [240, 300, 448] {
        let (answer, fact) = session(options(), budget);
        assert!(!is_away(&answer, &fact), "{fact:?} {:?} {:?}", answer.report.away, answer.moved);
        assert!(answer.cells.peak <= budget, "{:?}", answer.cells);
    }
}

#[test]
fn others_leave_also_where_the_turn_of_another_conversation_holds_the_rest_of_the_cache() {
    let model = fake();
    // Without memory, an idle conversation keeps its cells beside a long prompt; without drafts, the other one
    // takes a cell at a time.
    let alone = EngineOptions { memory_budget_bytes: 0, drafts: false, ..options() };
    let disk = OnDisk::with(&model, alone);
    let session = talk(&model, &disk, 0..15, Session::of(448));
    settle(&disk.engine);
    let left = options().context_tokens - status(&disk.engine).used_tokens;
    // Fewer cells stay free than what is asked for needs. A token of its answer takes 10 ms.
    let mut slow = tokens(&model, &user(&format!("Say this slowly: {}", "word ".repeat(400))));
    slow.drain(60..60 + slow.len() - (left - 64));
    let mut other = disk.engine.submit(request("other", &slow, 400)).expect("a valid turn");
    while !matches!(other.next_blocking(), Some(TurnEvent::Token { .. })) {}
    let session = talk(&model, &disk, 15..16, Session { budget: None, ..session });
    let (answer, fact) = (session.last.expect("it has turns"), session.fact);
    assert!(!is_away(&answer, &fact), "{fact:?} {:?} {:?}", answer.report.away, answer.moved);
    assert!(answer.moved.iter().any(|moved| moved.way == Way::Out), "{:?}", answer.moved);
}

/// Says `text` behind the session's turns. Returns the answer, and where its message begins.
fn say(
    model: &std::sync::Arc<dyn hob_runtime::Model>,
    disk: &OnDisk,
    session: &Session,
    text: &str,
) -> (Answer, usize) {
    let prompt = [session.timeline.clone(), tokens(model, &user(text))].concat();
    let mut segments = session.segments.clone();
    segments.push(SegmentRef::new(prompt.len() as u32, Layer::User, "the last message"));
    let Session { budget, timeline, .. } = session;
    let mut request = TurnRequest { budget: *budget, ..endless("chat", &prompt, 24) };
    request.keep.segments = segments;
    (ask(&disk.engine, request), timeline.len())
}

#[test]
fn a_question_in_front_of_a_long_text_is_answered_with_what_it_asks_for() {
    let model = fake();
    let [who, did] = [["rain", "snow", "hail", "fog"], ["fell", "stayed", "came", "grew"]];
    let pasted: String =
        (0..70).map(|n| format!("{} {} gently. ", who[n % 4], did[n / 4 % 4])).collect();
    // In the smallest budget it is longer than all cells.
    for (budget, length) in [(640, 1_000), (1_600, 700), (1_600, 300)] {
        let disk = OnDisk::new(&model);
        let session = talk(&model, &disk, 0..15, Session::of(budget));
        settle(&disk.engine);
        let text =
            format!("What is the code of my locker? Also summarise this: {}", &pasted[..length]);
        let (answer, begins) = say(&model, &disk, &session, &text);
        let fact = &session.fact;
        assert!(
            !is_away(&answer, fact),
            "{budget}, {length}: {:?} {:?}",
            answer.report.away,
            answer.moved
        );
        assert!(answer.cells.peak <= budget, "{:?}", answer.cells);
        let back = answer.moved.iter().find(|moved| {
            moved.way != Way::Out && moved.range.start <= fact.start && fact.start < moved.range.end
        });
        let back = back.unwrap_or_else(|| panic!("it was away: {:?}", answer.moved));
        if length < budget / 2 {
            assert_eq!(back.at, begins, "before the question is computed: {:?}", answer.moved);
        }
    }
}

#[test]
fn a_question_that_is_typed_ahead_is_asked_as_a_whole() {
    let model = fake();
    let disk = OnDisk::new(&model);
    // Half of it asks for one half of these, the rest for the other.
    let said = |n: usize| match n {
        2 => "it is the code of that old green locker: 48213".to_owned(),
        n if n > 14 => format!("let us talk about subject number {n}, it is a long story of words"),
        n if n % 2 == 0 => format!("code, {n}, code: {}", 70_000 + n),
        n => format!("locker, {n}, locker: {}", 70_000 + n),
    };
    let mut session = Session::of(448);
    for n in 0..26 {
        settle(&disk.engine);
        let (answer, _) = say(&model, &disk, &session, &said(n));
        let prompt = answer.report.tokens.prompt();
        if n == 2 {
            let value = tokens(&model, "48213");
            let of_prompt = &answer.timeline[..prompt];
            let at = of_prompt.windows(value.len()).position(|tokens| tokens == value);
            session.fact = at.map(|at| at..at + value.len()).expect("the message has it");
        }
        session.segments.push(message(prompt, Layer::User, 2 * n + 1));
        session.segments.push(message(answer.timeline.len(), Layer::Assistant, 2 * n + 2));
        session.timeline = answer.timeline;
    }
    let prompt = [session.timeline.clone(), tokens(&model, "<|im_start|>user\ncode, ")].concat();
    let mut ahead = TurnRequest::prefill(name("chat"), prompt.clone(), Purpose::Speculate);
    ahead.budget = session.budget;
    ahead.keep.segments.clone_from(&session.segments);
    ahead.keep.segments.push(SegmentRef::new(prompt.len() as u32, Layer::User, "typed"));
    finish(disk.engine.submit(ahead).expect("there is room")).expect("it is computed");
    let (answer, _) = say(&model, &disk, &session, "code, locker: ?");
    let fact = &session.fact;
    assert!(!is_away(&answer, fact), "{fact:?} {:?} {:?}", answer.report.away, answer.moved);
}

#[test]
fn messages_with_one_key_come_back_together() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let mut session = Session::of(BUDGET);
    let mut second = 0..0;
    for n in 0..16 {
        settle(&disk.engine);
        let (text, key) = match n {
            2 => ("the locker has the number 48213".to_owned(), "notes.md".to_owned()),
            6 => ("a purple umbrella hangs beside it".to_owned(), "notes.md".to_owned()),
            n => (
                format!("let us talk about subject number {n}, a long and winding road of words"),
                SegmentRef::message_key(2 * n + 1),
            ),
        };
        let (answer, begins) = say(&model, &disk, &session, &text);
        let prompt = answer.report.tokens.prompt();
        if n == 6 {
            second = begins + 20..prompt - 30;
        }
        session.segments.push(SegmentRef::new(prompt as u32, Layer::User, key));
        session.segments.push(message(answer.timeline.len(), Layer::Assistant, 2 * n + 2));
        session.timeline = answer.timeline;
    }
    let (answer, _) = say(&model, &disk, &session, "which number has the locker?");
    let of_second = |moved: &&hob_runtime::Moved| {
        moved.way != Way::Out && moved.range.start < second.end && second.start < moved.range.end
    };
    let back: Vec<_> = answer.moved.iter().filter(of_second).map(|moved| moved.way).collect();
    assert!(!back.is_empty(), "{second:?} {:?}", answer.moved);
    assert!(back.iter().all(|way| *way == Way::Back(BackReason::Group)), "{:?}", answer.moved);
}

#[test]
fn without_recovery_it_stays_away() {
    let (answer, fact) =
        session(EngineOptions { recovery: Recovery::Discard, ..options() }, BUDGET);
    assert!(is_away(&answer, &fact), "else the session is too short to show anything");
}

#[test]
fn a_note_of_what_left_stays() {
    let crumbs = EngineOptions { recovery: Recovery::Breadcrumb, ..options() };
    let (answer, fact) = session(crumbs, BUDGET);
    assert!(is_away(&answer, &fact), "it does not come back");
    assert!(answer.moved.iter().all(|moved| moved.way == Way::Out), "{:?}", answer.moved);
    assert!(answer.cells.peak <= BUDGET, "{:?}", answer.cells);
    // A token is a byte, and notes of 12 lie between what is away.
    let away = &answer.report.away;
    let notes = away.windows(2).filter(|pair| pair[1].start - pair[0].end == 12).count();
    assert!(notes >= 5, "{away:?}");
    assert!(12 * notes <= BUDGET / 4, "{away:?}");
    assert!(away[0].len() > 64, "the oldest notes have left: {away:?}");
}

#[test]
fn a_message_that_is_pinned_after_it_left_comes_back() {
    let model = fake();
    for restarts in [false, true] {
        let mut disk = OnDisk::new(&model);
        let Session { timeline, mut segments, fact, .. } =
            talk(&model, &disk, 0..14, Session::of(BUDGET));
        let at = segments.partition_point(|segment| (segment.end as usize) <= fact.start);
        segments[at].pinned = true;
        if restarts {
            settle(&disk.engine);
            disk.restart();
        }
        // It shares no word with the fact.
        let prompt = [timeline, tokens(&model, &user("thank you"))].concat();
        segments.push(SegmentRef::new(prompt.len() as u32, Layer::User, "thanks"));
        let mut next = TurnRequest { budget: Some(BUDGET), ..request("chat", &prompt, 8) };
        next.keep.segments = segments;
        let answer = ask(&disk.engine, next);
        assert!(!is_away(&answer, &fact), "restarts: {restarts}: {:?}", answer.moved);
        assert!(answer.cells.peak <= BUDGET, "{:?}", answer.cells);
    }
}
