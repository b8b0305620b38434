//! Writes the inputs that fuzzing starts from into a folder: `seeds DIR`.

use std::path::Path;

#[path = "../crates/weir-http/tests/it/seeds.rs"]
mod seeds;

fn main() -> std::io::Result<()> {
    let Some(dir) = std::env::args_os().nth(1) else {
        eprintln!("usage: seeds DIR");
        std::process::exit(2);
    };
    std::fs::create_dir_all(&dir)?;
    for (side, connections) in [(3u8, seeds::REQUESTS), (2, seeds::RESPONSES), (0, seeds::RESPONSES)] {
        for (number, connection) in connections.iter().enumerate() {
            // The side, then the size of the pieces, as the target reads them.
            let input = [&[side, number as u8], connection.as_bytes()].concat();
            std::fs::write(Path::new(&dir).join(format!("seed-{side}-{number:02}")), input)?;
        }
    }
    Ok(())
}
