//! Answers as Markdown: what a reader sees of them.

use hob_checks::{Hobd, Look, Model, Page};
use serde_json::json;

const ANSWER: &str = include_str!("markdown.md");

#[test]
fn headings_have_a_scale_and_are_never_smaller_than_the_text() {
    let (_hobd, page) =
        answered("# One\n\n## Two\n\n### Three\n\n#### Four\n\nText `code`\n\n```\nx\n```");

    let sizes = page.script(
        "return ['h3', 'h4', 'h5', 'h6', 'p', 'p > code', 'pre code'].map(tag =>
             Math.round(parseFloat(getComputedStyle(one(`@answer .text ${tag}`)).fontSize) * 10) / 10)",
    );
    assert_eq!(sizes, json!([20, 17, 15, 15, 16, 13.5, 13.5]));
    let line = page.script(
        "return Math.round(parseFloat(getComputedStyle(one('@answer .text p')).lineHeight))",
    );
    assert_eq!(line, 26);
}

#[test]
fn code_in_a_list_is_copied_without_the_lists_indent() {
    let (_hobd, page) = answered(
        "1. Install it:\n\n   ```sh\n   sudo apt install nginx\n   ```\n\n   Then start it.\n\n2. Done",
    );
    page.cdp(
        "Browser.grantPermissions",
        &json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}),
    );

    assert_eq!(page.count("@answer ol"), 1);
    assert_eq!(page.text("@answer li:first-child > p:last-child"), "Then start it.");
    page.click("@answer .copy-code");
    page.reads("@toast", "Copied");
    let copied = page.run_async(
        "const done = arguments[0]; navigator.clipboard.readText().then(done, e => done(String(e)))",
        &[],
    );
    assert_eq!(copied.expect("the clipboard can be read"), "sudo apt install nginx");
}

#[test]
fn a_page_that_has_no_clipboard_copies_what_it_selects() {
    let (_hobd, page) = answered("```sh\nsudo apt install nginx\n```");
    // As a browser has it of plain HTTP from another machine.
    page.script(
        "Object.defineProperty(navigator, 'clipboard', { value: undefined });
         document.addEventListener('copy', () => { window.copied = document.activeElement.value; });",
    );
    page.click("@answer .copy-code");
    page.reads("@toast", "Copied");
    assert_eq!(page.script("return window.copied"), "sudo apt install nginx");
    assert_eq!(page.focused().1, "Copy");
    assert_eq!(page.count("body > textarea"), 0);
}

#[test]
fn githubs_extensions_are_drawn() {
    let (_hobd, page) = answered(ANSWER);
    for (place, text) in [
        ("@answer td:nth-child(3)", "a|b"),
        ("@answer p > sub", "2"),
        ("@answer del", "gone"),
        ("@answer .footnote p", "Where it is from."),
    ] {
        assert_eq!(page.text(place), text, "{place}");
    }
    let aligned = page
        .script("return all('@answer tr:last-child td').map(e => getComputedStyle(e).textAlign)");
    assert_eq!(aligned, json!(["left", "right", "center"]));
    let links = page.script("return all('@answer .text a').map(e => e.href)");
    assert_eq!(
        links,
        json!(["https://example.org/", "https://example.com/", "mailto:a@example.org"])
    );
    let boxes = page.script(
        "return all('@answer li.task').map(e => [getComputedStyle(e).listStyleType,
             e.querySelector('input').getAttribute('aria-label')])",
    );
    assert_eq!(boxes, json!([["none", "buy milk"], ["none", "rest"]]));
    let text = page.last_answer();
    assert!(text.contains("3 < 4") && !text.contains("&lt;"), "{text}");
}

#[test]
fn a_table_in_a_narrow_window_keeps_its_words_and_scrolls() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open_as(&hobd, Look { width: 420, height: 800, ..Look::default() });
    let head = "Region | Population | Area | Density | Capital | Currency";
    page.ask(&format!(
        "Say this: | {head} |\n|{}\n| Bavaria | 13,176,989 | 70,550 | 1,204 | Munich | Euro |",
        "---|".repeat(6)
    ));

    let heights = page.script(
        "return all('@answer th, @answer td')
             .map(e => Math.round(e.getBoundingClientRect().height))",
    );
    let heights: Vec<u64> = serde_json::from_value(heights).expect("heights");
    assert!(heights.iter().all(|height| *height < 45), "words are broken: {heights:?}");
    assert_eq!(
        page.script("const e = one('@answer .wide'); return e.scrollWidth > e.clientWidth"),
        true
    );
    assert_eq!(page.script("return document.documentElement.scrollWidth <= innerWidth"), true);
}

#[test]
fn writing_from_right_to_left_is_set_from_the_right() {
    let (_hobd, page) = answered(
        "مرحبا بالعالم\n\n- أول\n- ثان\n\n| عمود | ثان |\n|---|---|\n| ١ | ٢ |\n\nEnglish again.",
    );

    let directions = page.script(
        "return ['p:first-child', 'ul', 'table', 'p:last-child'].map(place =>
             getComputedStyle(one(`@answer .text > ${place}, @answer .text .wide > ${place}`)).direction)",
    );
    assert_eq!(directions, json!(["rtl", "rtl", "rtl", "ltr"]));
    page.put("@composer", "שלום");
    let field = page.script("return getComputedStyle(one('@composer')).direction");
    assert_eq!(field, "rtl");
    page.send("مرحبا");
    page.answered(2);
    let bubble = page.script("return getComputedStyle(all('@user .bubble').at(-1)).direction");
    assert_eq!(bubble, "rtl");
    for place in ["@title", "@chat .chat-title"] {
        assert_eq!(page.script(&format!("return one('{place}').dir")), "auto", "{place}");
    }
}

