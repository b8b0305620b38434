//! Shapes on lines. They distinguish lines whose colours look alike.

/// Number of different shapes.
pub(crate) const SYMBOLS: usize = 8;

/// The outline of the shape for the line with index `place`, centred at a position.
pub(crate) fn symbol(place: usize, (x, y): (f64, f64)) -> String {
    // The outline in SVG syntax, relative to the centre.
    let steps = match place % SYMBOLS {
        0 => "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z",
        1 => "m0 -4l4 4l-4 4l-4 -4z",
        2 => "m-3 -3h6v6h-6z",
        3 => "m0 -4l4 7h-8z",
        4 => "m0 4l4 -7h-8z",
        5 => "m-4 0h8m-4 -4v8",
        6 => "m-2 -3.5h4l2 3.5l-2 3.5h-4l-2 -3.5z",
        _ => "m-3 -3l6 6m0 -6l-6 6",
    };
    format!("M{x:.1} {y:.1}{steps}")
}
