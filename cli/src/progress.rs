//! A bar for long work. Without a terminal there is none.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over bytes, on standard error.
pub fn bytes(total_bytes: u64, what: &str, on_terminal: bool) -> ProgressBar {
    let target = match on_terminal {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let style = "{msg} {wide_bar} {bytes}/{total_bytes} {eta}";
    let style = ProgressStyle::with_template(style).expect("the template is well-formed");
    let bar = ProgressBar::with_draw_target(Some(total_bytes), target).with_style(style);
    bar.with_message(what.to_owned())
}