#[test]
fn a_list_and_a_quotation_have_a_direction_of_their_own() {
    let (_hobd, page) = answered("English first.\n\n- أول\n\n  ثان\n- ثان\n\n> مرحبا");
    let directions = page.script(
        "return ['p', 'ul', 'blockquote'].map(place =>
             getComputedStyle(one(`@answer .text > ${place}`)).direction)",
    );
    assert_eq!(directions, json!(["ltr", "rtl", "rtl"]));
}

#[test]
fn code_has_its_language_colours_and_a_switch_that_wraps_it() {
    let (_hobd, page) =
        answered(&format!("```rust\nfn main() {{ // {} }}\n```", "long ".repeat(60)));

    assert_eq!(page.text("@answer @language"), "rust");
    assert_eq!(page.text("@answer .code-keyword"), "fn");
    let is_wide = "const e = one('@answer pre'); return e.scrollWidth > e.clientWidth";
    assert_eq!(page.script(is_wide), true);
    assert_eq!(page.script("return getComputedStyle(one('@answer .copy-code')).opacity"), "1");
    page.click("@answer .wrap-code");
    assert_eq!(page.script(is_wide), false);
    assert_eq!(page.script("return one('@answer .wrap-code').ariaPressed"), "true");
}

#[test]
fn the_bar_of_long_code_stays_in_sight() {
    let (_hobd, page) = answered(&format!("```\n{}```", "x\n".repeat(100)));
    page.until(
        "the middle of the code is shown",
        "((talk, code) => {
             talk.scrollTop += code().top + code().height / 2 - talk.getBoundingClientRect().top;
             return code().top < -500;
         })(one('@talk'), () => one('@answer .code').getBoundingClientRect())",
    );
    page.until(
        "Copy is at its top, in front of the text",
        "(({ left, top, width, height }) => {
             const copy = document.elementFromPoint(left + width / 2, top + height / 2);
             return top >= one('@talk').getBoundingClientRect().top && copy?.matches('.copy-code');
         })(one('@answer .copy-code').getBoundingClientRect())",
    );
}

#[test]
fn code_with_the_focus_has_its_ring_within_it() {
    let (_hobd, page) = answered("```\nx\n```");
    page.script("one('@answer pre').focus({ focusVisible: true })");
    let ring = page.script(
        "const {outlineStyle, outlineOffset} = getComputedStyle(one('@answer pre'));
         return [outlineStyle, outlineOffset]",
    );
    assert_eq!(ring, json!(["solid", "-2px"]));
}

#[test]
fn the_users_own_fenced_code_is_code() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.ask("Explain:\n```py\nprint(1)\n```\n*as it is*");

    assert_eq!(page.text("@user .bubble pre"), "print(1)");
    assert!(page.text("@user .bubble").contains("*as it is*"));
}

#[test]
fn a_formula_becomes_mathml_and_its_converter_is_loaded_with_it() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    let loaded =
        "return performance.getEntriesByType('resource').some(e => e.name.includes('temml'))";
    page.ask("Say this: no formula, only $5");
    assert_eq!(page.script(loaded), false);

    let sum = "$$\n\\sum_{i=1}^n \\sqrt{i} \\color{red}{x}\n$$";
    page.ask(&format!("Say this: $\\frac{{1}}{{2}}$ and\n\n{sum}\n\n$\\wrong{{x}}$"));
    page.until("it is drawn", "all('@answer math').length === 2");
    assert_eq!(page.script(loaded), true);
    assert_eq!(page.count("@answer math mfrac"), 1);
    assert_eq!(page.text("@answer code.formula"), "\\wrong{x}");
    let width = page.script("return one('@answer mfrac').getBoundingClientRect().width > 4");
    assert_eq!(width, true);
}

#[test]
fn a_long_formula_within_a_line_of_a_narrow_window_scrolls() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open_as(&hobd, Look { width: 420, height: 800, ..Look::default() });
    page.ask(&format!("Say this: A short $x$ here.\n\nAnd so $a{}$.", " + a".repeat(60)));
    page.until("both are drawn", "all('@answer math').length === 2");
    let fits = "const [short, long] = all('@answer .formula');
        const line = short.closest('p').getBoundingClientRect().height;
        return [long.scrollWidth > long.clientWidth, short.scrollWidth > short.clientWidth, line < 32,
            long.getBoundingClientRect().right <= one('@talk').getBoundingClientRect().right]";
    assert_eq!(page.script(fits), json!([true, false, true, true]));
}

#[test]
fn rich_answers_pass_axe_in_both_themes() {
    for dark in [false, true] {
        let hobd = Hobd::start(Model::Fake);
        let page = Page::open_as(&hobd, Look { dark, still: true, ..Look::default() });
        page.ask(&format!("Say this: {ANSWER}"));
        page.until("the formula is drawn", "all('@answer math').length");
        let findings = hob_checks::axe::serious_findings(&page);
        assert!(findings.is_empty(), "dark: {dark}\n{}", findings.join("\n"));
    }
}

fn answered(text: &str) -> (Hobd, Page) {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.ask(&format!("Say this: \n\n{text}"));
    (hobd, page)
}
