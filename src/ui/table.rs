//! A plain table: columns as wide as their widest cell, two spaces between, no lines.

/// Aligns rows under their headings. The last column is not padded.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[&str]| {
        let mut out = String::new();
        for (index, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            if index > 0 {
                out.push_str("  ");
            }
            out.push_str(cell);
            if index + 1 < cells.len() {
                out.extend(std::iter::repeat_n(' ', width - cell.chars().count()));
            }
        }
        let trimmed = out.trim_end().len();
        out.truncate(trimmed);
        out.push('\n');
        out
    };
    let mut out = line(headings);
    for row in rows {
        let cells: Vec<&str> = row.iter().map(String::as_str).collect();
        out.push_str(&line(&cells));
    }
    out
}

/// Wraps words to `width` columns, each line after the first indented by `indent`.
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            out.push_str(indent);
            column = indent.chars().count();
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_no_line_ends_in_spaces() {
        let text = table(
            &["HOST", "VM"],
            &[vec!["web-0".into(), "105".into()], vec!["a".into(), String::new()]],
        );
        assert_eq!(text, "HOST   VM\nweb-0  105\na\n");
    }

    #[test]
    fn words_wrap_at_the_width() {
        assert_eq!(wrap("aa bb cc", 5, "  "), "aa bb\n  cc");
    }
}
