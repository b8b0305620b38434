//! Code blocks of the docs, for tests that run them as written.

use std::path::Path;

/// A fenced block of a page.
pub struct Block {
    /// The line before the block.
    pub before: String,
    /// The language after the opening fence; may be empty.
    pub language: String,
    /// Its text.
    pub text: String,
}

/// The fenced blocks of `docs/NAME`, in order.
pub fn blocks(name: &str) -> Vec<Block> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let page = std::fs::read_to_string(page).unwrap();
    let mut blocks: Vec<Block> = Vec::new();
    let (mut is_open, mut before) = (false, "");
    for line in page.lines() {
        match (line.strip_prefix("```"), is_open) {
            (Some(language), false) => {
                let (before, language) = (before.to_owned(), language.to_owned());
                blocks.push(Block { before, language, text: String::new() });
                is_open = true;
            }
            (Some(_), true) => is_open = false,
            (None, true) => {
                if let Some(block) = blocks.last_mut() {
                    block.text += line;
                    block.text += "\n";
                }
            }
            (None, false) => before = line,
        }
    }
    assert!(!is_open && !blocks.is_empty(), "{name} has no block, or its last block is not closed");
    blocks
}
