import { yieldToEventLoop } from '../../../kernel/clock.ts'

/** Whether a text begins as an SVG document: before its root are a prolog and comments. */
export const isSvg = (head: string): boolean =>
  /^\ufeff?\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?:<!--[^>]{0,2000}-->\s*)?(?:<!DOCTYPE svg[^>]{0,500}>\s*)?<svg[\s>]/i.test(
    head,
  )

/** In characters: slices are read one after the other, and others have their turn between. */
const SLICE = 64 * 1024
/** What a slice has in common with the one before it: nothing that is looked for is longer. */
const OVERLAP = 4 * 1024

/**
 * Tells whether an SVG does more than draw: scripts, handlers of events, pages within it, anything
 * from elsewhere, and declarations, which may hide any of these or fill the memory of a reader. A
 * picture that a model draws has none of them. It is read as a browser reads it: references to
 * characters and escapes of styles stand for what they mean, and prefixes of names do not matter.
 */
export async function isActiveSvg(svg: string): Promise<boolean> {
  let text = ''
  for (let start = 0; start < svg.length; start += SLICE) {
    text += svg.slice(start, start + SLICE).replace(BLANKS, ' ')
    await yieldToEventLoop()
  }
  for (let start = 0; start < text.length; start += SLICE) {
    if (isActiveSlice(text.slice(Math.max(0, start - OVERLAP), start + SLICE))) return true
    await yieldToEventLoop()
  }
  return false
}

// One blank stands for as many as there are, so that no pattern has to count them.
const BLANKS = /[\s\u0085\u00a0]+/g

function isActiveSlice(slice: string): boolean {
  if (slice.includes('\0') || DECLARATIONS.test(slice) || MANY_REFERENCES.test(slice)) return true
  const text = slice.includes('&') ? decodeReferences(slice).replace(BLANKS, ' ') : slice
  if (hasActiveElement(text) || hasActiveStyle(text)) return true
  for (const [, name = '', start = ''] of text.matchAll(ATTRIBUTE))
    if (isActiveAttribute(toLocalName(name), start)) return true
  return text.includes('\\') && hasActiveStyle(decodeStyle(text))
}

// A document type is one of the W3C's, without declarations of its own. Instructions other than the
// first may name a style sheet, and an encoding other than UTF-8 another text.
const DECLARATIONS =
  /<!(?:ENTITY|ATTLIST|ELEMENT|NOTATION)|<!DOCTYPE(?! svg(?: PUBLIC "-\/\/W3C\/\/DTD SVG [^">[\]]{1,60}"(?: {1,9}"[^"[\]]{0,99}")?)? {0,9}>)|<\?(?!xml[ ?])|encoding {0,9}= {0,9}["'](?!utf-?8|us-ascii)/i

/** So many in a row are no text, and could push apart what belongs together. */
const MANY_REFERENCES = /(?:&#x?[0-9a-f]{1,9};){200}/i

const ELEMENT = /<([^\s<>/!?]+)/g

const ACTIVE_ELEMENTS = new Set([
  ...['script', 'foreignobject', 'iframe', 'object', 'embed', 'handler', 'listener', 'link'],
  ...['html', 'body', 'audio', 'video', 'canvas', 'form', 'meta', 'base'],
])

function hasActiveElement(text: string): boolean {
  for (const [, name = ''] of text.matchAll(ELEMENT))
    if (ACTIVE_ELEMENTS.has(toLocalName(name))) return true
  return false
}

const toLocalName = (name: string): string => name.slice(name.lastIndexOf(':') + 1).toLowerCase()

/** A name, and the beginning of its value. */
const ATTRIBUTE = /["'\s/]([^\s=<>"'/]{1,200}) {0,9}= {0,9}["']? {0,9}([^"'>]{0,40})/g

/** Attributes whose values are addresses. */
const ADDRESSES = new Set([
  'href',
  'src',
  'data',
  'base',
  'action',
  'formaction',
  'srcset',
  'poster',
])

/** What an address may be: a place in the same document, or a picture of pixels in it. */
const INNER = /^(?:#|data:image\/(?:png|jpe?g|gif|webp|avif)[;,])/i

function isActiveAttribute(name: string, start: string): boolean {
  if (/^on[a-z]/.test(name)) return true
  if (ADDRESSES.has(name)) return start !== '' && !INNER.test(start)
  // An animation may set an address or a handler.
  if (name === 'attributename') return /^(?:on|[^"'>]{0,30}(?:href|src)$)/i.test(start.trim())
  return /^(?:java|vb)script ?:|^data: ?text\/html/i.test(start)
}

const hasActiveStyle = (text: string): boolean =>
  /@import|expression ?\(|(?:java|vb)script ?:|-moz-binding|image-set ?\(|url {0,9}\( {0,9}["']? {0,9}(?!["' ]|#|data:image\/(?:png|jpe?g|gif|webp|avif)[;,])/i.test(
    text,
  )

const NAMED: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" }

const decodeReferences = (text: string): string =>
  text.replace(/&(?:#(\d{1,9})|#x([0-9a-f]{1,9})|(lt|gt|amp|quot|apos));/gi, (_, ten, hex, name) =>
    name ? (NAMED[name.toLowerCase()] ?? '') : toCharacter(ten ? Number(ten) : parseInt(hex, 16)),
  )

const toCharacter = (point: number): string =>
  point > 0 && point <= 0x10_ff_ff ? String.fromCodePoint(point) : '\ufffd'

/** Reads escapes of CSS. */
const decodeStyle = (text: string): string =>
  text.replace(/\\(?:([0-9a-f]{1,6}) ?|([^0-9a-f]))/gi, (_, hex, other) =>
    hex ? toCharacter(parseInt(hex, 16)) : other,
  )
