//! A string that grows by escaped text, and the few SVG shapes that the charts are made of.
//!
//! **Invariant**: text from outside (names, messages) reaches a page through [`escape`] only.

use std::fmt::Write;

/// `text` with the five characters that mean something in HTML written as entities; what cannot
/// stand in a page at all (control characters) becomes U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter if letter.is_control() && letter != '\n' => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// An SVG drawing in units of one CSS pixel that scales to the width it is given.
pub(crate) struct Drawing {
    width: f64,
    height: f64,
    shapes: String,
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    /// The text begins at the point.
    Start,
    /// The text ends at the point.
    End,
}

impl Drawing {
    /// An empty drawing.
    pub(crate) fn new(width: f64, height: f64) -> Drawing {
        Drawing { width, height, shapes: String::new() }
    }

    /// A straight line of CSS class `class`.
    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.add(format_args!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A line through `points`, or with `closed` the area inside them.
    pub(crate) fn path(&mut self, class: &str, points: &[(f64, f64)], closed: bool) {
        let mut steps = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let step = if index == 0 { 'M' } else { 'L' };
            // Writing to a `String` cannot fail.
            let _ = write!(steps, "{step}{x:.1} {y:.1}");
        }
        let end = if closed { "Z" } else { "" };
        self.add(format_args!("<path class=\"{class}\" d=\"{steps}{end}\"/>"));
    }

    /// A dot of CSS class `class` that says `title` when pointed at.
    pub(crate) fn dot(&mut self, class: &str, at: (f64, f64), title: &str) {
        let title = escape(title);
        self.add(format_args!(
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{title}</title></circle>",
            at.0, at.1
        ));
    }

    /// A line of text of CSS class `class`.
    pub(crate) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{text}</text>",
            at.0, at.1
        ));
    }

    /// The drawing as an element; `label` is what a screen reader says of it.
    pub(crate) fn finish(self, label: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {:.0} {:.0}\" role=\"img\" aria-label=\"{}\">{}</svg>",
            self.width,
            self.height,
            escape(label),
            self.shapes
        )
    }

    fn add(&mut self, shape: std::fmt::Arguments) {
        // Writing to a `String` cannot fail.
        let _ = self.shapes.write_fmt(shape);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_leave_its_place() {
        assert_eq!(escape("<b a='1'>\"&\u{7}"), "&lt;b a=&#39;1&#39;&gt;&quot;&amp;\u{fffd}");
        let mut drawing = Drawing::new(10.0, 10.0);
        drawing.text("label", (0.0, 0.0), Anchor::Start, "</svg><script>");
        let svg = drawing.finish("\"><script>");
        assert!(!svg.contains("<script>"), "{svg}");
    }
}
