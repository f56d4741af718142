//! Certificates for servers on the loopback, made by `openssl`: who is trusted, somebody else, and one that the first
//! has signed. The tests of each driver with TLS have this as a module.

use std::path::PathBuf;
use std::process::Command;

/// A directory with certificates and keys; they end with it.
pub struct Certificates(tempfile::TempDir);

impl Certificates {
    /// `ca.crt`, `other.crt`; `s.crt` with its key `s.key`, which `ca` has signed for 127.0.0.1.
    pub fn make() -> Self {
        let made = Self(tempfile::tempdir().unwrap());
        for name in ["ca", "other"] {
            let (key, cert) =
                (made.path(&format!("{name}.key")), made.path(&format!("{name}.crt")));
            openssl(&format!(
                "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -keyout {key} -out {cert}"
            ));
        }
        std::fs::write(made.path("names"), "subjectAltName=IP:127.0.0.1").unwrap();
        let (key, request, cert) = (made.path("s.key"), made.path("s.csr"), made.path("s.crt"));
        openssl(&format!("req -newkey rsa:2048 -nodes -subj /CN=s -keyout {key} -out {request}"));
        openssl(&format!(
            "x509 -req -days 2 -in {request} -CA {} -CAkey {} -extfile {} -out {cert}",
            made.path("ca.crt"),
            made.path("ca.key"),
            made.path("names"),
        ));
        made
    }

    /// Where one of them is.
    pub fn path(&self, name: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        path.display().to_string()
    }
}

pub fn openssl(line: &str) {
    let made = Command::new("openssl").args(line.split(' ')).output().unwrap();
    assert!(made.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&made.stderr));
}
