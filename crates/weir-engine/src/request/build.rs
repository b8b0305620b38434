//! Renders requests into one contiguous buffer before the load starts.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_http::{ResponseTo, append_content_length};

use super::checks::Checks;
use super::choice::Choice;
use super::lines::Lines;
use super::route::Routes;
use super::template::{Piece, Position, parse};
use super::values::{Part, Values};
use super::{CLOSE, Entry, Shared};
use crate::EngineError;
use crate::error::not_base64;
use crate::spec::{Body, ChecksSpec, LoadSpec, REQUESTS_MAX, RequestSpec, TOKEN_FIELD, invalid};

/// Maximum size of all rendered requests together.
const REQUESTS_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Limit on the total size of all requests. Up to this limit, variants with `Connection: close` are rendered in
/// advance. Above it, each variant is rendered when it is sent.
const CLOSING_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of different files in `{pick:FILE}` placeholders.
const PICK_FILES_MAX: usize = 16;
/// Value of `Entry::checks` for a request without checks.
pub(super) const NO_CHECKS: u32 = u32::MAX;

/// Collects the requests of a load one by one, and builds the shared request source.
pub(super) struct Builder {
    bytes: Vec<u8>,
    parts: Vec<Part>,
    entries: Vec<Entry>,
    weights: Vec<f64>,
    /// For each given request, in order: the index of its entry. Equal requests share an entry.
    order: Vec<u32>,
    values: Values,
    ranges: HashMap<(u64, u64), u32>,
    lists: HashMap<String, u32>,
    /// For each list: the positions in a request (path, header value, body) for which its lines were already checked
    /// and found valid.
    fits: Vec<Vec<Position>>,
    checks: Vec<Checks>,
    checks_by_spec: HashMap<ChecksSpec, u32>,
    routes: Routes,
    /// Maps the hash of the rendered bytes to the first static request with this hash, to find and merge equal requests
    /// of a file. Different requests with the same hash are both kept.
    merged: HashMap<u64, u32>,
    hasher: RandomState,
    /// State of the request that is being rendered.
    draft: Draft,
}

#[derive(Clone, Copy, Default)]
struct Draft {
    /// Index in `bytes`. The constant text from here on is not part of `parts` yet.
    literal_start: usize,
    occurrences: u32,
    /// Whether the request has parts whose value differs per arrival.
    is_template: bool,
}

impl Builder {
    pub(super) fn new(spec: &LoadSpec) -> Self {
        let mut values = Values { seed: spec.seed, attempt: spec.attempt, ..Values::default() };
        spec.domains.iter().for_each(|domain| values.domains.push(domain.as_bytes()));
        spec.tokens.iter().for_each(|token| values.tokens.push(token.as_bytes()));
        Self {
            bytes: Vec::new(),
            parts: Vec::new(),
            entries: Vec::new(),
            weights: Vec::new(),
            order: Vec::new(),
            values,
            ranges: HashMap::new(),
            lists: HashMap::new(),
            fits: Vec::new(),
            checks: Vec::new(),
            checks_by_spec: HashMap::new(),
            routes: Routes::default(),
            merged: HashMap::new(),
            hasher: RandomState::new(),
            draft: Draft::default(),
        }
    }

    /// Adds a valid request.
    pub(super) fn push(&mut self, spec: &RequestSpec) -> Result<(), EngineError> {
        self.check_size(spec)?;
        let (bytes_start, parts_start) = (self.bytes.len(), self.parts.len());
        self.draft = Draft { literal_start: bytes_start, ..Draft::default() };
        self.literal(&spec.method);
        self.literal(" ");
        self.template(&spec.path, Position::Path)?;
        self.literal(" HTTP/1.1\r\n");
        for (name, value) in &spec.headers {
            self.literal(name);
            self.literal(": ");
            self.template(value, Position::Value)?;
            self.literal("\r\n");
        }
        if self.values.tokens.len() > 0 {
            self.literal(TOKEN_FIELD);
            self.literal(": Bearer ");
            self.turn(Part::Token);
            self.literal("\r\n");
        }
        let (head_bytes_end, head_parts_end) = self.body(spec)?;
        let draft = self.draft;
        let (start, end, head_end) = if draft.is_template {
            self.end_literal();
            (parts_start, self.parts.len(), head_parts_end)
        } else {
            self.parts.truncate(parts_start);
            (bytes_start, self.bytes.len(), head_bytes_end)
        };
        let entry = Entry {
            start: start as u32,
            end: end as u32,
            head_end: head_end as u32,
            checks: self.checks(&spec.checks),
            route: self.routes.number(spec),
            is_static: !draft.is_template,
            says_close: says_close(spec),
            response_to: if spec.method == "HEAD" { ResponseTo::Head } else { ResponseTo::Other },
        };
        self.order.push(self.entries.len() as u32);
        self.entries.push(entry);
        self.weights.push(spec.weight);
        Ok(())
    }

