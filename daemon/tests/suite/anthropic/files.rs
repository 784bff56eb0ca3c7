//! Files in requests, which clients send again with each request of a conversation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::{World, user, with};
use crate::common::merged;
use crate::documents::pdf::pdf;

/// How many PDFs were extracted since the start.
fn extracted(world: &World) -> u64 {
    let page = world.hobd.client.get_text("/metrics");
    let mut lines = page.lines();
    let count = lines.find_map(|line| line.strip_prefix("hob_pdfs_extracted_total ")?.parse().ok());
    count.unwrap_or_else(|| panic!("no count in {page}"))
}

/// A question about a PDF with this text.
fn about(text: &str, extra: Value) -> Value {
    let data = BASE64.encode(pdf(&[text]));
    let source = json!({"type": "base64", "media_type": "application/pdf", "data": data});
    let file = json!({"type": "document", "source": source});
    let question = json!({"type": "text", "text": "Say this: five"});
    with(json!([user(json!([file, question]))]), extra)
}

#[test]
fn a_pdf_is_extracted_once_for_all_requests_of_its_conversation() {
    let world = World::new();
    let body = about("The castle has seven doors.", json!({"conversation": "c"}));
    assert!(world.count(&body) > 0);
    world.message(&body);
    let next = merged(body.clone(), &json!({"conversation": "d"}));
    world.message(&next);
    assert_eq!(extracted(&world), 1);
    for conversation in ["c", "d"] {
        let told = world.stored(conversation)[0]["content"].as_str().unwrap().to_owned();
        assert!(told.contains("The castle has seven doors."), "{conversation}: {told}");
    }
    world.message(&about("The mill has one.", json!({})));
    assert_eq!(extracted(&world), 2, "of another file");
}

#[test]
fn the_text_of_a_pdf_goes_with_a_deletion_and_stays_of_no_private_request() {
    let world = World::new();
    let body = about("The castle has seven doors.", json!({"conversation": "c"}));
    world.message(&body);
    let deleted = world.hobd.client.call("DELETE", "/v1/conversations/c").send();
    assert!(deleted.status < 300, "{}", deleted.text());
    world.message(&body);
    assert_eq!(extracted(&world), 2);

    let privately = [
        json!({"hob": {"private": true}}),
        json!({"store": false}),
        json!({"conversation": "p", "hob": {"private": true}}),
        json!({"conversation": "p"}), // It stays private.
    ];
    for (n, extra) in (3..).zip(privately) {
        world.message(&about("The mill has one.", extra.clone()));
        assert_eq!(extracted(&world), n, "{extra}");
    }
}
