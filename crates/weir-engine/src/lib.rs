//! The load engine: pacing x request source x connection x recorder x stop.
