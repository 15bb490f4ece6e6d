import { decodeEntities } from './entities.ts'

/** A tag, with the attributes that a reader of texts needs. */
export interface Tag {
  /** In lower case; empty if this is no element's tag. */
  name: string
  isEnd: boolean
  /** Where the tag ends: the place of the next character. */
  end: number
  href: string | null
  alt: string | null
  /** Whether it says that its element is not shown. */
  isHidden: boolean
}

const NOTHING = { name: '', isEnd: false, href: null, alt: null, isHidden: false }

/**
 * Reads what begins with the `<` at `at`: a tag, a comment, a declaration, or a bracket that is text,
 * whose `end` is the next character. What is never closed goes to the end of the text.
 */
export function readTag(html: string, at: number): Tag {
  const next = html[at + 1] ?? ''
  if (html.startsWith('<!--', at)) return { ...NOTHING, end: findEnd(html, '-->', at + 2) }
  if (next === '!' || next === '?') return { ...NOTHING, end: findEnd(html, '>', at) }
  const isEnd = next === '/'
  const start = at + (isEnd ? 2 : 1)
  if (!isLetter(html.charCodeAt(start)))
    return { ...NOTHING, end: isEnd ? findEnd(html, '>', at) : at + 1 }
  const nameEnd = findNameEnd(html, start)
  const name = html.slice(start, Math.min(nameEnd, start + LONGEST_NAME)).toLowerCase()
  return readAttributes(html, nameEnd, { ...NOTHING, name, isEnd, end: nameEnd })
}

const LONGEST_NAME = 32

const isLetter = (code: number): boolean =>
  (code >= 0x61 && code <= 0x7a) || (code >= 0x41 && code <= 0x5a)

function findEnd(html: string, end: string, from: number): number {
  const at = html.indexOf(end, from)
  return at === -1 ? html.length : at + end.length
}

const SPACE = new Set([0x20, 0x09, 0x0a, 0x0c, 0x0d])
const [SLASH, BRACKET, EQUALS] = [0x2f, 0x3e, 0x3d]

function findNameEnd(html: string, from: number): number {
  let at = from
  for (; at < html.length; at++) {
    const code = html.charCodeAt(at)
    if (SPACE.has(code) || code === SLASH || code === BRACKET) break
  }
  return at
}

/** No tag that is meant has more: what follows in it is passed over. */
const MOST_ATTRIBUTES = 1_000

/** Reads attributes up to the bracket that closes the tag, which may stand in a quoted value. */
function readAttributes(html: string, from: number, tag: Tag): Tag {
  let at = from
  let count = 0
  while (at < html.length) {
    const code = html.charCodeAt(at)
    if (code === BRACKET) return Object.assign(tag, { end: at + 1 })
    if (SPACE.has(code) || code === SLASH) at += 1
    else {
      if (count++ === MOST_ATTRIBUTES) return Object.assign(tag, { end: findEnd(html, '>', at) })
      at = readAttribute(html, at, tag)
    }
  }
  return Object.assign(tag, { end: html.length })
}

function readAttribute(html: string, from: number, tag: Tag): number {
  let nameEnd = from + 1
  for (; nameEnd < html.length; nameEnd++) {
    const code = html.charCodeAt(nameEnd)
    if (SPACE.has(code) || code === SLASH || code === BRACKET || code === EQUALS) break
  }
  const name = html.slice(from, Math.min(nameEnd, from + LONGEST_NAME)).toLowerCase()
  let at = skipSpaces(html, nameEnd)
  if (html.charCodeAt(at) !== EQUALS) {
    noteAttribute(tag, name, '')
    // Spaces before something else are read again: at most once.
    return nameEnd
  }
  at = skipSpaces(html, at + 1)
  const quote = html[at]
  const isQuoted = quote === '"' || quote === "'"
  const start = isQuoted ? at + 1 : at
  const end = isQuoted ? findOrEnd(html, quote, start) : findUnquotedEnd(html, start)
  noteAttribute(tag, name, html.slice(start, Math.min(end, start + LONGEST_VALUE)))
  return isQuoted ? end + 1 : end
}

const LONGEST_VALUE = 2_048

function skipSpaces(html: string, from: number): number {
  let at = from
  while (SPACE.has(html.charCodeAt(at))) at += 1
  return at
}

function findOrEnd(html: string, wanted: string, from: number): number {
  const at = html.indexOf(wanted, from)
  return at === -1 ? html.length : at
}

function findUnquotedEnd(html: string, from: number): number {
  let at = from
  for (; at < html.length; at++) {
    const code = html.charCodeAt(at)
    if (SPACE.has(code) || code === BRACKET) break
  }
  return at
}

function noteAttribute(tag: Tag, name: string, value: string): void {
  if (name === 'href') tag.href ??= decodeEntities(value).trim()
  else if (name === 'alt') tag.alt ??= decodeEntities(value).trim()
  else if (name === 'hidden' || (name === 'aria-hidden' && value === 'true')) tag.isHidden = true
  else if (name === 'style' && HIDING.test(value)) tag.isHidden = true
}

const HIDING = /(?:display\s{0,4}:\s{0,4}none|visibility\s{0,4}:\s{0,4}hidden)/i

/**
 * Finds the end of an element whose content is text: where the content ends, and where what follows
 * its end tag begins. Without an end tag both are the end of the text.
 */
export function findRawEnd(html: string, name: string, from: number): [end: number, next: number] {
  const tag = END_TAGS.get(name) ?? new RegExp(`</${name}[ \\t\\n\\f\\r/>]`, 'gi')
  END_TAGS.set(name, tag)
  tag.lastIndex = from
  const at = tag.exec(html)?.index ?? -1
  return at === -1 ? [html.length, html.length] : [at, findEnd(html, '>', at + 2 + name.length)]
}

/** The end tags of elements whose content is text: there are few. */
const END_TAGS = new Map<string, RegExp>()
