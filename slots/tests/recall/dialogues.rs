//! What people say, and what has to come back.

use hob_slots::recall::{Choice, Index, Passage, Query, Residence, Vectors, Why, choose};

use crate::resident_where;

/// Everything is absent, a passage has 20 tokens, and nothing but what is named is adjacent.
fn passages(texts: &[&str]) -> Vec<Passage> {
    let passage = |(block, text): (usize, &&str)| Passage {
        block,
        range: block * 100..block * 100 + 20,
        text: (*text).into(),
        key: None,
        group: 0,
    };
    texts.iter().enumerate().map(passage).collect()
}

/// The same, one behind the other.
fn adjacent(texts: &[&str]) -> Vec<Passage> {
    let mut passages = passages(texts);
    passages.iter_mut().for_each(|passage| {
        passage.range = passage.block * 20..passage.block * 20 + 20;
    });
    passages
}

fn recall(passages: &[Passage], query: &str, room_tokens: usize) -> Vec<Choice> {
    let index: Index = passages.iter().cloned().collect();
    choose(&index, &Query::new(query), &|_| Residence::Absent, room_tokens).back
}

fn first(passages: &[Passage], query: &str) -> Option<(usize, Why)> {
    recall(passages, query, 1000).first().map(|choice| (choice.block, choice.why))
}

const TALK: &[&str] = &[
    "Hello! How can I help you?",
    "My locker code is 48213.",
    "What is the capital of France?",
    "The capital of France is Paris.",
    "By the way, my sister's name is Triona and she lives in Bergen.",
    "What is the opposite of hot?",
    "[file:config.py]\nretries = 7\nmax_size = 4096\n[end]",
    "[file:server.toml]\nretries = 3\nport = 8080\n[end]",
    "The invoices are paid on the first Monday of each month.",
    "Read this. The mayor opened the quiet square. The secret code of Oslo is 7731. A baker built a new roof.",
    "Read this. The river followed a narrow street. The secret code of Lima is 1177. The winter closed the gate.",
];

#[test]
fn a_question_brings_back_its_fact() {
    for (query, block) in [
        ("What is my locker code?", 1),
        ("tell me the code of my LOCKER please", 1),
        ("Which city is France's capital?", 3),
        ("Where does my sister live, and what's her name?", 4),
        ("When is an invoice paid?", 8),
        ("What is the secret code of Lima?", 10),
        ("What is the secret code of Oslo?", 9),
    ] {
        assert_eq!(first(&passages(TALK), query).map(|(block, _)| block), Some(block), "{query}");
    }
}

#[test]
fn names_of_files_identifiers_and_quotes_are_mentions() {
    for (query, block) in [
        ("What is retries in config.py?", 6),
        ("In server.toml, what is retries?", 7),
        ("How large is maxSize?", 6),
        ("Who had 48213?", 1),
        ("Where did I say \"first Monday\"?", 8),
        ("Wo steht „the river followed a narrow“?", 10),
    ] {
        assert_eq!(first(&passages(TALK), query), Some((block, Why::Mention)), "{query}");
    }
    assert_eq!(
        first(&passages(TALK), "Where did I say \"Monday first\"?"),
        Some((8, Why::Lexical))
    );
}

#[test]
fn keys_of_segments_are_mentions_and_numbers_of_messages_are_not() {
    let mut passages = passages(&["The tenant pays on time.", "The cat sleeps.", "It rains."]);
    passages[0].key = Some("contracts/lease-2024.pdf".into());
    passages[1].key = Some("message 3".into());
    passages[2].key = Some("travel notes".into());

    let mention = |block| Some((block, Why::Mention));
    assert_eq!(first(&passages, "Summarise lease-2024.pdf."), mention(0));
    assert_eq!(first(&passages, "What do my travel notes say?"), mention(2));
    assert_eq!(first(&passages, "What was in message 3?"), None);
}

#[test]
fn a_query_that_says_nothing_brings_nothing_back() {
    for query in
        ["", " \n ", "What is it?", "Und was ist das denn für einer?", "?!", "the of and to"]
    {
        assert_eq!(recall(&passages(TALK), query, 1000), [], "{query}");
    }
}

