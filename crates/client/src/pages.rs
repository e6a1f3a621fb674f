//! Reads lists, which the service returns page by page. A page may hold few items, or none, and the list still goes on:
//! the service ends a page when it has looked at enough messages.

use serde_json::Value;

use super::{
    paths::{Field, query},
    service::{Answer, Call, Service},
};

/// The most items of a page.
const PAGE_MAX: usize = 1_000;
/// The most pages of one list, in case that a filter finds nothing in a very long one.
const PAGES_MAX: usize = 1_000;

/// Reads from `cursor` on until there are `limit` items, or the list ends. The last answer, with the items of all.
pub async fn read(
    service: &Service,
    path: &str,
    fields: &[Field],
    limit: usize,
    mut cursor: Option<Value>,
) -> anyhow::Result<Answer> {
    let (mut items, mut pages) = (Vec::new(), 0);
    loop {
        let left = limit.saturating_sub(items.len()).clamp(1, PAGE_MAX);
        let mut fields = fields.to_vec();
        fields.extend([("limit", Some(left.into())), ("cursor", cursor.take())]);
        let mut page = service.call(Call::get(&format!("{path}{}", query(&fields)))).await?;
        let next = page["next_cursor"].clone();
        items.extend(page["items"].as_array().into_iter().flatten().cloned());
        pages += 1;
        if next.is_null() || items.len() >= limit || pages == PAGES_MAX {
            // A list of one page stays as the service wrote it.
            if pages > 1 {
                page.set("items", items.into());
            }
            return Ok(page);
        }
        cursor = Some(next);
    }
}
