//! What cannot be read or checked: it says why, once, and is there when the daemon answers again.

use hob_checks::answers::held;
use hob_checks::{Hobd, Model, Page};

/// Answers each request for documents with an error until `isDown` is false.
const REFUSE: &str = "
    window.isDown = true;
    window.refused = 0;
    const answer = window.fetch;
    window.fetch = (path, ...rest) => {
        if (!window.isDown || !path.includes('/v1/documents?')) return answer(path, ...rest);
        window.refused += 1;
        const error = JSON.stringify({ error: { message: 'the disk is gone' } });
        return Promise.resolve(new Response(error, { status: 500 }));
    };";

#[test]
fn a_library_that_cannot_be_read_says_why_once_and_is_there_afterwards() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.script(REFUSE);
    page.click("@to-library");
    page.reads("@page-library [role=alert]", "the disk is gone");
    page.until("it is asked again", "window.refused > 1");
    assert_eq!(page.count("@toast"), 0);
    page.script("window.isDown = false");
    page.reads("@page-library", "Drop text");
}

#[test]
fn a_library_says_that_it_is_being_read() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.script(&held("/v1/documents?"));
    page.click("@to-library");
    page.reads("@page-library [role=status]", "Reading");
    page.script("window.release()");
    page.reads("@page-library", "Drop text");
}

/// Requests whose address `isDown` is true of reach no daemon.
const UNREACHABLE: &str = "
    window.isDown = () => false;
    const answer = window.fetch;
    window.fetch = (path, ...rest) =>
        window.isDown(path) ? Promise.reject(new TypeError('it is away')) : answer(path, ...rest);";

#[test]
fn instructions_models_and_settings_are_read_when_the_daemon_answers_again() {
    let hobd = Hobd::start(Model::Fake);
    hobd.write_rules("home", &["Be brief."]);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.script(UNREACHABLE);
    for (place, unread, page_of_it, read) in [
        ("profiles", "/v1/profiles", "@page-profiles", "@profile-row"),
        ("profiles/home", "/v1/profiles/home", "@page-profiles", "@content"),
        ("models", "/v1/models/local", "@page-models", "@model"),
        ("models/first", "/v1/models/suggested", "@first", "@suggestion"),
        ("settings", "/v1/settings", "@page-settings", "@engine"),
    ] {
        page.script_with(
            "const [place, unread] = arguments;
             window.isDown = (path) => path.startsWith(unread);
             location.hash = `#/${place}`;",
            &[place.into(), unread.into()],
        );
        page.reads(page_of_it, "the daemon does not answer");
        page.script("window.isDown = (path) => path.startsWith('/v1/')");
        page.reads("@banner", "Hob cannot be reached");
        page.script("window.isDown = () => false");
        page.hides("@banner");
        page.shows(read);
    }
}

#[test]
fn changed_instructions_can_be_saved_when_the_daemon_answers_again() {
    let hobd = Hobd::start(Model::Fake);
    hobd.write_rules("home", &["Be brief."]);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.script(UNREACHABLE);
    page.script("location.hash = '#/profiles/home'");
    page.shows("@content");
    page.script("window.isDown = (path) => path === '/v1/profiles/check'");
    page.fill("@content", "Be kind.");
    page.reads("@profile-foot", "the daemon does not answer");
    page.script("window.isDown = (path) => path.startsWith('/v1/')");
    page.reads("@banner", "Hob cannot be reached");
    page.script("window.isDown = () => false");
    page.hides("@banner");
    page.click("@save-profile");
    page.reads("@toast", "saved");
}
