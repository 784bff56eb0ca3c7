//! The look of a conversation: rhythm, type scale, code, tables, directions.

use hob_checks::{Hobd, Look, Model, Page};
use serde_json::{Value, json};

const TEXT: &str = "# One\n\n## Two\n\n### Three\n\n#### Four\n\nA paragraph with `code`.\n\n```js\nlet a = 1;\n```\n\n\
    | Region | Amount |\n|---|---|\n| Northern | 1,204 |";

fn start(look: Look) -> (Hobd, Page) {
    let hobd = Hobd::start(Model::Fake);
    hobd.client.say("look", &format!("Say this: {TEXT}"));
    hobd.client.say("look", "Say this: short");
    hobd.client.rename("look", "Look");
    let page = Page::open_as(&hobd, look);
    page.shows("@composer");
    page.go(&format!("{}/#/chat/look", hobd.origin()));
    page.answered(2);
    page.until("it is drawn", "one('@answer .text table')");
    (hobd, page)
}

/// Pixels of a style of an element.
fn pixels(page: &Page, place: &str, style: &str) -> f64 {
    let value = page.script_with(
        "return parseFloat(getComputedStyle(one(arguments[0]))[arguments[1]])",
        &[place.into(), style.into()],
    );
    value.as_f64().unwrap_or_else(|| panic!("{place} has no {style}"))
}

#[test]
fn headings_text_code_and_notes_have_their_sizes() {
    let (_hobd, page) = start(Look::default());
    for (place, size) in [
        ("@answer .text h3", 20.0),
        ("@answer .text h4", 17.0),
        ("@answer .text h5", 15.0),
        ("@answer .text h6", 15.0),
        ("@answer .text p", 16.0),
        ("@user .bubble", 16.0),
        ("@answer pre code", 13.5),
        ("@answer p code", 13.5),
        ("@answer @numbers", 12.5),
        ("@answer .code-bar", 12.5),
        (".composer-foot", 12.5),
    ] {
        let got = pixels(&page, place, "fontSize");
        assert!((got - size).abs() < 0.06, "{place}: {got} px");
    }
    let line = pixels(&page, "@answer .text", "lineHeight");
    assert!((line - 26.0).abs() < 0.06, "{line} px");
    assert!(pixels(&page, "@answer h5", "fontWeight") >= 600.0);
}

#[test]
fn the_dots_of_a_menu_s_icon_are_larger_than_a_line_is_wide() {
    let (_hobd, page) = start(Look::default());
    let line = pixels(&page, "@chat-menu .icon", "strokeWidth");
    let dot = pixels(&page, "#icon-more", "strokeWidth");
    assert!(dot > 1.5 * line, "{dot} and {line}");
}

#[test]
fn selected_words_stand_out_in_a_question() {
    for dark in [false, true] {
        let (_hobd, page) = start(Look { dark, ..Look::default() });
        let paint = |part: &str| {
            page.script_with(
                "return getComputedStyle(one('@user .bubble'), arguments[0]).backgroundColor",
                &[part.into()],
            )
        };
        assert_ne!(paint("::selection"), paint(""), "dark: {dark}");
    }
}

/// The contrast of two backgrounds.
const CONTRAST: &str = "
    const linear = part => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    const lights = [...arguments].map(place => {
        const [r, g, b] = getComputedStyle(one(place)).backgroundColor.match(/[\\d.]+/g)
            .map(part => linear(part / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
    });
    return Math.max(...lights) / Math.min(...lights)";

#[test]
fn the_template_that_a_key_has_chosen_stands_out() {
    for dark in [false, true] {
        let (_hobd, page) = start(Look { dark, ..Look::default() });
        page.focus("@composer");
        page.write("/");
        page.shows("@templates .chosen");
        let places = ["@templates .chosen", "@templates"].map(Value::from);
        let contrast = page.script_with(CONTRAST, &places).as_f64();
        assert!(contrast > Some(1.2), "dark: {dark}: {contrast:?}");
    }
}

#[test]
fn a_button_looks_pressed_while_it_is() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows(".suggestions:not(.unknown)");
    for place in [".side-top [aria-label='New chat']", ".suggestions > :first-child"] {
        let paint = || {
            page.script_with(
                "return getComputedStyle(one(arguments[0])).backgroundColor",
                &[place.into()],
            )
        };
        page.hover(place);
        let hovered = paint();
        page.hold_mouse();
        assert_ne!(paint(), hovered, "{place}");
        page.release_mouse();
    }
}

#[test]
fn text_has_the_size_that_the_browser_is_set_to() {
    let (_hobd, page) = start(Look::default());
    page.cdp("Page.setFontSizes", &json!({"fontSizes": {"standard": 24}}));
    let size = "parseFloat(getComputedStyle(document.documentElement).fontSize)";
    page.until("the page follows", &format!("Math.abs({size} - 22.5) < 0.01"));
    let got = pixels(&page, "@answer .text p", "fontSize");
    assert!((got - 24.0).abs() < 0.06, "{got} px");
}

#[test]
fn the_words_of_the_sidebar_are_whole_at_a_large_text_size() {
    let (_hobd, page) = start(Look::default());
    let is_whole = "all('.side-nav a').every(link => link.scrollWidth <= link.clientWidth)";
    page.until("they are whole", is_whole);
    page.cdp("Page.setFontSizes", &json!({"fontSizes": {"standard": 32}}));
    let size = "parseFloat(getComputedStyle(document.documentElement).fontSize)";
    page.until("the page follows", &format!("Math.abs({size} - 30) < 0.01"));
    page.until("they are whole still", is_whole);
    let sides = "(areas => areas.map(({top, bottom}) => top + bottom))(
        ['.search .icon', '@search'].map(place => one(place).getBoundingClientRect()))";
    let in_middle = format!("(([icon, field]) => Math.abs(icon - field) < 2)({sides})");
    page.until("the sign of the search is in the middle of its field", &in_middle);
}

