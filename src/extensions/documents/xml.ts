/** One piece of an XML document. Names are without their prefix. */
type XmlEvent =
  | { type: 'open'; name: string; attributes: string; isEmpty: boolean }
  | { type: 'close'; name: string }
  | { type: 'text'; text: string }

/** The XML cannot be read, or declares what office programs never write. */
class XmlError extends Error {}

/** Of so many characters all pieces become garbage, and the collector waits for much more. */
const COLLECT_AFTER = 2 * 1024 * 1024

/**
 * Reads the pieces of an XML document in linear time. It is no validator: it takes what office
 * programs write. Throws `XmlError` for a document type, so that no entity is ever declared, and
 * for what is not closed.
 */
export function* readXml(bytes: Uint8Array): Generator<XmlEvent> {
  const xml = decodeXml(bytes)
  let at = 0
  let collectAt = COLLECT_AFTER
  while (at < xml.length) {
    if (at > collectAt) {
      Bun.gc(true)
      collectAt = at + COLLECT_AFTER
    }
    const tag = xml.indexOf('<', at)
    const end = tag === -1 ? xml.length : tag
    if (end > at) yield { type: 'text', text: decodeEntities(xml.slice(at, end)) }
    if (tag === -1) return
    if (xml.startsWith('<![CDATA[', tag)) {
      const close = findEnd(xml, ']]>', tag)
      yield { type: 'text', text: xml.slice(tag + '<![CDATA['.length, close) }
      at = close + ']]>'.length
    } else if (xml.startsWith('<!--', tag)) at = findEnd(xml, '-->', tag) + '-->'.length
    else if (xml.startsWith('<?', tag)) at = findEnd(xml, '?>', tag) + '?>'.length
    else if (xml.startsWith('<!', tag)) throw new XmlError('a document type')
    else {
      const close = findTagEnd(xml, tag)
      yield readTag(xml.slice(tag + 1, close))
      at = close + 1
    }
  }
}

const decodeXml = (bytes: Uint8Array): string => {
  const [first, second] = bytes
  if (first === 0xff && second === 0xfe) return new TextDecoder('utf-16le').decode(bytes)
  if (first === 0xfe && second === 0xff) return new TextDecoder('utf-16be').decode(bytes)
  return new TextDecoder().decode(bytes)
}

function findEnd(xml: string, end: string, from: number): number {
  const found = xml.indexOf(end, from)
  if (found === -1) throw new XmlError('the end of a tag')
  return found
}

/** Finds the end of a tag: a value in quotes may have a `>`. */
function findTagEnd(xml: string, from: number): number {
  let quote = ''
  for (let i = from; i < xml.length; i++) {
    const character = xml[i] as string
    if (quote === '' && character === '>') return i
    if (quote === '' && (character === '"' || character === "'")) quote = character
    else if (character === quote) quote = ''
  }
  throw new XmlError('the end of a tag')
}

const NAME_END = /[\s/]/

function readTag(tag: string): XmlEvent {
  if (tag.startsWith('/')) return { type: 'close', name: toLocalName(tag.slice(1).trim()) }
  const isEmpty = tag.endsWith('/')
  const end = tag.search(NAME_END)
  const name = end === -1 ? tag : tag.slice(0, end)
  return { type: 'open', name: toLocalName(name), attributes: tag.slice(name.length), isEmpty }
}

const toLocalName = (name: string) => name.slice(name.indexOf(':') + 1)

/** Returns the value of an attribute by its name without a prefix; undefined if there is none. */
export function readAttribute(attributes: string, name: string): string | undefined {
  for (const quote of ['"', "'"])
    for (let at = attributes.indexOf(`${name}=${quote}`); at !== -1; ) {
      const before = attributes[at - 1]
      const start = at + name.length + 2
      const end = attributes.indexOf(quote, start)
      if (end === -1) return undefined
      if (before === ':' || (before !== undefined && /\s/.test(before)))
        return decodeEntities(attributes.slice(start, end))
      at = attributes.indexOf(`${name}=${quote}`, end)
    }
  return undefined
}

const ENTITIES: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" }
const ENTITY = /&([^;&\s]{0,12});?/g

function decodeEntities(text: string): string {
  return text.includes('&') ? text.replace(ENTITY, (_, name: string) => decodeEntity(name)) : text
}

/** Only the five entities of XML itself, and characters by their number, have a meaning. */
function decodeEntity(name: string): string {
  const known = Object.hasOwn(ENTITIES, name) ? ENTITIES[name] : undefined
  if (known !== undefined) return known
  const [, hexadecimal, decimal] = /^#(?:x([0-9a-f]{1,6})|([0-9]{1,7}))$/i.exec(name) ?? []
  const code = hexadecimal ? Number.parseInt(hexadecimal, 16) : Number(decimal ?? Number.NaN)
  if (!(code > 0 && code <= 0x10ffff)) throw new XmlError('an entity that is not declared')
  return String.fromCodePoint(code)
}
