//! The files that a load needs.

use std::path::{Path, PathBuf};

use super::{Body, LoadSpec, RequestSpec};
use crate::request::template::{Piece, Position, parse};

impl LoadSpec {
    /// Replaces the path of every file that the load needs with the path that `of` returns. These are request
    /// files, certificates, keys, and the files of `{pick:FILE}`. Files that are named inside of a request file are
    /// not included.
    ///
    /// # Errors
    /// The first error that `of` returns.
    pub fn map_files<E>(&mut self, mut of: impl FnMut(&Path) -> Result<PathBuf, E>) -> Result<(), E> {
        let tls = self.tls.iter_mut().flat_map(|tls| [&mut tls.ca, &mut tls.cert, &mut tls.key]);
        let file = self.request_file.iter_mut().map(|file| &mut file.path);
        for path in tls.flatten().chain(file) {
            *path = of(path)?;
        }
        let bases = self.request_file.iter_mut().map(|file| &mut file.base);
        for request in self.requests.iter_mut().chain(bases) {
            map_lists(request, &mut of)?;
        }
        Ok(())
    }
}

fn map_lists<E>(
    request: &mut RequestSpec,
    of: &mut impl FnMut(&Path) -> Result<PathBuf, E>,
) -> Result<(), E> {
    let headers = request.headers.iter_mut().map(|(_, value)| (value, Position::Value));
    let mut texts: Vec<(&mut String, Position)> = headers.collect();
    texts.push((&mut request.path, Position::Path));
    if let Body::Text(text) = &mut request.body {
        texts.push((text, Position::Body));
    }
    for (text, position) in texts {
        // An invalid template is reported later, with its position, when the load is prepared.
        let Ok(pieces) = parse(text, position) else { continue };
        let mut named: Vec<String> = Vec::new();
        for piece in pieces {
            if let Piece::Pick(file) = piece
                && !named.iter().any(|known| known == file)
            {
                named.push(file.to_owned());
            }
        }
        for file in named {
            let path = of(Path::new(&file))?;
            *text = text.replace(&format!("{{pick:{file}}}"), &format!("{{pick:{}}}", path.display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TlsSpec;

    #[test]
    fn only_paths_of_files_are_mapped() {
        let mut spec = LoadSpec {
            tls: Some(TlsSpec {
                ca: Some("ca.pem".into()),
                key: Some("key.pem".into()),
                ..TlsSpec::default()
            }),
            requests: vec![RequestSpec {
                path: "/{pick:a.txt}/{1..5}/{pick:b.txt}/{pick:a.txt}".into(),
                headers: vec![("x".into(), "{pick:a.txt} {not}".into())],
                body: Body::Text("{\"id\": \"{pick:b.txt}\", \"n\": {seq}}".into()),
                ..RequestSpec::default()
            }],
            ..LoadSpec::default()
        };
        let mut seen = Vec::new();
        let mapped = spec.map_files(|path| {
            seen.push(path.display().to_string());
            Ok::<_, ()>(Path::new("/f").join(path))
        });
        mapped.unwrap();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, ["a.txt", "b.txt", "ca.pem", "key.pem"]);
        let tls = spec.tls.as_ref().unwrap();
        assert_eq!((tls.ca.as_deref(), tls.cert.as_deref()), (Some(Path::new("/f/ca.pem")), None));
        let request = &spec.requests[0];
        assert_eq!(request.path, "/{pick:/f/a.txt}/{1..5}/{pick:/f/b.txt}/{pick:/f/a.txt}");
        assert_eq!(request.headers[0].1, "{pick:/f/a.txt} {not}");
        assert_eq!(request.body, Body::Text("{\"id\": \"{pick:/f/b.txt}\", \"n\": {seq}}".into()));
        assert_eq!(spec.map_files(|_| Err("no")), Err("no"));
    }
}
