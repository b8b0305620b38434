//! Reads and validates the user's own configuration file, which replaces the main template of a driver. Some settings
//! have the same value in all drivers; weir reports which of them the file lacks.

use std::collections::HashSet;
use std::path::Path;

use weir_document::Problem;
use weir_results::Configuration;

use super::templates::{Templates, environment, template_error};
use super::{Driver, Step};
use crate::RigError;
use crate::digest::sha256_hex;

/// Maximum size of a configuration file, bytes.
const BYTES_MAX: usize = 64 << 20;
/// Number of hash digits that reports show.
const HASH_LETTERS: usize = 12;
/// Template values with the listening address.
const LISTEN: [&str; 2] = ["listen", "listen_port"];
/// Template values with the admin address.
const ADMIN: [&str; 2] = ["admin", "admin_port"];
/// Template values with the addresses of the upstream.
const ORIGINS: [&str; 2] = ["origins", "origin_addresses"];
/// The template value with the certificates.
const TLS: [&str; 1] = ["tls"];

/// Reads the user's own configuration file.
///
/// # Errors
/// [`RigError::Driver`] if the file cannot be read, is larger than 64 MiB, or is not UTF-8 text.
pub fn read_configuration(path: &Path) -> Result<Configuration, RigError> {
    let wrong = |message: String, remedy: &str| {
        RigError::Driver(Problem::of(path.display().to_string(), message).help(remedy))
    };
    let bytes = std::fs::read(path).map_err(|error| {
        wrong(error.to_string(), "correct the path; it is relative to the scenario's folder")
    })?;
    let check = "check that this is the configuration file";
    if bytes.len() > BYTES_MAX {
        let message = format!("the file has {} bytes; the maximum is {} MiB", bytes.len(), BYTES_MAX >> 20);
        return Err(wrong(message, check));
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("the file is not UTF-8 text".into(), check))?;
    let sha256 = sha256_hex(&text);
    Ok(Configuration { path: path.display().to_string(), sha256, text })
}

impl Driver {
    /// The template that the user's own configuration file replaces.
    pub(super) fn main(&self) -> Result<&str, RigError> {
        if let Some(main) = &self.file.main {
            return Ok(main);
        }
        let mut rendered = self.file.steps.iter().filter_map(|step| match step {
            Step::Render { template, .. } => Some(template),
            _ => None,
        });
        match (rendered.next(), rendered.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(self.wrong(
                "the gateway has `config` in the scenario, but its driver has no `main`",
                "set `main` to the template that `config` replaces",
            )),
        }
    }

    /// Checks that the file has a placeholder for the upstream. The file also needs a placeholder for the listening
    /// address, unless `listen_is_given` (the scenario sets `listen`). The ports of upstream and gateway differ in each
    /// cell, so the file cannot contain them.
    ///
    /// # Errors
    /// [`RigError::Render`] for an invalid template, [`RigError::Driver`] if a placeholder is missing.
    pub fn check_configuration(&self, own: &Configuration, listen_is_given: bool) -> Result<(), RigError> {
        self.main()?;
        let named = names(own)?;
        let wrong = |message: &str, remedy: &str| {
            RigError::Driver(Problem::of(own.path.as_str(), message).help(remedy))
        };
        if !has(&named, &ORIGINS) {
            return Err(wrong(
                "the file has no placeholder for the upstream, whose port differs in each cell",
                "write {{ origins[0] }} as the address of the upstream, or one line for each entry of `origins` \
                (docs/drivers.md)",
            ));
        }
        if !listen_is_given && !has(&named, &LISTEN) {
            return Err(wrong(
                "the file has no placeholder for the listening address, whose port differs in each cell",
                "write {{ listen }} as the listening address, or set the gateway's address in the scenario to the \
                 address in the file, like listen: 127.0.0.1:8080",
            ));
        }
        Ok(())
    }

    /// Checks that the file has a placeholder for the certificates of the cell.
    ///
    /// # Errors
    /// As [`Driver::check_configuration`].
    pub fn check_own_tls(&self, own: &Configuration) -> Result<(), RigError> {
        match has(&names(own)?, &TLS) {
            true => Ok(()),
            false => {
                let message = "the file does not configure TLS, which `topology.tls` requires";
                let remedy =
                    "add {{ tls.certificate }} and {{ tls.key }} to the listener, or remove `topology.tls`";
                Err(RigError::Driver(Problem::of(own.path.as_str(), message).help(remedy)))
            }
        }
    }

    /// Whether the gateway listens on its admin address: the driver's command line or the user's file must mention it.
    pub(super) fn has_admin(&self, own: &Configuration) -> Result<bool, RigError> {
        let by_command = self
            .file
            .processes
            .iter()
            .flat_map(|process| &process.command)
            .any(|word| word.contains("admin"));
        Ok(by_command || has(&names(own)?, &ADMIN))
    }

