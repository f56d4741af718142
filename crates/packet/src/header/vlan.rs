//! VLAN tags (IEEE 802.1Q, 802.1ad): table of fields.

use super::header;
use crate::{Mode, checksum::Delta};

header! {
    /// The outermost VLAN tag (IEEE 802.1Q, 802.1ad), after its type.
    vlan: Vlan / VlanMut, 4 bytes {
        /// Priority code point, 0 to 7.
        priority: u8 = 3 bits at 0, set_priority updates nothing;
        /// VLAN identifier, 0 to 4095.
        id: u16 = 12 bits at 4, set_id updates nothing;
    } derived {
    }
}

impl<M: Mode> VlanMut<'_, M> {
    #[inline(always)]
    fn nothing(&mut self, _: Delta) {}
}
