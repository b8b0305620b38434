//! Writes the inputs that fuzzing starts from: `seeds DIR` creates a folder in `DIR` for each fuzz target.

use std::path::Path;

#[path = "../crates/weir-http/tests/it/seeds.rs"]
mod seeds;

/// Request files, each with the index of its name in the fuzz target's `NAMES`.
const REQUEST_FILES: [(u8, &str); 4] = [
    (0, "# urls\n/a?b=c#part\nPOST http://other:81/p\nOPTIONS *\n/get/{1..50}/{seq}/{uuid}\n"),
    (1, "{\"method\": \"PUT\", \"path\": \"/x\", \"headers\": {\"A\": \"b\"}, \"body\": \"{seq}\", \"weight\": 2}\n"),
    (1, "{\"url\": \"http://a/b\", \"name\": \"n\", \"checks\": {\"status\": \"2xx\", \"header\": \"A: b\"}}\n"),
    (
        2,
        "{\"log\": {\"entries\": [{\"request\": {\"method\": \"POST\", \"url\": \"http://a/b?c\", \"headers\": \
         [{\"name\": \"A\", \"value\": \"b\"}], \"postData\": {\"mimeType\": \"text/plain\", \"text\": \"x\"}}}]}}",
    ),
];

/// Number of seed inputs for each target that reads bytes as choices: configurations with requests, and lines of
/// addresses.
const ROUTE_SEEDS: u32 = 16;

fn main() -> std::io::Result<()> {
    let Some(dir) = std::env::args_os().nth(1) else {
        eprintln!("usage: seeds DIR");
        std::process::exit(2);
    };
    let dir = Path::new(&dir);
    for (side, connections) in [(3u8, seeds::REQUESTS), (2, seeds::RESPONSES), (0, seeds::RESPONSES)] {
        for (number, connection) in connections.iter().enumerate() {
            // The first byte selects the side, the second the piece size, as in the target.
            let input = [&[side, number as u8], connection.as_bytes()].concat();
            write(&dir.join("connections"), &format!("seed-{side}-{number:02}"), &input)?;
        }
    }
    for (number, (name, text)) in REQUEST_FILES.iter().enumerate() {
        let input = [&[*name], text.as_bytes()].concat();
        write(&dir.join("request_files"), &format!("seed-{number}"), &input)?;
    }
    for number in 0..ROUTE_SEEDS {
        // Any bytes can be read as routes and requests; 200 bytes give many.
        let input: Vec<u8> = (0..200u32).map(|at| (at * at + 7 * at * number + number) as u8).collect();
        write(&dir.join("routes"), &format!("seed-{number}"), &input)?;
        write(&dir.join("trusted_elements"), &format!("seed-{number}"), &input[..64])?;
    }
    Ok(())
}

fn write(folder: &Path, name: &str, input: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(name), input)
}
