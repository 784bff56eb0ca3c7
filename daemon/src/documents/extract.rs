//! The text of a file.
//!
//! - Text is UTF-8, UTF-16 with a mark, or else Windows' Latin letters, as old exports have. What is no
//!   text is refused by what it is, and nothing is guessed of it.
//! - Line ends become `\n`; blanks at line ends and control characters go. So the same text from two
//!   systems is the same document.

use super::pdf;
use super::refusal::{MAX_TEXT_BYTES, too_large, unreadable};
use crate::conversations::transcript::StoredDocument;
use crate::error::ApiError;
use crate::wire::document::document_name;

const DEFAULT_NAME: &str = "Document";

/// The kind of a document that was a PDF.
pub const PDF: &str = "pdf";

/// Reads a file. `name`: as the user has it.
///
/// # Errors
/// When it is no text and no PDF, has no text, or too much of it.
pub async fn document(bytes: Vec<u8>, name: &str) -> Result<StoredDocument, ApiError> {
    let name = document_name(name).unwrap_or_else(|| DEFAULT_NAME.to_owned());
    let is_pdf = is_pdf(&bytes);
    let (kind, text) =
        if is_pdf { (PDF, pdf::text(bytes).await?) } else { ("text", decoded(&bytes)?) };
    let text = cleaned(&text);
    if text.is_empty() {
        let hint = if is_pdf { ": its pages may be pictures" } else { "" };
        return Err(unreadable(format!("there is no text in it{hint}")));
    }
    if text.len() > MAX_TEXT_BYTES {
        return Err(too_large());
    }
    Ok(StoredDocument { name, kind: kind.to_owned(), text })
}

/// Whether the file is a PDF. Other bytes may stand in front of its mark. The mark in a text makes it no PDF: the end
/// of a PDF names its table of objects.
fn is_pdf(bytes: &[u8]) -> bool {
    const PLACE: usize = 1024; // Within it readers look for the mark and for the end.
    let first = &bytes[..bytes.len().min(PLACE)];
    let Some(at) = first.windows(5).position(|it| it == b"%PDF-") else { return false };
    let front = first[..at].strip_prefix(b"\xef\xbb\xbf").unwrap_or(&first[..at]);
    let last = &bytes[bytes.len().saturating_sub(PLACE)..];
    front.iter().all(u8::is_ascii_whitespace) || last.windows(9).any(|it| it == b"startxref")
}

fn decoded(bytes: &[u8]) -> Result<String, ApiError> {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, _) = bytes.as_chunks::<2>();
        let units: Vec<u16> = pairs.iter().map(|&pair| unit(pair)).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => return Ok(utf16(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => return Ok(utf16(rest, u16::from_be_bytes)),
        _ => {}
    }
    if let Some(kind) = picture(bytes) {
        return Err(unreadable(format!("it is a picture ({kind}), and Hob reads no images")));
    }
    if bytes.contains(&0) {
        return Err(unreadable(
            "it is neither text nor a PDF: save it as text, Markdown, CSV or PDF".to_owned(),
        ));
    }
    Ok(match std::str::from_utf8(bytes) {
        Ok(text) => text.trim_start_matches('\u{feff}').to_owned(),
        Err(_) => bytes.iter().map(|&byte| windows_1252(byte)).collect(),
    })
}

/// The kind of a picture; a text that begins like one is none.
fn picture(bytes: &[u8]) -> Option<&'static str> {
    let kind = match bytes {
        [0x89, b'P', b'N', b'G', ..] => "PNG",
        [0xff, 0xd8, 0xff, ..] => "JPEG",
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => "GIF",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "WebP",
        _ => return None,
    };
    let is_text = std::str::from_utf8(bytes).is_ok() && !bytes.contains(&0);
    (!is_text).then_some(kind)
}

/// Latin-1 with the characters that Windows puts into its control codes.
fn windows_1252(byte: u8) -> char {
    const HIGH: [char; 32] = [
        '€', ' ', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', ' ', 'Ž', ' ', ' ', '‘',
        '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', ' ', 'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => HIGH[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

fn cleaned(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace(['\r', '\u{c}'], "\n");
    let is_text = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    let text: String = text.chars().filter(is_text).collect();
    let lines: Vec<&str> = text.split('\n').map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn text(bytes: &[u8]) -> Result<String, ApiError> {
        Ok(document(bytes.to_vec(), "a").await?.text)
    }

    #[tokio::test]
    async fn text_is_read_in_the_encodings_that_files_have() {
        assert_eq!(text("\u{feff}Grün  \r\n\r\nB\u{7}\n".as_bytes()).await.unwrap(), "Grün\n\nB");
        assert_eq!(text(b"\xff\xfeG\x00r\x00\xfc\x00").await.unwrap(), "Grü");
        assert_eq!(text(b"\xfe\xff\x00G\x00r\x00\xfc").await.unwrap(), "Grü");
        assert_eq!(text(b"Gr\xfcn \x80").await.unwrap(), "Grün €");
    }

    #[tokio::test]
    async fn what_is_no_text_is_refused() {
        for bytes in [&b"PK\x03\x04\x00\x00"[..], b"", b" \n\n ", b"\xff\xfe"] {
            let error = text(bytes).await.unwrap_err();
            assert_eq!(error.code, Some("document_unreadable"), "{bytes:?}");
        }
        let long = "a".repeat(MAX_TEXT_BYTES + 1);
        assert_eq!(text(long.as_bytes()).await.unwrap_err().code, Some("document_too_large"));
    }

    #[tokio::test]
    async fn a_text_about_pdfs_is_a_text() {
        let about = "A PDF begins with %PDF-1.7 and ends with %%EOF.";
        assert_eq!(text(about.as_bytes()).await.unwrap(), about);
        for file in
            [&b"%PDF-1.4\n"[..], b"\xef\xbb\xbf \n%PDF-1.4\n", b"x %PDF-1.4\nstartxref\n9\n%%EOF"]
        {
            assert!(is_pdf(file), "{file:?}");
        }
        let long = format!("x %PDF-1.4 startxref {}", "y".repeat(2000));
        assert!(!is_pdf(long.as_bytes()));
        assert!(!is_pdf(b"") && !is_pdf(b"%PDF"));
    }

    #[tokio::test]
    async fn a_picture_is_refused_as_one() {
        let refused = |bytes: &'static [u8]| async move { text(bytes).await.unwrap_err().message };
        for (bytes, kind) in [
            (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], "PNG"),
            (b"\xff\xd8\xff\xe0 a JPEG may have no zero", "JPEG"),
            (b"GIF89a\x01\x00\x01\x00", "GIF"),
            (b"RIFF\x24\x00\x00\x00WEBPVP8 ", "WebP"),
        ] {
            let expected = format!("it is a picture ({kind}), and Hob reads no images");
            assert!(refused(bytes).await.contains(&expected), "{kind}");
        }
        assert_eq!(text(b"GIF89a is a format.").await.unwrap(), "GIF89a is a format.");
    }

    #[tokio::test]
    async fn a_document_has_a_name_of_one_line() {
        let name = |name: &'static str| async move {
            document(b"text".to_vec(), name).await.unwrap().name
        };
        assert_eq!(name(" my\nreport.md ").await, "my report.md");
        assert_eq!(name("\n").await, DEFAULT_NAME);
    }
}