    /// Adds a valid request. If it is static and an earlier request is the same, ignoring the weight, adds the weight
    /// to that request instead.
    pub(super) fn push_or_merge(&mut self, spec: &RequestSpec) -> Result<(), EngineError> {
        let (request, bytes_start) = (self.entries.len(), self.bytes.len());
        if request == REQUESTS_MAX {
            return invalid(
                "requests",
                "the load has too many requests",
                format!("use at most {REQUESTS_MAX}"),
            );
        }
        self.push(spec)?;
        if !self.entries[request].is_static {
            return Ok(());
        }
        let hash = self.hasher.hash_one(self.identity(request));
        let first = *self.merged.entry(hash).or_insert(request as u32) as usize;
        if first != request && self.identity(first) == self.identity(request) {
            self.weights[first] += spec.weight;
            self.weights.pop();
            self.entries.pop();
            self.bytes.truncate(bytes_start);
            if let Some(last) = self.order.last_mut() {
                *last = first as u32;
            }
        }
        Ok(())
    }

    /// What identifies a static request: everything except its weight. Requests with the same identity are merged.
    fn identity(&self, request: usize) -> (&[u8], u32, u16) {
        let entry = &self.entries[request];
        (&self.bytes[entry.start as usize..entry.end as usize], entry.checks, entry.route)
    }

    /// Builds the request source from at least one request. With `is_recorded`, requests are sent in the given
    /// order.
    pub(super) fn finish(mut self, is_https: bool, is_recorded: bool) -> Shared {
        let closing = self.closing();
        self.bytes.shrink_to_fit();
        self.parts.shrink_to_fit();
        self.entries.shrink_to_fit();
        Shared {
            choice: match is_recorded {
                true => Choice::in_order(self.order),
                false => Choice::new(self.values.seed, &self.weights),
            },
            entries: self.entries,
            bytes: self.bytes,
            closing,
            parts: self.parts,
            values: self.values,
            routes: self.routes.into_names(),
            checks: self.checks,
            is_https,
            left_out: None,
            is_recorded,
        }
    }

