//! Random names for answers and calls.

use hob_dialect::Dialect;

/// `chatcmpl-…`, `cmpl-…`.
pub fn answer(prefix: &str) -> String {
    format!("{prefix}-{}", random::<12>())
}

/// Mistral's templates insist on nine letters and digits.
pub fn call(dialect: Dialect) -> String {
    match dialect {
        Dialect::Mistral => random::<5>()[..9].to_owned(),
        _ => format!("call_{}", random::<12>()),
    }
}

fn random<const BYTES: usize>() -> String {
    let mut bytes = [0u8; BYTES];
    // Names need not be secret: without random numbers they are merely alike.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