    /// Checks whether the user's file contains the settings in the driver's `equal` list, which have the same value in
    /// all drivers. Returns notes for the report: first that weir uses the file, then one per missing setting. If the
    /// driver has no list, a note says so.
    pub(super) fn lint(
        &self,
        own: &Configuration,
        templates: &Templates<'_>,
    ) -> Result<Vec<String>, RigError> {
        let file = Path::new(&own.path).file_name().unwrap_or_default().to_string_lossy();
        let hash: String = own.sha256.chars().take(HASH_LETTERS).collect();
        let mut notes = vec![format!(
            "the user's configuration {file} (SHA-256 {hash}) determines its routes, and the settings that weir \
             otherwise makes equal for all gateways"
        )];
        if self.file.equal.is_empty() {
            notes.push(
                "weir did not check the file for settings that all gateways should share: the driver has no list of \
                 them in `equal`"
                    .into(),
            );
        }
        let text = plain(&templates.file(self.main()?)?);
        for equal in &self.file.equal {
            let words = plain(&templates.text("equal", &equal.text)?);
            if !text.contains(&words) {
                notes.push(format!(
                    "{}: {file} lacks `{words}`, which the driver's template contains",
                    equal.what
                ));
            }
        }
        Ok(notes)
    }
}

/// The names of the template values that the file uses.
fn names(own: &Configuration) -> Result<HashSet<String>, RigError> {
    let wrong = |error: &minijinja::Error| template_error(&own.path, error);
    let mut environment = environment();
    environment.add_template("own", &own.text).map_err(|error| wrong(&error))?;
    let template = environment.get_template("own").map_err(|error| wrong(&error))?;
    Ok(template.undeclared_variables(false))
}

fn has(named: &HashSet<String>, wanted: &[&str]) -> bool {
    wanted.iter().any(|name| named.contains(*name))
}