    /// Appends a variant with `Connection: close` of each static request to `bytes`. Returns, for each
    /// request, the start and end of its variant, or an empty range if the request is not static. Appends nothing and
    /// returns an empty list if no request is static, or if `bytes` exceeds `CLOSING_BYTES_MAX`.
    fn closing(&mut self) -> Vec<(u32, u32)> {
        if self.bytes.len() > CLOSING_BYTES_MAX || self.entries.iter().all(|entry| !entry.is_static) {
            return Vec::new();
        }
        let mut closing = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let start = self.bytes.len();
            if entry.is_static {
                self.bytes.extend_from_within(entry.start as usize..entry.head_end as usize);
                self.bytes.extend_from_slice(if entry.says_close { b"" } else { CLOSE });
                self.bytes.extend_from_within(entry.head_end as usize..entry.end as usize);
            }
            closing.push((start as u32, self.bytes.len() as u32));
        }
        closing
    }

    /// Adds the framing header field, the empty line and the body. Returns where the header fields end, as a
    /// position in `bytes` and in `parts`.
    fn body(&mut self, spec: &RequestSpec) -> Result<(usize, usize), EngineError> {
        let (pieces, decoded) = match &spec.body {
            Body::Text(text) => (pieces(text, Position::Body)?, Vec::new()),
            Body::Base64(text) => (Vec::new(), STANDARD.decode(text).map_err(|error| not_base64(&error))?),
        };
        let known_bytes = match pieces.as_slice() {
            [] => Some(decoded.len()),
            [Piece::Literal(text)] => Some(text.len()),
            _ => None,
        };
        match known_bytes {
            Some(0) if !wants_length(&spec.method) => {}
            Some(bytes) => append_content_length(&mut self.bytes, bytes as u64),
            None => {
                self.literal("Content-Length: ");
                self.placeholder(Part::BodyBytes);
                self.literal("\r\n");
            }
        }
        self.end_literal();
        let head_end = (self.bytes.len(), self.parts.len());
        self.literal("\r\n");
        // The empty line must be a separate part, because the parts after it are used as the body.
        self.end_literal();
        self.bytes.extend_from_slice(&decoded);
        pieces.into_iter().try_for_each(|piece| self.piece(piece, Position::Body))?;
        Ok(head_end)
    }

    fn literal(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn end_literal(&mut self) {
        let (start, end) = (self.draft.literal_start, self.bytes.len());
        if start < end {
            self.parts.push(Part::Literal { start: start as u32, bytes: (end - start) as u32 });
        }
        self.draft.literal_start = end;
    }

    fn placeholder(&mut self, part: Part) {
        self.end_literal();
        self.parts.push(part);
        self.draft.is_template = true;
    }

    /// Adds a domain or a token: its text if the load has only one, otherwise a placeholder.
    fn turn(&mut self, part: Part) {
        let lines = if part == Part::Domain { &self.values.domains } else { &self.values.tokens };
        match lines.len() {
            1 => self.bytes.extend_from_slice(lines.line(0)),
            _ => self.placeholder(part),
        }
    }

    fn template(&mut self, text: &str, position: Position) -> Result<(), EngineError> {
        pieces(text, position)?.into_iter().try_for_each(|piece| self.piece(piece, position))
    }

    fn piece(&mut self, piece: Piece<'_>, position: Position) -> Result<(), EngineError> {
        let occurrence = self.draft.occurrences;
        match piece {
            Piece::Literal(text) => {
                self.literal(text);
                return Ok(());
            }
            Piece::Seq => self.placeholder(Part::Seq),
            Piece::Domain => self.turn(Part::Domain),
            Piece::Uuid => self.placeholder(Part::Uuid { occurrence }),
            Piece::Integer { low, high } => {
                let next = self.ranges.len() as u32;
                let range = *self.ranges.entry((low, high)).or_insert(next);
                if range == next {
                    self.values.ranges.push((low, high));
                }
                self.placeholder(Part::Integer { range, occurrence });
            }
            Piece::Pick(file) => {
                let list = self.list(file, position)?;
                self.placeholder(Part::Pick { list, occurrence });
            }
        }
        self.draft.occurrences += 1;
        Ok(())
    }

    /// Returns the index in `values.lists` at which the lines of `file` are stored. All lines must be valid at
    /// `position` of the request.
    fn list(&mut self, file: &str, position: Position) -> Result<u32, EngineError> {
        let wrong = |what: &str, remedy: String| {
            invalid(position.field(), format!("`{{pick:{file}}}`: {what}"), remedy)
        };
        let list = match self.lists.get(file) {
            Some(&list) => list,
            None if self.lists.len() == PICK_FILES_MAX => {
                return wrong("too many different files", format!("use at most {PICK_FILES_MAX} files"));
            }
            None => {
                let lines = match Lines::of_file(file) {
                    Ok(lines) => lines,
                    Err(what) => return wrong(&what, format!("correct the path or the contents of {file}")),
                };
                let list = self.lists.len() as u32;
                self.lists.insert(file.to_owned(), list);
                self.values.lists.push(lines);
                self.fits.push(Vec::new());
                list
            }
        };
        if !self.fits[list as usize].contains(&position) {
            if let Some((number, fault)) = self.values.lists[list as usize].fault(position) {
                let what =
                    format!("line {} of the file contains {fault} (empty lines are not counted)", number + 1);
                return wrong(&what, format!("correct the file {file}"));
            }
            self.fits[list as usize].push(position);
        }
        Ok(list)
    }

    /// Returns the index of these checks. Equal checks are stored once.
    fn checks(&mut self, spec: &ChecksSpec) -> u32 {
        if let Some(&number) = self.checks_by_spec.get(spec) {
            return number;
        }
        let number = match Checks::new(spec) {
            None => NO_CHECKS,
            Some(checks) => {
                self.checks.push(checks);
                self.checks.len() as u32 - 1
            }
        };
        self.checks_by_spec.insert(spec.clone(), number);
        number
    }

    /// Rejects a request if all requests together would be too large, so that 32 bits are enough for positions in the
    /// buffer.
    fn check_size(&self, spec: &RequestSpec) -> Result<(), EngineError> {
        let (Body::Text(body) | Body::Base64(body)) = &spec.body;
        let fields: usize = spec.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let token_bytes = if self.values.tokens.len() == 1 { self.values.tokens.line(0).len() } else { 0 };
        let added = spec.method.len() + spec.path.len() + fields + body.len() + token_bytes + 128;
        if self.bytes.len() as u64 + added as u64 > REQUESTS_BYTES_MAX {
            let message = format!("all requests together are larger than {} MiB", REQUESTS_BYTES_MAX >> 20);
            return invalid("requests", message, "use fewer or smaller requests");
        }
        Ok(())
    }
}

fn pieces(text: &str, position: Position) -> Result<Vec<Piece<'_>>, EngineError> {
    parse(text, position).map_err(|problem| EngineError::Invalid(problem.at(position.field())))
}

/// Whether a request with this method sends Content-Length even if its body is empty, because such requests usually
/// have a body (RFC 9110, 8.6).
fn wants_length(method: &str) -> bool {
    matches!(method, "POST" | "PUT" | "PATCH")
}

fn says_close(spec: &RequestSpec) -> bool {
    spec.headers.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case("connection") && weir_http::list_contains(value.as_bytes(), "close")
    })
}
