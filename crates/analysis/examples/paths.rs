//! Prints the call paths of the network functions in source files.

fn main() {
    for file in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&file).unwrap();
        let start = text.find("#[network_function").unwrap();
        let line = 1 + text[..start].matches('\n').count() as u32;
        let item: String = cut(&text[start..]);
        let source = anabranch_analysis::Source { text: &item, file: &file, line };
        match anabranch_analysis::paths(&source) {
            Ok(paths) => println!("{}", paths.to_text()),
            Err(e) => println!("ERROR {e}"),
        }
    }
}

fn cut(text: &str) -> String {
    let end = text.find("\n}\n").map(|e| e + 2).unwrap_or(text.len());
    text[..end].to_owned()
}