/// Removes comment lines from `text`, and joins all words with single spaces.
fn plain(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::SocketAddr;

    use super::*;
    use crate::{Binary, Binding, Drivers, Rendered, TlsBinding};

    fn own(text: &str) -> Configuration {
        Configuration { path: "conf/my.conf".into(), sha256: sha256_hex(text), text: text.into() }
    }

    fn binding(config: Option<Configuration>) -> Binding {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Binding {
            listen: address(1),
            admin: address(2),
            origins: vec![address(3), address(4)],
            hosts: vec!["one.test".into()],
            paths: vec!["/ping".into()],
            rewrite: None,
            tls: None,
            certificates: None,
            tokens: Vec::new(),
            workers: 3,
            limits: BTreeMap::new(),
            set: BTreeMap::new(),
            binary: Binary { path: "/nowhere".into(), ..Binary::default() },
            config,
            changes: false,
            pods: None,
            services: BTreeMap::new(),
            addresses: BTreeMap::new(),
            secure_origin: None,
            token_cache: std::time::Duration::ZERO,
        }
    }

    fn rendered(
        driver: &str,
        config: Option<Configuration>,
    ) -> Result<(Rendered, BTreeMap<String, String>), String> {
        rendered_for(driver, &binding(config))
    }

    fn rendered_for(driver: &str, binding: &Binding) -> Result<(Rendered, BTreeMap<String, String>), String> {
        let drivers = Drivers::load(&[]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let rendered =
            drivers.driver(driver).unwrap().render(binding, folder.path()).map_err(|e| e.to_string())?;
        let file = |path: &std::path::PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        };
        let files = rendered.files.iter().map(file).collect();
        Ok((rendered, files))
    }

    /// The main file of a driver, as shipped.
    fn shipped(driver: &str) -> Configuration {
        let drivers = Drivers::load(&[]).unwrap();
        let driver = drivers.driver(driver).unwrap();
        own(&driver.templates[driver.main().unwrap()])
    }

    #[test]
    fn the_equal_settings_are_in_the_drivers_own_file() {
        for driver in ["nginx", "haproxy", "envoy", "weir"] {
            let notes = rendered(driver, Some(shipped(driver))).unwrap().0.unequal;
            let plain = rendered(driver, None).unwrap().0.unequal;
            assert_eq!(notes.len(), plain.len() + 1, "{notes:#?}");
            assert!(notes.iter().any(|notes| notes.contains("my.conf")), "{notes:#?}");
        }
    }

    #[test]
    fn the_equal_tls_settings_are_in_the_drivers_own_file() {
        for driver in ["nginx", "haproxy", "envoy", "weir"] {
            let with = |config| {
                let tls = Some(TlsBinding { client_certificate: true, ..TlsBinding::default() });
                let binding = Binding { tls, tokens: vec!["t0".into()], ..binding(config) };
                rendered_for(driver, &binding).unwrap().0
            };
            let (notes, plain) = (with(Some(shipped(driver))), with(None));
            assert_eq!(notes.unequal.len(), plain.unequal.len() + 1, "{:#?}", notes.unequal);
            let adds_nothing = ["haproxy", "weir"].contains(&driver);
            assert!(adds_nothing || plain.unequal.len() > rendered(driver, None).unwrap().0.unequal.len());
            assert!(plain.credentials.shows_certificate && plain.credentials.certificates.is_some());
            assert_eq!(plain.credentials.token.as_deref(), Some("t0"));
        }
        let drivers = Drivers::load(&[]).unwrap();
        let error = drivers.driver("nginx").unwrap().check_own_tls(&own("{{ listen }}")).unwrap_err();
        assert!(error.to_string().contains("the file does not configure TLS"), "{error}");
    }

    #[test]
    fn a_users_file_replaces_the_main_file_and_gets_the_rigs_values() {
        let text = "daemon off; # {{ origins | join(' ') }}\n# worker_processes 3;\nlisten {{ listen }};\n\
                    proxy_next_upstream\n  off;\n";
        let (rendered, files) = rendered("nginx", Some(own(text))).unwrap();
        assert_eq!(
            files["nginx.conf"],
            "daemon off; # 127.0.0.1:3 127.0.0.1:4\n# worker_processes 3;\nlisten 127.0.0.1:1;\n\
             proxy_next_upstream\n  off;\n"
        );
        let notes = rendered.unequal.join("\n");
        assert!(
            notes.contains("lacks `worker_processes 3;`, which the driver's template contains"),
            "{notes}"
        );
        assert!(!notes.contains("proxy_next_upstream"), "{notes}");
        // The file does not use `admin`, so weir neither checks readiness nor reads counters on the admin address.
        assert!(notes.contains("cannot read the gateway's request counters"), "{notes}");
        assert_eq!(rendered.processes[0].listens, [SocketAddr::from(([127, 0, 0, 1], 1))]);
        assert_eq!(rendered.counters.read().unwrap(), None);
    }

    #[test]
    fn a_users_file_replaces_only_the_main_file() {
        let (_, files) =
            rendered("haproxy", Some(own("bind {{ listen }} {{ origins }} {{ admin }}"))).unwrap();
        assert_eq!(files["routes.lst"], "one.test/ping\n");
        assert!(files["haproxy.cfg"].starts_with("bind 127.0.0.1:1 "), "{files:?}");
    }

    #[test]
    fn different_files_have_different_hashes() {
        let hash = |text: &str| rendered("nginx", Some(own(text))).unwrap().0.config_sha256;
        assert_eq!(hash("{{ listen }}"), hash("{{ listen }}"));
        assert_ne!(hash("{{ listen }}"), hash("{{ listen }} "));
    }

    #[test]
    fn files_without_placeholders_are_rejected() {
        let drivers = Drivers::load(&[]).unwrap();
        let nginx = drivers.driver("nginx").unwrap();
        let check = |text: &str, listen_is_given: bool| {
            nginx.check_configuration(&own(text), listen_is_given).map_err(|error| {
                assert!(error.is_wrong_use(), "{error:?}");
                format!("{error} | {}", error.remedy())
            })
        };
        assert_eq!(check("{{ listen }} {% for origin in origins %}{{ origin }}{% endfor %}", false), Ok(()));
        assert_eq!(check("listen 80; {{ origin_addresses[0].port }}", true), Ok(()));
        let notes = check("listen 80; {{ origins[0] }}", false).unwrap_err();
        assert!(
            notes.starts_with("conf/my.conf: the file has no placeholder for the listening address"),
            "{notes}"
        );
        assert!(notes.contains("{{ listen }}"), "{notes}");
        let notes = check("{{ listen }} server 127.0.0.1:9000;", false).unwrap_err();
        assert!(
            notes.contains("no placeholder for the upstream") && notes.contains("{{ origins[0] }}"),
            "{notes}"
        );
        let notes = check("one\n{{ listen", false).unwrap_err();
        assert!(notes.starts_with("conf/my.conf:2: "), "{notes}");
        let notes = rendered("nginx", Some(own("a\n{{ lsiten }} {{ origins }}"))).map(drop).unwrap_err();
        assert!(notes.starts_with("conf/my.conf:2: "), "{notes}");
    }

    #[test]
    fn unreadable_files_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.conf");
        std::fs::write(&path, "abc").unwrap();
        let read = read_configuration(&path).unwrap();
        assert_eq!((read.text.as_str(), &read.sha256[..8]), ("abc", "ba7816bf"));
        std::fs::write(&path, [0xff]).unwrap();
        assert!(read_configuration(&path).unwrap_err().to_string().contains("UTF-8"));
        let error = read_configuration(&folder.path().join("absent")).unwrap_err();
        assert!(error.to_string().contains("absent: ") && error.is_wrong_use(), "{error}");
    }
}
