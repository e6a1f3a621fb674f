//! Reads lists, which the service returns page by page. A page may have few items, or none, even if more pages follow:
//! the service ends a page when it has checked enough messages.

use serde_json::Value;

use super::{
    paths::{Field, query},
    service::{Answer, Call, Service},
};

/// The most items of a page.
const PAGE_MAX: usize = 1_000;
/// The most pages that one list reads, in case a filter matches nothing in a very long list.
const PAGES_MAX: usize = 1_000;

/// Reads from `cursor` on until there are `limit` items, or the list ends. Returns the last answer, with the items of
/// all pages.
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
            // If there is only one page, keep the answer as the service wrote it.
            if pages > 1 {
                page.set("items", items.into());
            }
            return Ok(page);
        }
        cursor = Some(next);
    }
}
