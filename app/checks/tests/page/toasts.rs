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
