//! Part of a page between two marks, which a task writes. The text around it is kept.

/// Replaces the text between the marks; `None` if the page lacks one of them.
pub(crate) fn replace(page: &str, (from, to): (&str, &str), text: &str) -> Option<String> {
    let (before, rest) = page.split_once(from)?;
    let (_, after) = rest.split_once(to)?;
    Some(format!("{before}{from}\n\n{}\n\n{to}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_between_the_marks_changes() {
        let marks = ("<!-- from -->", "<!-- to -->");
        let page = format!("by hand\n\n{}\nold\n{}\n\nby hand too\n", marks.0, marks.1);
        let once = replace(&page, marks, "new\n").unwrap();
        assert_eq!(once, format!("by hand\n\n{}\n\nnew\n\n{}\n\nby hand too\n", marks.0, marks.1));
        assert_eq!(replace(&once, marks, "new").as_deref(), Some(once.as_str()), "and twice is the same");
        assert_eq!(replace("no marks", marks, "new"), None);
        assert_eq!(replace(marks.0, marks, "new"), None);
    }
}