#[test]
fn resident_passages_do_not_come_back_and_tell_how_rare_a_word_is() {
    let index: Index = passages(TALK).into_iter().collect();
    let query = Query::new("What is my locker code?");
    assert!(choose(&index, &query, &|_| Residence::Resident, 1000).back.is_empty());
    let choices = choose(&index, &query, &resident_where(|block| block == 1), 1000).back;
    assert!(choices.iter().all(|choice| choice.block != 1));
    assert_eq!(choices[0].block, 10, "the newest of those with the word `code`");
}

#[test]
fn weak_candidates_stay_away_where_a_resident_passage_answers_better() {
    // In most passages, so it tells little; the resident one is about it.
    let mut texts =
        vec!["The garden was watered at noon by the man from the village over there."; 20];
    texts.push("The garden is in bloom.");
    let index: Index = passages(&texts).into_iter().collect();
    let query = Query::new("How is the garden?");
    assert!(choose(&index, &query, &resident_where(|block| block == 20), 1000).back.is_empty());
    assert!(!choose(&index, &query, &|_| Residence::Absent, 1000).back.is_empty());
}

#[test]
fn the_newest_of_equal_statements_comes_first() {
    let texts = [
        "My seat is A12.",
        "The sky is blue.",
        "My seat is B44.",
        "A cat says meow.",
        "My seat is B44.",
    ];
    let blocks: Vec<usize> = recall(&passages(&texts), "What is my seat?", 1000)
        .iter()
        .map(|choice| choice.block)
        .collect();
    assert_eq!(blocks, [4, 0, 2], "a text that repeats another comes last");
}

#[test]
fn a_statement_comes_before_the_questions_for_it() {
    let texts = [
        "My badge is 4471.",
        "What is my badge?",
        "I do not know your badge.",
        "Do you remember my badge?",
    ];
    assert_eq!(first(&passages(&texts), "What is my badge?"), Some((0, Why::Lexical)));
}

