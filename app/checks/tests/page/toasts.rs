//! Short messages: where they stand, how many there are, and when they leave.

use hob_checks::Page;

#[test]
fn equal_messages_are_one_and_leave_the_composer_free() {
    let (_hobd, page) = Page::with_answers(&["apples"]);
    page.tool("@answer", "Copy");
    page.tool("@answer", "Copy");
    page.reads("@toast", "× 2");
    assert_eq!(page.count("@toast"), 1);
    page.save_picture("toast");
    let covered = page.script(
        "const [toast, composer, numbers] = ['@toast', '@composer', '@answer .numbers'].map(place => one(place).getBoundingClientRect());
         return [composer, numbers].some(other => toast.bottom > other.top && toast.top < other.bottom
             && toast.right > other.left && toast.left < other.right)",
    );
    assert_eq!(covered, false);
    page.click("@toast .toast-close");
    page.hides("@toast");

    page.tool("@answer", "Copy");
    page.shows("@toast");
    page.open_page("memory");
    page.hides("@toast");
}

/// Notes the timers that hide messages.
const NOTE_TIMERS: &str = "
    window.begun = [];
    window.stopped = [];
    const [begin, stop] = [window.setTimeout, window.clearTimeout];
    window.setTimeout = (act, ms, ...rest) => {
        const timer = begin(act, ms, ...rest);
        if (ms === 8000) window.begun.push(timer);
        return timer;
    };
    window.clearTimeout = (timer) => {
        window.stopped.push(timer);
        stop(timer);
    };";

#[test]
fn a_message_stays_while_the_pointer_or_the_focus_is_on_it() {
    let (_hobd, page) = Page::with_answers(&["apples"]);
    page.script(NOTE_TIMERS);
    page.tool("@answer", "Copy");
    page.hover("@toast");
    let stopped = "window.begun.length === 1 && window.stopped.includes(window.begun[0])";
    page.until("its time has stopped", stopped);
    page.hover("@composer");
    page.until("its time begins again", "window.begun.length === 2");

    page.script("one('@toast .toast-close').focus()");
    page.until("its time has stopped again", "window.stopped.includes(window.begun[1])");
    page.hover("@toast");
    page.hover("@composer");
    assert_eq!(page.script("return window.begun.length"), 2, "the focus is still on it");
    assert_eq!(page.count("@toast"), 1);
    page.press("Enter");
    page.hides("@toast");
}
