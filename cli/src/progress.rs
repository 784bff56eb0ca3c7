//! Progress bars, shown on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over bytes, on standard error.
pub fn bytes(total_bytes: u64, what: &str, on_terminal: bool) -> ProgressBar {
    let target =
        if on_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = "{msg} {wide_bar} {bytes}/{total_bytes} {eta}";
    let style = ProgressStyle::with_template(style).expect("the template is well-formed");
    let bar = ProgressBar::with_draw_target(Some(total_bytes), target).with_style(style);
    bar.with_message(what.to_owned())
}
