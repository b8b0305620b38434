//! Terminal, HTML, Markdown, CSV and SVG from one report model.
