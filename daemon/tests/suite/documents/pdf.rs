//! PDFs: their text, and files that no reader survives.

use serde_json::Value;

use crate::common::home::Home;

/// A PDF of one page a text, written by hand.
pub(crate) fn pdf(pages: &[&str]) -> Vec<u8> {
    let kids: Vec<String> = (0..pages.len()).map(|n| format!("{} 0 R", 4 + 2 * n)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_owned(),
    ];
    for (n, text) in pages.iter().enumerate() {
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {} 0 R \
             /Resources << /Font << /F1 3 0 R >> >> >>",
            5 + 2 * n
        ));
        let content = format!("BT /F1 12 Tf 72 720 Td ({text}) Tj ET");
        objects.push(format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()));
    }
    let mut file = "%PDF-1.4\n".to_owned();
    let mut offsets = Vec::new();
    for (n, object) in objects.iter().enumerate() {
        offsets.push(file.len());
        file.push_str(&format!("{} 0 obj\n{object}\nendobj\n", n + 1));
    }
    let xref = file.len();
    file.push_str(&format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1));
    for offset in offsets {
        file.push_str(&format!("{offset:010} 00000 n \n"));
    }
    let size = objects.len() + 1;
    file.push_str(&format!("trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{xref}\n%%EOF\n"));
    file.into_bytes()
}

#[test]
fn a_pdf_becomes_its_text_and_a_hostile_one_is_refused() {
    let home = Home::on_fake();
    let hobd = home.start();
    let add =
        |bytes: Vec<u8>| hobd.client.call("POST", "/v1/documents?name=a.pdf").body(bytes).send();
    let added = add(pdf(&["The castle has seven doors.", "The mill has one."]));
    assert_eq!(added.status, 201, "{}", added.text());
    let document: Value = added.json();
    assert_eq!(document["kind"], "pdf");
    let id = document["id"].as_str().unwrap();
    let text = hobd.client.get_text(&format!("/v1/documents/{id}/text"));
    assert!(text.contains("The castle has seven doors."), "{text}");
    assert!(text.contains("The mill has one."), "{text}");

    let whole = pdf(&["The castle has seven doors."]);
    let with = |from: &str, to: &str| {
        String::from_utf8(whole.clone()).unwrap().replace(from, to).into_bytes()
    };
    let hostile = [
        b"%PDF-1.4\n".to_vec(),
        whole[..whole.len() / 2].to_vec(),
        with("/Kids [4 0 R]", "/Kids [2 0 R]"), // A circle.
        with("/BaseFont /Helvetica", "/BaseFont 3 0 R"), // A font that is itself.
        with("/Subtype /Type1", "/Subtype /Type0"), // Without its descendants.
        with("/Contents 5 0 R", "/Contents 1 0 R"),
        with("Tj ET", "Tj ET q Q Q Q Q 1 0 0 Tm Tm"),
        [b"%PDF-1.4\n".to_vec(), vec![b'['; 1 << 20]].concat(), // Recursion.
    ];
    for (n, bytes) in hostile.into_iter().enumerate() {
        let answer = add(bytes);
        let is_refused = answer.status == 400 && answer.error()["code"] == "document_unreadable";
        assert!(is_refused || answer.status == 201, "{n}: {}", answer.text());
        assert_eq!(hobd.client.get("/health")["status"], "ok", "{n}");
    }
    assert_eq!(hobd.client.get("/v1/status")["crashes"], 0);

    let long = add(pdf(&vec!["A page."; 2001]));
    assert_eq!(long.error()["code"], "document_unreadable", "not cut in silence");
    assert!(long.text().contains("more than 2000 pages"), "{}", long.text());
}

#[test]
fn a_file_may_have_more_bytes_than_another_body() {
    let home = Home::on_fake().with(&["--max-body-bytes", "64KiB"]);
    let hobd = home.start();
    let add = |bytes: usize| {
        let text = "The castle. ".repeat(bytes / 12);
        hobd.client.call("POST", "/v1/documents?name=a.txt").body(text).send()
    };
    assert_eq!(add(200 << 10).status, 201);
    let refused = add(600 << 10);
    assert_eq!((refused.status, refused.error()["code"].as_str()), (413, Some("body_too_large")));
}
