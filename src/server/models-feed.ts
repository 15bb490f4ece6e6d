import type { toPublicModel } from '../resources/models/view.ts'

/**
 * Renders models as an RSS 2.0 feed: one item per model, dated with its release if it is known. All
 * links are under the site's URL.
 */
export function renderModelsFeed(
  models: ReturnType<typeof toPublicModel>[],
  title: string,
  siteUrl: string,
): Response {
  const site = siteUrl.replace(/\/$/, '')
  const items = models.map(model => renderItem(model, site)).join('')
  const name = escapeXml(title)
  const channel =
    `<title>${name} models</title><link>${escapeXml(`${site}/`)}</link>` +
    `<description>Models that ${name} knows</description>`
  const xml =
    '<?xml version="1.0" encoding="UTF-8"?>\n' +
    `<rss version="2.0"><channel>${channel}${items}</channel></rss>\n`
  return new Response(xml, { headers: { 'content-type': 'application/rss+xml; charset=utf-8' } })
}

function renderItem(
  { id, name, description, created, links }: ReturnType<typeof toPublicModel>,
  site: string,
): string {
  const date = created === 0 ? {} : { pubDate: new Date(created * 1000).toUTCString() }
  const fields = { title: name, link: site + links.details, description, ...date }
  const elements = Object.entries(fields).map(
    ([tag, text]) => `<${tag}>${escapeXml(text)}</${tag}>`,
  )
  return `<item>${elements.join('')}<guid isPermaLink="false">${escapeXml(id)}</guid></item>`
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

const escapeXml = (text: string) =>
  removeForbidden(Bun.stripANSI(text)).replace(/[&<>"]/g, sign => ENTITIES[sign] ?? sign)

// Removes the characters that XML forbids, even escaped (XML 1.0, 2.2): controls, lone surrogates
// and two noncharacters.
const removeForbidden = (text: string) =>
  text.replace(/[^\t\n\r -\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '')
