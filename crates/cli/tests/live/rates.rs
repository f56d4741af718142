//! What `bench --ports` measures, and that it leaves nothing behind.

use crate::lab::{Kind, Lab};

#[test]
fn rates_are_measured_beside_the_kernels() {
    let Some(lab) = Lab::open(Kind::Xdp) else { return };
    let program = env!("CARGO_BIN_EXE_anabranch");
    let mut bench = lab.serve("nf", &format!("{program} bench --ports nat --json rates.json"));
    assert!(bench.wait().success());
    let document = std::fs::read(lab.path("rates.json")).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    let rows = document["results"].as_array().unwrap();
    let ports: Vec<&str> = rows.iter().filter_map(|row| row["port"].as_str()).collect();
    assert_eq!(ports, ["linux-nftables", "afpacket", "xdp"]);
    for row in rows {
        let figure = |name: &str| row[name].as_f64().unwrap();
        assert!(figure("mpps") > 0.005 && figure("ratio_to_peer") > 0.0, "{row}");
        assert!(figure("loss") < 0.001 && figure("trials") > 5.0, "{row}");
        let latency = &row["latency_ns_at_50"];
        let [p50, p99] = ["p50", "p99"].map(|part| latency[part].as_u64().unwrap());
        assert!(p50 > 100 && p50 <= p99 && p99 < 2_000_000_000, "{row}");
    }
    let left = lab.run("nf", "ip -o link show").expect();
    assert_eq!(left.lines().count(), 1, "only the loopback interface is left: {left}");
}
