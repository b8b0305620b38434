//! Typed documents: YAML and JSON read with places in their errors, and quantities with units.
