//! What the sampler promises.

use proptest::prelude::*;

use super::*;

fn choose(sampling: &Sampling, logits: &[f32]) -> Option<Token> {
    Sampler::new(sampling).choose(&mut logits.to_vec())
}

/// How often each token is drawn.
fn histogram(sampling: Sampling, logits: &[f32], draws: usize) -> Vec<f64> {
    let mut sampler = Sampler::new(&Sampling { seed: Some(7), ..sampling });
    let mut counts = vec![0.0; logits.len()];
    let mut logits = logits.to_vec();
    for _ in 0..draws {
        counts[sampler.choose(&mut logits).unwrap().0 as usize] += 1.0 / draws as f64;
    }
    counts
}

fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
    let weights: Vec<f64> = logits.iter().map(|&l| (f64::from(l) / temperature).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// Pearson's statistic stays below the 99.99th percentile for `len - 1` degrees of freedom.
fn assert_follows(seen: &[f64], expected: &[f64], draws: usize) {
    let statistic: f64 = seen
        .iter()
        .zip(expected)
        .filter(|(_, expected)| **expected > 0.0)
        .map(|(seen, expected)| (seen - expected).powi(2) / expected * draws as f64)
        .sum();
    let freedom = expected.len() as f64 - 1.0;
    // Wilson and Hilferty's approximation of the quantile.
    let spread = 2.0 / (9.0 * freedom);
    let limit = freedom * (1.0 - spread + 3.72 * spread.sqrt()).powi(3);
    assert!(statistic < limit, "chi-square {statistic} of {limit}: {seen:?} / {expected:?}");
}

#[test]
fn draws_follow_the_models_distribution() {
    let logits: Vec<f32> = (0..200).map(|i| ((i * 37) % 50) as f32 / 12.0).collect();
    for temperature in [0.5, 1.0, 2.0] {
        let sampling = Sampling { temperature, ..Sampling::default() };
        let seen = histogram(sampling, &logits, 20_000);
        assert_follows(&seen, &softmax(&logits, f64::from(temperature)), 20_000);
    }
}

#[test]
fn filters_apply_before_the_temperature() {
    // At temperature 2 the third token alone would reach 0.8; at 1 it does not.
    let logits = [0.6_f32.ln(), 0.25_f32.ln(), 0.15_f32.ln()];
    let sampling = Sampling { temperature: 2.0, top_p: 0.8, ..Sampling::default() };
    let seen = histogram(sampling, &logits, 50_000);
    let kept = softmax(&logits[..2], 2.0);
    assert_follows(&seen, &[kept[0], kept[1], 0.0], 50_000);
    assert_eq!(seen[2], 0.0);
}

#[test]
fn each_filter_removes_the_unlikely() {
    let logits = [0.5_f32.ln(), 0.3_f32.ln(), 0.15_f32.ln(), 0.05_f32.ln()];
    let possible = |sampling: Sampling| {
        let seen = histogram(sampling, &logits, 5_000);
        seen.iter().filter(|&&share| share > 0.0).count()
    };
    let default = Sampling::default;
    assert_eq!(possible(default()), 4);
    assert_eq!(possible(Sampling { top_k: 3, ..default() }), 3);
    assert_eq!(possible(Sampling { top_p: 0.7, ..default() }), 2);
    assert_eq!(possible(Sampling { top_p: 0.0, ..default() }), 1);
    assert_eq!(possible(Sampling { min_p: 0.2, ..default() }), 3);
    assert_eq!(possible(Sampling { min_p: 1.0, ..default() }), 1);
    assert_eq!(possible(Sampling { top_k: 3, top_p: 0.9, min_p: 0.5, ..default() }), 2);
}

#[test]
fn xtc_leaves_out_all_likely_tokens_but_the_least_likely_one() {
    let logits = [0.5_f32.ln(), 0.3_f32.ln(), 0.15_f32.ln(), 0.05_f32.ln()];
    let with = |xtc_probability, xtc_threshold| Sampling {
        xtc_probability,
        xtc_threshold,
        ..Sampling::default()
    };
    let seen = histogram(with(1.0, 0.1), &logits, 20_000);
    assert_eq!((seen[0], seen[1]), (0.0, 0.0));
    assert_follows(&seen[2..], &[0.75, 0.25], 20_000);
    // Every other draw is of all tokens.
    let seen = histogram(with(0.5, 0.1), &logits, 20_000);
    assert_follows(&seen, &[0.25, 0.15, 0.45, 0.15], 20_000);
    // One token alone is as likely, or none: nothing is left out.
    for threshold in [0.4, 0.6, 1.0] {
        let seen = histogram(with(1.0, threshold), &logits, 20_000);
        assert_follows(&seen, &[0.5, 0.3, 0.15, 0.05], 20_000);
    }
    // Of what the other filters keep: 0.3 of 0.8 is more than 0.35.
    let filtered = Sampling { top_k: 2, ..with(1.0, 0.35) };
    assert_eq!(choose(&filtered, &logits), Some(Token(1)));
    let greedy = Sampling { temperature: 0.0, ..with(1.0, 0.1) };
    assert_eq!(choose(&greedy, &logits), Some(Token(0)));
}

#[test]
fn odds_leave_out_what_the_choice_left_out() {
    let mut logits = [0.5_f32.ln(), 0.3_f32.ln(), 0.2_f32.ln()];
    let xtc = Sampling { xtc_probability: 0.5, seed: Some(3), ..Sampling::default() };
    let mut sampler = Sampler::new(&xtc);
    let (mut whole, mut excluding) = (0, 0);
    for _ in 0..100 {
        let chosen = sampler.choose(&mut logits).unwrap();
        let odds = sampler.odds(&mut logits, chosen, 3);
        match odds.top.len() {
            3 => whole += 1,
            1 => {
                excluding += 1;
                assert_eq!((chosen, odds.chosen), (Token(2), 0.0));
            }
            other => panic!("{other} tokens"),
        }
    }
    assert!(whole > 0 && excluding > 0, "{whole} {excluding}");
}

#[test]
fn a_token_that_may_not_be_chosen_is_never_chosen_and_has_no_odds() {
    let logits = [9.0, 8.0, 7.0, 1.0, 0.0];
    let tokens = |ids: &[i32]| ids.iter().copied().map(Token).collect::<Vec<_>>();
    let with = |allowed: Option<&[i32]>, banned: &[i32]| Sampling {
        allowed: allowed.map(|ids| tokens(ids).into_iter().collect()),
        banned: tokens(banned),
        logit_bias: vec![(Token(0), 100.0)],
        ..Sampling::greedy()
    };
    assert_eq!(choose(&with(None, &[]), &logits), Some(Token(0)));
    assert_eq!(choose(&with(None, &[0, 1]), &logits), Some(Token(2)));
    assert_eq!(choose(&with(Some(&[4, 3]), &[]), &logits), Some(Token(3)));
    assert_eq!(choose(&with(Some(&[3, 4]), &[3]), &logits), Some(Token(4)));
    assert_eq!(choose(&with(Some(&[3]), &[3]), &logits), None);

    let drawn = Sampling { temperature: 2.0, ..with(Some(&[1, 3, 4]), &[4]) };
    let seen = histogram(drawn.clone(), &logits, 2_000);
    assert_eq!((seen[0], seen[2], seen[4]), (0.0, 0.0, 0.0));
    let mut copy = logits;
    let odds = Sampler::new(&drawn).odds(&mut copy, Token(1), 5);
    assert_eq!(odds.top.iter().map(|(token, _)| token.0).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(copy, logits);
}

#[test]
fn a_choice_among_allowed_tokens_changes_no_logit_and_reads_those_of_the_others_not_at_all() {
    let mut logits: Vec<f32> = (0..1000).map(|i| ((i * 37) % 50) as f32 / 12.0).collect();
    let allowed: Vec<usize> = vec![7, 400, 401, 999];
    let tokens = allowed.iter().map(|&id| Token(id as i32));
    let sampling = Sampling {
        allowed: Some(tokens.chain([-1, 1000].map(Token)).collect()),
        seed: Some(7),
        ..Sampling::default()
    };
    let mut sampler = Sampler::new(&sampling);
    assert!(!sampler.sampling.reshapes());
    let mut seen = vec![0.0; allowed.len()];
    for _ in 0..20_000 {
        let token = sampler.pick(&logits).unwrap().0 as usize;
        seen[allowed.iter().position(|&id| id == token).unwrap()] += 1.0 / 20_000.0;
    }
    let of_allowed: Vec<f32> = allowed.iter().map(|&id| logits[id]).collect();
    assert_follows(&seen, &softmax(&of_allowed, 1.0), 20_000);

    let odds = sampler.odds(&mut logits, Token(8), 1000);
    assert_eq!((odds.chosen, odds.top.len()), (LOWEST_LOGPROB, allowed.len()));
    let chosen = sampler.odds(&mut logits, Token(400), 0).chosen;
    assert_eq!(
        odds.top.iter().find(|(token, _)| *token == Token(400)),
        Some(&(Token(400), chosen))
    );
    let none = Sampling { allowed: Some([1000].map(Token).into()), ..Sampling::greedy() };
    assert_eq!(choose(&none, &logits), None);
}

#[test]
fn equal_seeds_choose_equal_tokens() {
    let logits: Vec<f32> = (0..1000).map(|i| (i % 13) as f32).collect();
    let answer = |seed| {
        let mut sampler = Sampler::new(&Sampling { seed: Some(seed), ..Sampling::default() });
        (0..50).map(|_| sampler.choose(&mut logits.clone()).unwrap().0).collect::<Vec<_>>()
    };
    assert_eq!(answer(1), answer(1));
    assert_ne!(answer(1), answer(2));
}

/// A change of generator, of `exp` or of the order of sums would change what users' seeds give.
#[test]
fn a_seed_gives_the_same_tokens_in_every_release() {
    let mut logits: Vec<f32> = (0..64).map(|i| (i % 7) as f32 * 0.5).collect();
    let mut sampler = Sampler::new(&Sampling { seed: Some(42), ..Sampling::default() });
    let tokens: Vec<i32> = (0..8).map(|_| sampler.choose(&mut logits).unwrap().0).collect();
    assert_eq!(tokens, [38, 11, 25, 15, 9, 25, 13, 55]);
}

#[test]
fn temperature_zero_takes_the_likeliest_and_the_lowest_id_on_ties() {
    assert_eq!(choose(&Sampling::greedy(), &[1.0, 3.0, 3.0, 2.0]), Some(Token(1)));
}

#[test]
fn the_smallest_temperature_is_as_good_as_zero() {
    let sampling = Sampling { temperature: 1e-45, ..Sampling::default() };
    assert_eq!(choose(&sampling, &[1.0, 2.0]), Some(Token(1)));
}

#[test]
fn logits_without_a_candidate_choose_none() {
    for logits in [&[][..], &[f32::NEG_INFINITY; 4], &[f32::NAN; 2]] {
        assert_eq!(choose(&Sampling::greedy(), logits), None);
        assert_eq!(choose(&Sampling::default(), logits), None);
    }
}

#[test]
fn a_nan_is_never_chosen() {
    let seen = histogram(Sampling::default(), &[f32::NAN, 0.0, f32::NAN, 0.0], 1_000);
    assert_eq!((seen[0], seen[2]), (0.0, 0.0));
}

#[test]
fn bias_moves_a_token_up_and_down_but_not_past_a_grammar() {
    let logits = [0.0, 1.0, f32::NEG_INFINITY];
    let biased = |token, bias| Sampling { logit_bias: vec![(token, bias)], ..Sampling::greedy() };
    assert_eq!(choose(&biased(Token(0), 5.0), &logits), Some(Token(0)));
    assert_eq!(choose(&biased(Token(1), -100.0), &logits), Some(Token(0)));
    assert_eq!(choose(&biased(Token(2), 100.0), &logits), Some(Token(1)));
    assert_eq!(choose(&biased(Token(99), 100.0), &logits), Some(Token(1)));
    assert_eq!(choose(&biased(Token(-1), 100.0), &logits), Some(Token(1)));
}

#[test]
fn frequency_and_presence_count_generated_tokens_only() {
    for sampling in [
        Sampling { frequency_penalty: 1.0, ..Sampling::greedy() },
        Sampling { presence_penalty: 1.0, ..Sampling::greedy() },
    ] {
        let mut sampler = Sampler::new(&sampling);
        sampler.prime(&[Token(0)]);
        assert_eq!(sampler.choose(&mut [1.0, 0.5]), Some(Token(0)));
        sampler.accept(Token(0));
        assert_eq!(sampler.choose(&mut [1.0, 0.5]), Some(Token(1)));
    }
}

#[test]
fn frequency_grows_with_the_count_and_presence_does_not() {
    let after_three = |sampling: Sampling| {
        let mut sampler = Sampler::new(&sampling);
        [Token(0); 3].iter().for_each(|&token| sampler.accept(token));
        sampler.choose(&mut [2.0, 0.0])
    };
    let greedy = Sampling::greedy;
    assert_eq!(after_three(Sampling { frequency_penalty: 1.0, ..greedy() }), Some(Token(1)));
    assert_eq!(after_three(Sampling { presence_penalty: 1.0, ..greedy() }), Some(Token(0)));
    assert_eq!(after_three(Sampling { frequency_penalty: -1.0, ..greedy() }), Some(Token(0)));
}

#[test]
fn the_repeat_penalty_looks_back_64_tokens_into_the_prompt_or_as_many_as_are_set() {
    let sampling = Sampling { repeat_penalty: 2.0, ..Sampling::greedy() };
    let with = |sampling: &Sampling, prompt: &[Token], logits: &[f32]| {
        let mut sampler = Sampler::new(sampling);
        sampler.prime(prompt);
        sampler.choose(&mut logits.to_vec())
    };
    let after = |prompt: &[Token], logits: &[f32]| with(&sampling, prompt, logits);
    assert_eq!(after(&[Token(0), Token(0)], &[1.5, 1.0]), Some(Token(1)));
    assert_eq!(after(&[Token(0)], &[-1.0, -1.5]), Some(Token(1)), "worse below zero too");
    let mut long_ago = vec![Token(0)];
    long_ago.extend([Token(2); 64]);
    assert_eq!(after(&long_ago, &[1.5, 1.0, 0.0]), Some(Token(0)));
    for (repeat_window, chosen) in [(0, 0), (64, 0), (65, 1), (usize::MAX, 1)] {
        let sampling = Sampling { repeat_window, ..sampling.clone() };
        let token = with(&sampling, &long_ago, &[1.5, 1.0, 0.0]);
        assert_eq!(token, Some(Token(chosen)), "{repeat_window}");
    }
    let mut twice = Sampler::new(&Sampling { repeat_window: 2, ..sampling });
    [0, 0, 1].map(Token).iter().for_each(|&token| twice.accept(token));
    assert_eq!(twice.choose(&mut [1.5, 1.2, 1.0]), Some(Token(2)), "one of two has left");
}

#[test]
fn choosing_leaves_the_logits_as_they_were() {
    let sampling = Sampling {
        repeat_penalty: 1.3,
        frequency_penalty: 0.5,
        logit_bias: vec![(Token(1), 3.0), (Token(1), 4.0)],
        ..Sampling::default()
    };
    let mut sampler = Sampler::new(&sampling);
    sampler.prime(&[Token(1), Token(2)]);
    sampler.accept(Token(1));
    let mut logits = [0.1, 0.2, 0.3];
    sampler.choose(&mut logits);
    assert_eq!(logits, [0.1, 0.2, 0.3]);
}

fn any_logit() -> impl Strategy<Value = f32> {
    prop_oneof![
        6 => -50.0_f32..50.0,
        1 => any::<f32>(),
        1 => Just(f32::NEG_INFINITY),
        1 => Just(f32::INFINITY),
        1 => Just(f32::NAN),
    ]
}

proptest! {
    #[test]
    fn any_logits_and_parameters_choose_a_possible_token_or_none(
        mut logits in prop::collection::vec(any_logit(), 0..300),
        temperature in 0.0_f32..2.0,
        top_p in 0.0_f32..=1.0,
        top_k in 0_usize..20,
        min_p in 0.0_f32..=1.0,
        repeat_penalty in 0.1_f32..10.0,
        frequency_penalty in -2.0_f32..2.0,
        seed in any::<u64>(),
        said in prop::collection::vec(-3_i32..310, 0..100),
    ) {
        let sampling = Sampling {
            temperature, top_p, top_k, min_p, repeat_penalty, frequency_penalty,
            seed: Some(seed), ..Sampling::default()
        };
        let said: Vec<Token> = said.into_iter().map(Token).collect();
        let mut sampler = Sampler::new(&sampling);
        sampler.prime(&said);
        said.iter().for_each(|&token| sampler.accept(token));
        let chosen = sampler.choose(&mut logits);
        let possible = |logit: f32| logit > f32::NEG_INFINITY;
        match chosen {
            Some(token) => prop_assert!(possible(logits[token.0 as usize])),
            // A penalty can push a huge logit over the edge of f32; nothing else loses them all.
            None => prop_assert!(!logits.iter().any(|&l| possible(l) && l.abs() < 1e30)),
        }
    }
}

#[test]
#[ignore = "a measurement: cargo test --release -- --ignored --nocapture sampling_time"]
fn sampling_time() {
    let mut logits: Vec<f32> = (0..152_000_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32)
        .map(|u| (u - 0.5) * 20.0)
        .collect();
    for (name, sampling) in [
        ("greedy", Sampling::greedy()),
        ("default", Sampling::default()),
        ("top_k 40", Sampling { top_k: 40, ..Sampling::default() }),
        ("top_p 0.95", Sampling { top_p: 0.95, ..Sampling::default() }),
        ("min_p 0.05", Sampling { min_p: 0.05, ..Sampling::default() }),
        (
            "usual",
            Sampling {
                temperature: 0.8,
                top_k: 40,
                top_p: 0.95,
                min_p: 0.05,
                ..Sampling::default()
            },
        ),
    ] {
        let mut sampler = Sampler::new(&sampling);
        sampler.choose(&mut logits);
        let start = std::time::Instant::now();
        for _ in 0..100 {
            sampler.choose(&mut logits);
        }
        println!("{name:12} {:?} a token", start.elapsed() / 100);
    }
}

#[test]
fn odds_are_those_of_the_draws() {
    let logits: Vec<f32> = (0..60).map(|i| ((i * 37) % 50) as f32 / 12.0).collect();
    let sampling = Sampling {
        temperature: 0.7,
        top_k: 20,
        top_p: 0.9,
        logit_bias: vec![(Token(3), -2.0)],
        ..Sampling::default()
    };
    let mut sampler = Sampler::new(&sampling);
    let mut same = logits.clone();
    let odds = sampler.odds(&mut same, Token(0), 60);
    assert_eq!(same, logits);
    let mut expected = vec![0.0; logits.len()];
    for (token, logprob) in &odds.top {
        expected[token.0 as usize] = f64::from(logprob.exp());
    }
    assert!((expected.iter().sum::<f64>() - 1.0).abs() < 1e-5);
    let seen = histogram(sampling, &logits, 20_000);
    assert!(seen.iter().zip(&expected).all(|(seen, odds)| *seen == 0.0 || *odds > 0.0));
    let likely: Vec<usize> = (0..60).filter(|&at| expected[at] > 0.0).collect();
    let of = |all: &[f64]| likely.iter().map(|&at| all[at]).collect::<Vec<_>>();
    assert_follows(&of(&seen), &of(&expected), 20_000);
}

#[test]
fn without_temperature_one_token_has_all_the_odds() {
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    let odds = Sampler::new(&sampling).odds(&mut [1.0, 3.0, 2.0], Token(1), 5);
    assert_eq!((odds.chosen, odds.top), (0.0, vec![(Token(1), 0.0)]));
}
