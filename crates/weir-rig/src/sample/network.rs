//! Reads the traffic of a network namespace.

use weir_results::NetworkUsage;

use super::group::read_whole;
use super::host::retransmitted_segments;
use crate::Namespace;

/// The loopback interface. It is excluded, because the rig uses it for its own requests to a part.
const LOOPBACK: &str = "lo";

/// Reads the traffic of one network namespace.
#[derive(Debug)]
pub(crate) struct NetworkReader {
    namespace: Namespace,
    buffer: Vec<u8>,
}

impl NetworkReader {
    pub(crate) fn new(namespace: &Namespace) -> Self {
        Self { namespace: namespace.clone(), buffer: Vec::new() }
    }

    /// All traffic since the namespace was created.
    pub(crate) fn sample(&mut self) -> Option<NetworkUsage> {
        let crossed = crossed(read_whole(self.namespace.interfaces(), &mut self.buffer)?)?;
        let retransmitted_segments =
            retransmitted_segments(read_whole(self.namespace.snmp(), &mut self.buffer)?)?;
        Some(NetworkUsage { retransmitted_segments: Some(retransmitted_segments), ..crossed })
    }
}

/// Parses /proc/net/dev, and adds up all interfaces except the loopback. A line has eight numbers for received traffic,
/// `name: bytes packets errs drop fifo frame compressed multicast`, then eight numbers for sent traffic.
fn crossed(text: &str) -> Option<NetworkUsage> {
    let interfaces = text.lines().filter_map(|line| line.split_once(':'));
    let others = interfaces.filter(|(name, _)| name.trim() != LOOPBACK);
    others
        .map(|(_, numbers)| of_interface(numbers))
        .try_fold(NetworkUsage::default(), |sum, one| Some(sum + one?))
}

fn of_interface(numbers: &str) -> Option<NetworkUsage> {
    let numbers: Vec<u64> = numbers.split_whitespace().map_while(|number| number.parse().ok()).collect();
    let [received_bytes, received_packets, _, _, _, _, _, _, sent_bytes, sent_packets] =
        *numbers.first_chunk()?;
    Some(NetworkUsage {
        received_bytes,
        received_packets,
        sent_bytes,
        sent_packets,
        retransmitted_segments: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_interface_except_the_loopback_counts() {
        let head = "Inter-|   Receive  |  Transmit\n face |bytes    packets errs|bytes    packets\n";
        let lo = "    lo: 900 9 0 0 0 0 0 0 900 9 0 0 0 0 0 0\n";
        let ends = "w-1: 10 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n w-2:3000 3 0 0 0 0 0 0 40000 4 0 0 0 0 0 0\n";
        let expected = NetworkUsage {
            received_bytes: 3010,
            sent_bytes: 40200,
            received_packets: 4,
            sent_packets: 6,
            retransmitted_segments: None,
        };
        assert_eq!(crossed(&format!("{head}{lo}{ends}")), Some(expected));
        assert_eq!(crossed(&format!("{head}{lo}")), Some(NetworkUsage::default()));
        assert_eq!(crossed("w-1: 10 1\n"), None);
    }
}
