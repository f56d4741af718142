//! Trojan: `ssh`, files over FTP with `curl`, and `irssi`, in this order and another.

use std::fs;

use crate::lab::{Kind, Lab, Process, assert_adds_up, log, wait_for};
use crate::site::{self, SERVER};
use crate::traffic::ping;

const PORTS: [&str; 2] = ["lan", "wan"];
const FOUND: &str = "10.0.0.2 seems infected";
const PROGRAMS: [&str; 7] =
    ["ssh", "ssh-keygen", "dropbear", "dropbearkey", "vsftpd", "ngircd", "irssi"];
const FTP: &str = "listen=YES\nbackground=NO\nanonymous_enable=YES\nlocal_enable=NO\n";
const IRC: &str = "[Global]\nName = irc.example.net\nInfo = a test\nPorts = 6667\n\
                   [Options]\nDNS = no\nIdent = no\nPAM = no\n[Limits]\nMaxPenaltyTime = 0\n";

/// A server of SSH, where whoever has the key `id` is let in.
fn ssh_server(lab: &Lab) -> Process {
    fs::create_dir_all(lab.path("home/.ssh")).unwrap();
    lab.run("server", "dropbearkey -t ed25519 -f hostkey").expect();
    lab.run("server", "ssh-keygen -q -t ed25519 -N '' -f id").expect();
    fs::copy(lab.path("id.pub"), lab.path("home/.ssh/authorized_keys")).unwrap();
    lab.run("server", "chmod -R go= home").expect();
    let line = "dropbear -F -E -s -r hostkey -p 22 -P ssh.pid";
    lab.serve("server", &lab.with("home", "/root", line))
}

/// A server of FTP, for anybody.
fn ftp_server(lab: &Lab) -> Process {
    fs::create_dir(lab.path("files")).unwrap();
    for name in ["page.html", "archive.zip", "program.exe"] {
        lab.file(&format!("files/{name}"), 3_000);
    }
    let empty = lab.path("empty");
    fs::create_dir(&empty).unwrap();
    fs::write(lab.path("ftp.conf"), format!("{FTP}secure_chroot_dir={}\n", empty.display()))
        .unwrap();
    let line = format!("vsftpd {}", lab.path("ftp.conf").display());
    lab.serve("server", &lab.with("files", "/srv/ftp", &line))
}

fn irc_server(lab: &Lab) -> Process {
    fs::write(lab.path("irc.conf"), IRC).unwrap();
    lab.serve("server", &format!("ngircd -n -f {}", lab.path("irc.conf").display()))
}

fn ssh(lab: &Lab, host: &str) {
    let options = "-F none -i id -o BatchMode=yes -o StrictHostKeyChecking=no \
                   -o UserKnownHostsFile=known -o ConnectTimeout=10";
    let said = lab.run(host, &format!("ssh {options} root@{SERVER} echo here")).expect();
    assert!(said.contains("here"), "{said}");
}

fn ftp(lab: &Lab, host: &str) {
    for name in ["program.exe", "page.html", "archive.zip"] {
        let line = format!("curl -sS --max-time 10 -o got ftp://{SERVER}/{name}");
        lab.run(host, &line).expect();
        let sent = fs::read(lab.path(&format!("files/{name}"))).unwrap();
        assert!(fs::read(lab.path("got")).unwrap() == sent, "{name}");
    }
}

/// A client of IRC, on a terminal that is the file `screen`.
fn irc(lab: &Lab, host: &str, screen: &str) -> Process {
    let client = format!("irssi --home=irssi-{host} --connect={SERVER} --nick={host}");
    lab.serve(host, &format!("script -qefc 'env TERM=xterm {client}' {screen}"))
}

fn is_welcome(lab: &Lab, screen: &str) -> bool {
    let shown = fs::read(lab.path(screen)).unwrap_or_default();
    String::from_utf8_lossy(&shown).contains("Welcome to the Internet Relay Network")
}

/// Talks until the server has answered.
fn chat(lab: &Lab, host: &str, screen: &str) {
    let _client = irc(lab, host, screen);
    wait_for("a welcome", || is_welcome(lab, screen));
}

fn in_order(kind: Kind) {
    let Some(lab) = site::open(kind, &["victim", "other"], &PROGRAMS) else { return };
    let reports = site::start(&lab, "trojan", "--set action=report", PORTS);
    let _servers = [ssh_server(&lab), ftp_server(&lab), irc_server(&lab)];
    [22, 21, 6667].iter().for_each(|port| lab.until_it_listens("server", *port));
    ssh(&lab, "victim");
    ftp(&lab, "victim");
    chat(&lab, "victim", "reported");
    let report = reports.finish();
    assert_eq!(log(&report), [FOUND]);
    assert_adds_up(&report);

    let blocks = site::start_again(&lab, "trojan", "", PORTS);
    chat(&lab, "other", "before");
    ftp(&lab, "other");
    ssh(&lab, "other");
    ssh(&lab, "victim");
    chat(&lab, "victim", "at-first");
    ftp(&lab, "victim");
    ping(&lab, "victim", SERVER, 56);
    let _client = irc(&lab, "victim", "blocked");
    wait_for("it to be found", || !blocks.report().log.is_empty());
    assert!(lab.run("victim", &format!("ping -c 2 -i 0.1 -W 1 {SERVER}")).fails());
    assert!(!is_welcome(&lab, "blocked"));
    chat(&lab, "other", "after");
    ftp(&lab, "other");
    let report = blocks.finish();
    assert_eq!(log(&report), [FOUND]);
    assert!(report.drops["infected"] >= 3, "{:?}", report.drops);
    assert_adds_up(&report);
}

#[test]
fn an_infected_host_is_cut_off_over_packet_sockets() {
    in_order(Kind::AfPacket);
}

#[test]
fn an_infected_host_is_cut_off_over_xdp() {
    in_order(Kind::Xdp);
}
