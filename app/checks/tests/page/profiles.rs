//! Editing profiles.

use hob_checks::chat::slowly;
use hob_checks::{Hobd, Look, Model, Page};

const RULES: &str = "Keep every answer short. Use plain words. Ask when something is unclear.";

#[test]
fn a_new_profile_is_saved_and_prewarmed() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.click("@to-profiles");

    page.click("@new-profile");
    page.shows("@question");
    page.write("home\n");
    page.fill("@content", "You are Ember, a calm home assistant.");
    page.shows("@prefix-figures");
    page.click("@save-profile");
    page.until("it is warm", "one('@warmth')?.dataset.state === 'warm'");

    // A segment behind it computes no token before it.
    page.click("@add-text");
    page.until("there are two", "all('@segment').length === 2");
    page.fill("@segment:last-of-type @content", RULES);
    page.shows("@computed");
    page.reads("@profile-foot", "will be computed");
    page.click("@save-profile");
    page.until("it is warm again", "one('@warmth')?.dataset.state === 'warm' && !one('@computed')");
    let status = hobd.client.get("/v1/status");
    let prefix = &status["prefixes"][0];
    let [tokens, computed] =
        ["tokens", "computed_tokens"].map(|name| prefix[name].as_u64().unwrap());
    assert!(computed >= RULES.len() as u64 && computed < tokens, "{prefix}");

    let kept = std::fs::read_to_string(hobd.directory().join("profiles/home.toml")).unwrap();
    assert!(kept.contains(RULES), "{kept}");
    // The prefix is hot for a chat that starts with it.
    page.press("Alt+n");
    page.click("@instructions");
    page.put("@profile", "home");
    page.click("@instructions-save");
    page.ask("Hello");
    let numbers = page.last_figures();
    assert!(numbers.contains(" hot"), "{numbers}");
}

#[test]
fn a_name_with_spaces_is_checked_in_the_dialog_and_kept() {
    let hobd = Hobd::start(Model::Fake);
    hobd.write_rules("my-helper", &["Be brief."]);
    let page = Page::open(&hobd);
    page.open_page("profiles");
    page.reads("h1", "Instructions");
    page.reads("@profile-row", "my helper");
    page.click("@new-profile");
    page.write("My Helper\n");
    page.reads("@question-problem", "already");
    assert_eq!(page.count("@toast"), 0);
    page.write(" für später\n");
    page.hides("@question");
    page.reads("h2", "My Helper fuer spaeter");
    page.hides("@stable");
    page.click("@segment-details summary");
    page.shows("@stable");
    page.fill("@content", "Answer briefly.");
    page.reads("@profile-foot", "will be computed");
    page.click("@save-profile");
    page.reads("@toast", "My Helper fuer spaeter");
    assert!(hobd.directory().join("profiles/My-Helper-fuer-spaeter.toml").exists());
    page.press("Alt+n");
    page.click("@instructions");
    page.until("a chat can have them", "one('@profile')?.innerText.includes('My Helper fuer')");
}

#[test]
fn a_volatile_word_in_the_prefix_is_marked() {
    let hobd = Hobd::start(Model::Fake);
    hobd.write_rules("dated", &["Today is 2026-11-21.", RULES]);
    let page = Page::open(&hobd);
    page.click("@to-profiles");
    page.click("@profile-row");

    page.reads("@volatile", "2026-11-21");
    page.click("@behind");
    page.until(
        "it stands behind what stays",
        "one('@segment:last-of-type @content')?.value.includes('2026')",
    );
    page.until("it may change", "!one('@segment:last-of-type @stable').checked");
    page.hides("@volatile");
    page.click("@save-profile");
    page.reads("@toast", "saved");
}

#[test]
fn parts_stand_in_the_direction_of_their_text() {
    let hobd = Hobd::start(Model::Fake);
    hobd.write_rules("home", &["ענה בקצרה. 2026-11-21", "Be brief."]);
    let page = Page::open(&hobd);
    page.open_page("profiles");
    page.click("@profile-row");
    page.shows("@volatile");
    // The marks are drawn by a copy below the field.
    let directions = page.script(
        "return all('.marked').map(({children}) => [...children].map(it => getComputedStyle(it).direction))",
    );
    assert_eq!(directions, serde_json::json!([["rtl", "rtl"], ["ltr", "ltr"]]));
}

#[test]
fn a_prewarm_does_not_disturb_editing() {
    let hobd = Hobd::start(Model::Fake);
    hobd.write_rules("home", &["Be brief."]);
    let page = Page::open(&hobd);
    page.send(&slowly(200));
    page.reads("@live", "word");
    page.click("@to-profiles");
    page.click("@profile-row");
    page.fill("@content", RULES);
    page.reads("@profile-foot", "will be computed");
    page.click("@save-profile");
    page.reads("@toast", "saved");

    page.click("@content");
    page.script("window.field = one('@content')");
    page.until("it is warm", "one('@warmth')?.dataset.state === 'warm'");

    assert_eq!(page.script("return window.field === document.activeElement"), true);
}

