use anabranch_nf::prelude::*;

/// Code that is refused.
#[network_function(ports(lan, wan))]
pub mod bodies {
    pub struct Settings {
        pub limit: u32,
    }

    pub struct Nf {
        settings: Settings,
        #[capacity(16)]
        table: Map<u32, u64>,
    }

    impl Nf {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let now = std::time::Instant::now();
            let dice = rand::random();
            let port = pkt.src_port().unwrap();
            let text = format!("{}", port);
            println!("{}", text);
            let half = 0.5;
            unsafe { self.count() };
            std::thread::spawn(|| {});
            self.settings.limit = 9;
            let table = &mut self.table;
            self.table.entry(5);
            if port > 7 {
                panic!("no");
            }
            let closure = |x: u32| x + 1;
            log!(cx, info, "{} {}", port);
            Forward(WAN)
        }
    }
}

fn main() {}
