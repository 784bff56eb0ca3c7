//! The line above every page.

use hob_checks::{Hobd, Look, Model, Page};

/// The status of a daemon that loads a model, whose name is one long word.
const LOADING: &str = "
    const answer = window.fetch;
    window.fetch = async (path, ...rest) => {
        const response = await answer(path, ...rest);
        if (path !== '/v1/status') return response;
        const loading = { residency: 'loading', loaded_percent: 40, model: 'Qwen_2.5_'.repeat(14) };
        return Response.json({ ...(await response.json()), ...loading });
    };";

#[test]
fn the_words_beside_its_progress_have_their_room() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.script(LOADING);
    page.shows("@banner progress");
    page.reads("@banner", "Loading Qwen");

    // Three lines of the 992 pixels beside the list.
    let is_low = "const {width, height} = one('@banner .grow').getBoundingClientRect();
        return width > 600 && height < 70";
    assert_eq!(page.script(is_low), true);
    page.show(Look { width: 400, height: 800, ..Look::default() });
    page.until(
        "it fits into a narrow window",
        "(({scrollWidth, clientWidth}) => clientWidth <= 400 && scrollWidth <= clientWidth + 1)(one('@banner'))",
    );
}

#[test]
fn a_screen_reader_knows_its_place_before_it_has_words() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    assert_eq!(page.count("@banner"), 0);
    page.script("one('.page > [role=status]').dataset.isKnown = true");
    page.script(LOADING);
    page.shows("[data-is-known] > @banner");
}