#[test]
fn both_lines_of_a_row_have_room_at_a_large_text_size() {
    let (hobd, page) = start(Look::default());
    hobd.client.say("also", "Say this: a harbour");
    hobd.client.rename("also", "Also");
    hobd.client.say("port", "Say this: another harbour");
    hobd.client.rename("port", "Port");
    page.fill("@search", "harbour");
    page.until("both are found", "all('@chat .chat-snippet').length === 2");
    let fits = "all('@chat').every(row => row.querySelector('.chat-text').offsetHeight <= row.clientHeight)";
    let apart = "all('@chat').map(row => row.getBoundingClientRect())
        .every(({bottom}, index, areas) => !areas[index + 1] || bottom <= areas[index + 1].top)";
    page.until("they fit", &format!("{fits} && {apart}"));
    page.cdp("Page.setFontSizes", &json!({"fontSizes": {"standard": 24}}));
    let size = "parseFloat(getComputedStyle(document.documentElement).fontSize)";
    page.until("the page follows", &format!("Math.abs({size} - 22.5) < 0.01"));
    page.until("they fit still", &format!("{fits} && {apart}"));
}

#[test]
fn a_chat_is_printed_whole_and_without_its_controls() {
    let (_hobd, page) = start(Look { height: 300, ..Look::default() });
    page.cdp("Emulation.setEmulatedMedia", &json!({"media": "print"}));
    page.until("it is printed", "matchMedia('print').matches");
    let is_high = "document.documentElement.scrollHeight > 2 * innerHeight";
    page.until("the page is as high as the chat", is_high);
    for place in ["@composer", "@chats", "@answer .copy-code", "@answer .tools", "@model"] {
        page.hides(place);
    }
    page.shows("@answer .text table");
    page.shows("@user .bubble");
}

#[test]
fn turns_are_24_px_apart_and_a_question_has_its_tools_beside_it() {
    let (_hobd, page) = start(Look::default());
    let gaps = page.script(
        "const box = place => one(place).getBoundingClientRect();
         const [first, answer, next] = ['@user .bubble', '@answer .text', '@user:nth-child(3) .bubble'].map(box);
         const under = box('@answer .under'), tools = box('@user .tools');
         return [answer.top - first.bottom, next.top - under.bottom, first.left - tools.right,
             Math.max(0, tools.bottom - first.bottom)]",
    );
    let gaps: Vec<f64> = gaps.as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    let [within, between, beside, below] = gaps[..] else { panic!("{gaps:?}") };
    assert!((12.0..=18.0).contains(&within), "{gaps:?}");
    assert!((24.0..=30.0).contains(&between), "{gaps:?}");
    assert!((0.0..=12.0).contains(&beside) && below == 0.0, "{gaps:?}");
}

#[test]
fn a_narrow_page_breaks_no_word_of_a_table_and_has_no_sideways_scroll() {
    for width in [420, 320] {
        let look = Look { width, height: 800, ..Look::default() };
        let (_hobd, page) = start(look);
        let broken = page.script(
            "return all('@answer th, @answer td').filter(cell => {
                 const range = new Range(); range.selectNodeContents(cell);
                 return new Set([...range.getClientRects()].map(rect => Math.round(rect.top))).size > 1;
             }).map(cell => cell.innerText)",
        );
        assert_eq!(broken, json!([]), "at {width} px");
        let overflow = "return document.documentElement.scrollWidth - innerWidth";
        assert_eq!(page.script(overflow), json!(0), "at {width} px");
        page.click("@sampling");
        page.shows("@sampling-dialog");
        assert_eq!(page.script(overflow), json!(0), "the dialog at {width} px");
    }
}

#[test]
fn what_people_write_has_its_own_direction() {
    let (_hobd, page) = start(Look::default());
    page.tool("@answer:nth-child(2)", "Edit the answer");
    page.press("Control+f");
    for place in
        ["@user .bubble", "@answer .text", "@composer", "@title", ".edit textarea", "@find-words"]
    {
        page.shows(place);
        let direction = page.script_with("return one(arguments[0]).dir", &[place.into()]);
        assert_eq!(direction, "auto", "{place}");
    }
}

#[test]
fn code_shows_its_bar_without_the_pointer_in_questions_too() {
    let (_hobd, page) = start(Look::default());
    for place in ["@user .code-bar", "@answer .code-bar"] {
        page.reads(place, "js");
        page.reads(place, "Copy");
        assert_eq!(pixels(&page, place, "opacity"), 1.0, "{place}");
    }
}
