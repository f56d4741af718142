//! Who is let in: TLS, users and their passwords.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_store::cassandra::Address;
use anabranch_store::{Driver as _, Error};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use scylla::client::session_builder::SessionBuilder;

use crate::authority::{Certificates, openssl};
use crate::cql::Cql;
use crate::server::Server;
use crate::{RELEASE, alone, counts_are_not_doubled, driver};

/// Of the role that has no more rights than it needs; in an address some of its letters are written `%XX`.
const PASSWORD: &str = "s3c/r@t%";
const WRITTEN: &str = "s3c%2Fr%40t%25";

/// A server that wants TLS and a password.
fn server(made: &Certificates) -> Option<Server> {
    let (key, cert, both) = (made.path("s.key"), made.path("s.crt"), made.path("s.p12"));
    openssl(&format!("pkcs12 -export -inkey {key} -in {cert} -out {both} -passout pass:unlocked"));
    let settings = format!(
        "client_encryption_options:\n  {{enabled: true, optional: false, require_client_auth: false, \
         keystore: {both}, keystore_password: unlocked, store_type: PKCS12}}\n\
         authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\n\
         permissions_validity: 0ms\n"
    );
    Server::start_with(RELEASE, &settings)
}

/// The role that is there from the beginning, or some seconds later.
fn superuser(server: &Server, made: &Certificates) -> Cql {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(made.path("ca.crt")).unwrap() {
        roots.add(certificate.unwrap()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let began = Instant::now();
    loop {
        let builder = SessionBuilder::new().known_node(server.node());
        let builder = builder.user("cassandra", "cassandra").tls_context(Some(config.clone()));
        match Cql::connect(builder) {
            Ok(connection) => return connection,
            Err(why) => assert!(began.elapsed() < Duration::from_secs(60), "{why}"),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// What the driver says who is not let in.
fn refusal(address: &str) -> String {
    let refused = driver(address).keys("").expect_err(address);
    assert!(refused.is_unavailable(), "{refused}");
    refused.to_string()
}

#[test]
fn only_who_should_is_let_in() {
    let _alone = alone();
    let made = Certificates::make();
    let Some(server) = server(&made) else { return };
    let address = |user: &str, options: &str| {
        let address = server.address(&format!("timeout_ms=30000{options}"));
        address.replace("cassandra://", &format!("cassandra+tls://{user}"))
    };
    let trusted = format!("&ca={}", made.path("ca.crt"));
    let superuser = superuser(&server, &made);
    superuser.ask(&format!("CREATE ROLE nf WITH PASSWORD = '{PASSWORD}' AND LOGIN = true"));
    passwords_are_looked_at(&address, &trusted);
    rights_are_what_is_needed(&address, &trusted, &superuser);
    let user = format!("nf:{WRITTEN}@");
    let by = |authority: &str| address(&user, &format!("&ca={}", made.path(authority)));
    let refused = refusal(&by("other.crt"));
    assert!(refused.contains("its authority trusted"), "{refused}");
    // What is no file of authorities is told before anybody is asked.
    for authority in ["none.crt", "names"] {
        let refused = Address::parse(&by(authority)).unwrap_err();
        assert!(matches!(refused, Error::Configuration { .. }), "{refused}");
    }
    refusal(&address(&user, "&timeout_ms=5000"));
    refusal(&server.address("timeout_ms=5000").replace("://", &format!("://{user}")));
}

/// Whoever is not let in is told why, and what to write.
fn passwords_are_looked_at(address: &impl Fn(&str, &str) -> String, trusted: &str) {
    let nobody = refusal(&address("", trusted));
    assert!(nobody.contains("USER:PASSWORD@") && nobody.contains("password_file"), "{nobody}");
    for wrong in ["nf:s3cret@", "nobody:s3cret@"] {
        let refused = refusal(&address(wrong, trusted));
        assert!(refused.contains("are user and password right?"), "{refused}");
        assert!(!refused.contains("s3cret"), "{refused}");
    }
}

/// Where key space and table are there, a role need not be allowed to make any.
fn rights_are_what_is_needed(
    address: &impl Fn(&str, &str) -> String,
    trusted: &str,
    superuser: &Cql,
) {
    let by_address = address(&format!("nf:{WRITTEN}@"), trusted);
    let lacks = refusal(&by_address);
    assert!(lacks.contains("CREATE on all key spaces"), "it may not make any: {lacks}");
    assert_eq!(driver(&address("cassandra:cassandra@", trusted)).keys("").unwrap(), []);
    superuser.ask("GRANT SELECT ON KEYSPACE anabranch TO nf");
    let lacks = driver(&by_address).run(&[crate::adding()]).unwrap_err().to_string();
    assert!(lacks.contains("SELECT and MODIFY"), "{lacks}");
    superuser.ask("GRANT MODIFY ON KEYSPACE anabranch TO nf");
    counts_are_not_doubled(&by_address);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let by_file = address("nf@", &format!("{trusted}&password_file={}", file.display()));
    counts_are_not_doubled(&by_file);
    std::fs::write(&file, "s3cret\n").unwrap();
    assert!(refusal(&by_file).contains("are user and password right?"));
}