#[test]
fn what_answers_a_question_follows_it() {
    let texts = [
        "It is late.",
        "Where did I put the umbrella?",
        "In the hall, behind the door.",
        "Good night.",
    ];
    let found = recall(&adjacent(&texts), "the umbrella, again?", 40);
    assert_eq!(found.iter().map(|choice| choice.block).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(found[1].why, Why::Group);
}

#[test]
fn a_fact_cut_by_a_border_comes_back_whole() {
    let texts = [
        "The sky is blue.",
        "It rains. My locker",
        " code is 48213. It snows.",
        "The end.",
        "A cat.",
    ];
    let found = recall(&adjacent(&texts), "What is my locker code?", 40);
    let mut blocks: Vec<usize> = found.iter().map(|choice| choice.block).collect();
    blocks.sort_unstable();
    assert_eq!(blocks, [1, 2]);
}

#[test]
fn a_fact_cut_by_several_borders_comes_back_whole() {
    let texts =
        ["The sky is blue.", "It rains. My locker code", " ", "is 48", "213. It snows.", "A cat."];
    let found = recall(&adjacent(&texts), "What is my locker code?", 80);
    let mut blocks: Vec<usize> = found.iter().map(|choice| choice.block).collect();
    blocks.sort_unstable();
    assert_eq!(blocks, [1, 2, 3, 4]);
}

#[test]
fn the_rest_of_a_resident_fact_comes_back() {
    let texts = ["The sky is blue.", "It rains. My locker code is 48", "213. It snows.", "A cat."];
    let index: Index = adjacent(&texts).into_iter().collect();
    let query = Query::new("What is my locker code?");
    let found = choose(&index, &query, &resident_where(|block| block == 1), 1000).back;
    assert_eq!((found[0].block, found[0].why), (2, Why::Group));
}

#[test]
fn others_leave_for_what_is_asked_for_alone() {
    let texts = [
        "My locker code is 48213.",
        "A code of honour.",
        "The sky is blue.",
        "My locker is green.",
    ];
    let index: Index = passages(&texts).into_iter().collect();
    let query = Query::new("What is my locker code?");
    let residence = |block| if block < 2 { Residence::Absent } else { Residence::MayLeave };
    let found = choose(&index, &query, &residence, 0);
    let back: Vec<usize> = found.back.iter().map(|choice| choice.block).collect();
    assert_eq!(back, [0], "a passage with `code` alone comes back into free cells only");
    assert_eq!(found.stay, [3], "and what the query asks for does not leave for it");
    assert_eq!(choose(&index, &query, &residence, 20).back.len(), 2);
    let no_room = |block| if block < 2 { Residence::Absent } else { Residence::Resident };
    assert!(choose(&index, &query, &no_room, 0).back.is_empty());
}

/// Tickets of six cities, each asked for, called for and found: a call and its result are a group. Then talk.
fn tickets() -> Vec<Passage> {
    let mut texts = Vec::new();
    for city in ["Lima", "Oslo", "Lagos", "Quito", "Cairo", "Delhi"] {
        texts.push(format!("Find the ticket number for {city}.\n"));
        texts.push(format!(
            r#"{{"name": "find_ticket", "arguments": {{"city": "{city}"}}}}
"#
        ));
        texts.push(format!(r#"{{"city": "{city}", "notes": "The river is green."#));
        let notes =
            [" The mayor opened a gate.", " A baker saw the boat.", " The school closed at noon."];
        texts.extend(notes.map(str::to_owned));
        texts.push(format!(" It rained.\", \"ticket number\": \"{}\"}}\n", 1000 + texts.len()));
    }
    texts.extend((0..4).map(|_| "Nice weather today.\n".to_owned()));
    let mut passages = adjacent(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    for (at, passage) in passages.iter_mut().enumerate().take(42) {
        passage.group = if at % 7 == 0 { 0 } else { 1 + at as u64 / 7 };
    }
    passages
}

#[test]
fn of_a_call_and_its_result_the_parts_that_answer_come_back() {
    let index: Index = tickets().into_iter().collect();
    let query = Query::new("What is the ticket number for Lagos?");
    // What was asked, the call, the beginning of the result, and the part with the number.
    let [ask, call, city, number] = [14, 15, 16, 20];
    let talk_may_leave = |from: usize| {
        move |block| if block >= from { Residence::MayLeave } else { Residence::Absent }
    };
    let found = choose(&index, &query, &talk_may_leave(42), 0).back;
    let mut back: Vec<usize> = found.iter().map(|choice| choice.block).collect();
    back.sort_unstable();
    assert_eq!(back, [ask, call, city, number]);
    // The number is there: it stays.
    let residence =
        |block| if block == number { Residence::MayLeave } else { talk_may_leave(42)(block) };
    assert_eq!(choose(&index, &query, &residence, 0).stay, [number]);
}

#[test]
fn a_word_cut_by_a_border_is_a_word_of_both_sides() {
    let texts =
        ["The sky is blue.", "Remember: my umbre", "lla is in the hall.", "The end.", "A cat."];
    let found = recall(&adjacent(&texts), "Where is my umbrella?", 40);
    let mut blocks: Vec<usize> = found.iter().map(|choice| choice.block).collect();
    blocks.sort_unstable();
    assert_eq!(blocks, [1, 2]);
    assert!(found.iter().all(|choice| choice.why == Why::Lexical));
}

#[test]
fn a_group_comes_together() {
    let texts = [
        "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tromsø\"}}",
        "{\"sky\": \"cloudy\", \"degrees\": 3}",
        "Thanks.",
        "{\"sky\": \"sunny\", \"degrees\": 30}",
    ];
    let mut passages = passages(&texts);
    passages[0].group = 7;
    passages[1].group = 7;
    let found = recall(&passages, "How was the weather in Tromso?", 1000);
    let found: Vec<(usize, Why)> = found.iter().map(|choice| (choice.block, choice.why)).collect();
    assert_eq!(found, [(0, Why::Lexical), (1, Why::Group)]);
}

#[test]
fn the_name_of_a_file_counts_for_all_of_its_blocks() {
    let mut passages = passages(&[
        "[file:build.rs]\nport = 1\nhost = oslo\n",
        "retries = 11\ncache = lima\n",
        "[file:setup.rs]\nport = 2\nhost = cairo\n",
        "retries = 22\ncache = porto\n",
        "In deploy.md, retries is 33.",
    ]);
    for (block, group) in [(0, 1), (1, 1), (2, 2), (3, 2)] {
        passages[block].group = group;
    }
    let lexical = |query| {
        let found = recall(&passages, query, 1000);
        found.iter().find(|choice| choice.block % 2 == 1).map(|choice| choice.block)
    };
    assert_eq!(lexical("What is retries in build.rs?"), Some(1));
    assert_eq!(lexical("What is retries in setup.rs?"), Some(3));
}

#[test]
fn a_question_behind_a_long_text_is_heard() {
    let mut texts =
        vec!["The harbor watched a narrow street. Many small houses were painted at dusk."; 40];
    texts[3] = "My locker code is 48213.";
    let long = "A harbor master watched the houses, the street and whatever was painted there. "
        .repeat(60);
    let query = format!("{long}\nAnd by the way: what is my locker code?");
    assert!(recall(&passages(&texts), &query, 60).iter().any(|choice| choice.block == 3));
}

#[test]
fn meaning_finds_what_words_do_not() {
    let index: Index = passages(TALK).into_iter().collect();
    let mut vectors = Vectors::default();
    for block in 0..TALK.len() {
        vectors.add(block, vec![if block == 8 { vec![0.6, 0.8] } else { vec![1.0, 0.0] }]);
    }
    let query = Query { meaning: Some((&vectors, &[0.0, 1.0])), ..Query::new("salary?") };
    let found = choose(&index, &query, &|_| Residence::Absent, 1000).back;
    assert_eq!(found.iter().map(|c| (c.block, c.why)).collect::<Vec<_>>(), [(8, Why::Semantic)]);
}

#[test]
fn others_leave_for_what_is_by_far_nearest_in_meaning() {
    let index: Index = passages(TALK).into_iter().collect();
    let residence = |block| if block == 8 { Residence::Absent } else { Residence::MayLeave };
    let found = |far: [f32; 2]| {
        let mut vectors = Vectors::default();
        for block in 0..TALK.len() {
            vectors.add(block, vec![if block == 8 { vec![0.6, 0.8] } else { far.to_vec() }]);
        }
        let query = Query { meaning: Some((&vectors, &[0.0, 1.0])), ..Query::new("salary?") };
        let back = choose(&index, &query, &residence, 0).back;
        back.iter().map(|choice| choice.block).collect::<Vec<_>>()
    };
    assert_eq!(found([1.0, 0.0]), [8]);
    assert_eq!(found([0.6, 0.8]), [], "all mean the like");
}

#[test]
fn words_of_scripts_without_spaces_are_found() {
    let texts = [
        "我的储物柜密码是48213。",
        "今天天气很好。",
        "ロッカーの暗証番号は七七三一です。",
        "明日は雨が降ります。",
        "내 사물함 비밀번호는 9917입니다.",
    ];
    for (query, block) in [
        ("储物柜的密码是什么？", 0),
        ("天气怎么样？", 1),
        ("ロッカーの番号を教えてください", 2),
        ("사물함 비밀번호가 뭐예요?", 4),
        ("请看「密码」", 0),
    ] {
        assert_eq!(first(&passages(&texts), query).map(|(block, _)| block), Some(block), "{query}");
    }
}

#[test]
fn parts_of_compounds_are_found() {
    let texts = [
        "Der Schließfachcode lautet 48213.",
        "Das Wetter ist heute schön.",
        "Die Türklingel ist kaputt.",
        "Mein Geburtstag ist im Mai.",
    ];
    for (query, block) in [
        ("Wie ist der Code vom Schließfach?", 0),
        ("Welche Klingel ist defekt?", 2),
        ("Was war mit der Tuerklingel, also der Türklingel?", 2),
        ("Was ist das SCHLIESSFACHCODE?", 0),
    ] {
        assert_eq!(first(&passages(&texts), query).map(|(block, _)| block), Some(block), "{query}");
    }
    let apart = ["Der Code für das Schließfach ist 48213.", "Das Wetter ist schön."];
    assert_eq!(first(&passages(&apart), "Schließfachcode?").map(|(block, _)| block), Some(0));
}

#[test]
fn one_needle_is_found_among_200_passages_of_the_same_words() {
    let mut texts: Vec<String> = (0..200)
        .map(|at| {
            format!("The locker of room {at} is green, its code was changed, and my key fits.")
        })
        .collect();
    texts.insert(77, "As I said, my locker code is 48213.".into());
    let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
    assert_eq!(first(&passages(&texts), "What is my locker code?"), Some((77, Why::Lexical)));
    // The same, cut.
    let mut texts = texts;
    texts[77] = "It rained. As I said, my locker";
    texts.insert(78, " code is 48213. It rained again.");
    let found = recall(&adjacent(&texts), "What is my locker code?", 40);
    let mut blocks: Vec<usize> = found.iter().map(|choice| choice.block).collect();
    blocks.sort_unstable();
    assert_eq!(blocks, [77, 78]);
}
