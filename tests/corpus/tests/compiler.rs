//! What the author sees from the compiler: his own lines, and what to write instead. Few files
//! with many mistakes each, as every file is a build; the rest is in `refused.rs`.

#[test]
fn the_compiler_points_at_the_authors_lines() {
    trybuild::TestCases::new().compile_fail("tests/refused/*.rs");
}