/// The profile `home` is always being read ahead, so that the page asks for it again and again. While `isHeld`, the
/// answers wait for `release()`, and say then that the old text is ready.
const LATE: &str = "
    const answer = window.fetch;
    const isProfile = (path) => path.endsWith('/v1/profiles/home');
    const released = new Promise((release) => { window.release = release; });
    Object.assign(window, { isHeld: false, held: 0, asked: 0 });
    window.fetch = async (path, options) => {
        const response = await answer(path, options);
        if (!isProfile(path)) return response;
        const profile = await response.json();
        if (options.method !== 'GET' || !window.isHeld) {
            window.asked += Number(options.method === 'GET');
            return Response.json({ ...profile, state: 'warming' });
        }
        window.held += 1;
        await released;
        const segments = profile.segments.map((segment) => ({ ...segment, warm: true }));
        return Response.json({ ...profile, segments, state: 'warm' });
    };";

#[test]
fn what_was_saved_is_not_replaced_by_an_older_answer_that_comes_later() {
    let hobd = Hobd::start(Model::Fake);
    hobd.write_rules("home", &["Be brief."]);
    let page = Page::open(&hobd);
    page.open_page("profiles");
    page.script(LATE);
    page.click("@profile-row");
    page.until("it is read", "one('@content')?.value === 'Be brief.'");
    page.script("window.isHeld = true");
    page.until("an answer is on its way", "window.held > 0");
    page.fill("@content", RULES);
    page.reads("@profile-foot", "will be computed");
    page.click("@save-profile");
    page.reads("@toast", "saved");

    page.script("window.isHeld = false; window.asked = 0; window.release()");
    page.until("it is read once more", "window.asked > 0");
    assert_eq!(page.script("return one('@content').value"), RULES);
}

#[test]
fn what_has_the_focus_is_not_under_the_foot_of_the_page() {
    let hobd = Hobd::start(Model::Fake);
    hobd.write_rules("home", &[RULES; 6]);
    let page = Page::open_as(&hobd, Look { height: 500, ..Look::default() });
    page.open_page("profiles");
    page.click("@profile-row");
    page.until("all parts are there", "all('@segment').length === 6");
    page.focus("@content");
    let is_under = "const {activeElement: it} = document;
        const {bottom} = it.getBoundingClientRect();
        return it.closest('@segment') !== null && bottom > one('@profile-foot').getBoundingClientRect().top";
    let is_under = is_under.replace("@segment", "[data-test=segment]");
    for at in 0..24 {
        page.press("Tab");
        assert_eq!(page.script(&is_under), false, "the stop {at}");
    }
}

/// The list says that each profile is being read ahead until `isRead` is true.
const UNREAD: &str = "
    window.isRead = false;
    const answer = window.fetch;
    window.fetch = async (path, ...rest) => {
        const response = await answer(path, ...rest);
        if (path !== '/v1/profiles' || window.isRead) return response;
        const list = await response.json();
        return Response.json({ ...list, data: list.data.map((one) => ({ ...one, state: 'warming' })) });
    };";

#[test]
fn the_list_shows_when_instructions_have_been_read_ahead() {
    let hobd = Hobd::start(Model::Fake);
    hobd.write_rules("home", &["Be brief."]);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.script(UNREAD);
    page.open_page("profiles");
    page.reads("@profile-row @warmth", "being read");
    page.script("window.isRead = true");
    page.is_state("@profile-row @warmth", "warm");
}

/// Drags the first part and lets it go outside, then drags a file over the last one.
const DRAG: &str = "
    const done = arguments[0];
    const parts = () => [...document.querySelectorAll('[data-test=segment]')];
    const fire = (element, Kind, kind) =>
        element.dispatchEvent(new Kind(kind, { bubbles: true, cancelable: true }));
    const drawn = () => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    const drag = async () => {
        fire(parts()[0].querySelector('.grip'), PointerEvent, 'pointerdown');
        await drawn();
        const seen = [parts()[0].draggable];
        fire(parts()[0], DragEvent, 'dragstart');
        fire(parts()[0], DragEvent, 'dragend');
        await drawn();
        fire(parts().at(-1), DragEvent, 'dragover');
        await drawn();
        done([...seen, parts()[0].draggable, parts().at(-1).classList.contains('over')]);
    };
    drag();";

#[test]
fn a_drag_of_a_part_that_ends_outside_is_over() {
    let hobd = Hobd::start(Model::Fake);
    hobd.write_rules("home", &[RULES; 2]);
    let page = Page::open(&hobd);
    page.open_page("profiles");
    page.click("@profile-row");
    page.until("both parts are there", "all('@segment').length === 2");
    let seen = page.run_async(DRAG, &[]).expect("it can be dragged");
    assert_eq!(seen, serde_json::json!([true, false, false]));
}

#[test]
fn the_focus_follows_parts_that_are_added_and_removed() {
    let hobd = Hobd::start(Model::Fake);
    hobd.write_rules("home", &["Be brief."]);
    let page = Page::open(&hobd);
    page.click("@to-profiles");
    page.click("@profile-row");
    page.shows("@segment");
    page.click("@add-text");
    page.until(
        "the new part has the focus",
        "all('@segment').length === 2 && document.activeElement === all('@content').at(-1)",
    );
    page.click("@segment:last-of-type @remove");
    page.until(
        "the part before it has the focus",
        "all('@segment').length === 1 && document.activeElement === one('@remove')",
    );
    page.click("@remove");
    page.until(
        "what adds a part has the focus",
        "all('@segment').length === 0 && document.activeElement === one('@add-text')",
    );
}
