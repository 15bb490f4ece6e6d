import type { shownModel } from '../core/catalog/models/shown.ts'

/** Renders models as an RSS 2.0 feed: one item per model, dated with its release if it is known. */
export function modelsFeed(
  models: ReturnType<typeof shownModel>[],
  title: string,
  site: URL,
): Response {
  const items = models.map(model => itemOf(model, site)).join('')
  const name = escaped(title)
  const channel =
    `<title>${name} models</title><link>${escaped(site.href)}</link>` +
    `<description>Models that ${name} knows</description>`
  const xml =
    '<?xml version="1.0" encoding="UTF-8"?>\n' +
    `<rss version="2.0"><channel>${channel}${items}</channel></rss>\n`
  return new Response(xml, { headers: { 'content-type': 'application/rss+xml; charset=utf-8' } })
}

function itemOf(
  { id, name, description, created, links }: ReturnType<typeof shownModel>,
  site: URL,
): string {
  const date = created === 0 ? {} : { pubDate: new Date(created * 1000).toUTCString() }
  const fields = { title: name, link: new URL(links.details, site).href, description, ...date }
  const elements = Object.entries(fields).map(([tag, text]) => `<${tag}>${escaped(text)}</${tag}>`)
  return `<item>${elements.join('')}<guid isPermaLink="false">${escaped(id)}</guid></item>`
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

const escaped = (text: string) =>
  allowed(Bun.stripANSI(text)).replace(/[&<>"]/g, sign => ENTITIES[sign] ?? sign)

// Removes the characters that XML forbids, even escaped (XML 1.0, 2.2): controls, lone surrogates
// and two noncharacters.
const allowed = (text: string) =>
  text.replace(/[^\t\n\r -\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '')
