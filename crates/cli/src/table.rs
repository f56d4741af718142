//! Plain aligned tables for a terminal of 80 columns.

/// Columns a terminal is assumed to have; text that is not a table is wrapped to it.
pub(crate) const COLUMNS: usize = 80;

/// The side on which a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// Rows of text under a heading each; as wide as its widest cells.
#[derive(Debug)]
pub(crate) struct Table {
    headings: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table. A heading that starts with `>` stands over a column of figures.
    pub(crate) fn new(headings: &[&str]) -> Table {
        let headings = headings
            .iter()
            .map(|heading| match heading.strip_prefix('>') {
                Some(text) => (text.to_string(), Align::Right),
                None => (heading.to_string(), Align::Left),
            })
            .collect();
        Table { headings, rows: Vec::new() }
    }

    /// Adds a row; cells past the last heading are left out, missing ones are empty.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Whether there is nothing but headings.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as lines, each ended by a newline and without trailing blanks.
    pub(crate) fn render(&self) -> String {
        let headings: Vec<String> = self.headings.iter().map(|(text, _)| text.clone()).collect();
        std::iter::once(&headings)
            .filter(|headings| headings.iter().any(|heading| !heading.is_empty()))
            .chain(&self.rows)
            .map(|row| self.line(row))
            .collect()
    }

    fn line(&self, row: &[String]) -> String {
        let mut line = String::new();
        for (column, (_, align)) in self.headings.iter().enumerate() {
            let cell = row.get(column).map_or("", String::as_str);
            let blanks = " ".repeat(self.width(column).saturating_sub(width(cell)));
            if column > 0 {
                line.push_str("  ");
            }
            match align {
                Align::Left => line.extend([cell, &blanks]),
                Align::Right => line.extend([&blanks, cell]),
            }
        }
        format!("{}\n", line.trim_end())
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| width(cell)).chain([width(&self.headings[column].0)]).max().unwrap_or(0)
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// `first` as it is, then `text` broken between words into lines of at most [`COLUMNS`], each after
/// the first indented by `indent`. A word longer than a line gets a line of its own. Ends with a
/// newline.
pub(crate) fn wrap(first: &str, text: &str, indent: usize) -> String {
    let mut lines = first.to_string();
    let mut used = width(first);
    let mut at_start = true;
    for word in text.split_whitespace() {
        if !at_start && used + 1 + width(word) > COLUMNS {
            lines = lines.trim_end().to_string() + "\n" + &" ".repeat(indent);
            used = indent;
        } else if !at_start {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += width(word);
        at_start = false;
    }
    lines.trim_end().to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["worker", ">packets", ">share"]);
        table.row(["0".into(), "2,097,152".into(), "50.0 %".into()]);
        table.row(["10".into(), "7".into(), "<0.1 %".into()]);
        let expected = "worker    packets   share\n\
                        0       2,097,152  50.0 %\n\
                        10              7  <0.1 %\n";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn empty_headings_give_no_line() {
        let mut table = Table::new(&["", ">"]);
        table.row(["µs".into(), "1".into()]);
        assert_eq!(table.render(), "µs  1\n");
    }

    #[test]
    fn long_text_is_wrapped_between_words() {
        let text = "word ".repeat(20);
        let wrapped = wrap("name  ", &text, 6);
        let lines: Vec<&str> = wrapped.lines().collect();
        assert_eq!((lines.len(), width(lines[0])), (2, 80));
        assert_eq!(lines[1], "      word word word word word");
        let long = "x".repeat(100);
        assert_eq!(wrap("", &format!("{long} a"), 2), format!("{long}\n  a\n"));
        assert_eq!(wrap("", "", 5), "\n");
    }
}
