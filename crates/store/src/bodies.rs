//! Long bodies, which are stored out of line: separate from the records of their messages (`lua/include/bodies.lua`).

use bytes::Bytes;

use super::{
    Store, StoreError,
    chunks::chunks_by_size,
    entry::CatalogEntry,
    record::{self, Part},
};
use domain::{DestinationName, Sequence, Stamped};

/// The most bytes of bodies that one call reads. It reads at least one body.
const BYTES_MAX: usize = 8 << 20;
/// The most bodies that one call reads.
const COUNT_MAX: usize = 1000;

impl Store {
    /// Reads bodies by their fields, in order. Each field is given with the length of its body.
    pub(super) async fn bodies(
        &self,
        entry: &CatalogEntry,
        fields: &[(String, u64)],
    ) -> Result<Vec<Option<Bytes>>, StoreError> {
        let key = self.keys_of(entry).bodies();
        let mut found = Vec::with_capacity(fields.len());
        for some in chunks_by_size(fields, COUNT_MAX, BYTES_MAX, |(_, length)| *length as usize) {
            let mut pipe = redis::pipe();
            let command = pipe.cmd("HMGET").arg(&key);
            for (field, _) in some {
                command.arg(field);
            }
            let (bodies,): (Vec<Option<Bytes>>,) = self.query(&pipe).await?;
            found.extend(bodies);
        }
        Ok(found)
    }

    /// Loads the bodies that are stored out of line into their messages. Marks a message as damaged if its body does
    /// not match its record.
    pub(super) async fn fill(
        &self,
        entry: &CatalogEntry,
        messages: &mut [&mut Stamped],
    ) -> Result<(), StoreError> {
        let mut wanted = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            let both =
                [(Part::Body, message.out_of_line.body), (Part::Input, message.out_of_line.input)];
            for (part, length) in both {
                wanted.extend(length.map(|length| (at, part, length)));
            }
        }
        let field = |&(at, part, length): &(usize, Part, u64)| {
            let sequence: Sequence = messages[at].position.sequence;
            (part.field(sequence), length)
        };
        let fields: Vec<_> = wanted.iter().map(field).collect();
        for ((at, part, _), body) in wanted.into_iter().zip(self.bodies(entry, &fields).await?) {
            if let Err(error) = record::fill(messages[at], part, body) {
                messages[at].damaged = Some(error.to_string());
            }
        }
        Ok(())
    }

    /// Marks messages as damaged if their body is missing or does not have the length that their record names. Does
    /// not read the bodies.
    pub(super) async fn find_missing_bodies(
        &self,
        name: &DestinationName,
        messages: &mut [&mut Stamped],
    ) -> Result<(), StoreError> {
        let mut out_of_line: Vec<_> =
            messages.iter_mut().filter(|message| message.out_of_line.body.is_some()).collect();
        if out_of_line.is_empty() {
            return Ok(());
        }
        let key = self.keys().destination(name).bodies();
        let mut pipe = redis::pipe();
        for message in &out_of_line {
            pipe.cmd("HSTRLEN").arg(&key).arg(Part::Body.field(message.position.sequence));
        }
        let lengths: Vec<u64> = self.query(&pipe).await?;
        for (message, length) in out_of_line.iter_mut().zip(lengths) {
            if message.out_of_line.body != Some(length) {
                message.damaged = Some("its body is missing, or has another length".to_owned());
            }
        }
        Ok(())
    }
}
